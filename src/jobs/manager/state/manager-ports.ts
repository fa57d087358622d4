/** What the job manager needs from its node, its options and its events. Types and defaults only. */
import type { Done } from '../../../base/errors.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { Address, Clock } from '../../../base/ports.ts';
import type { Random } from '../../../base/random.ts';
import type { Leadership, Registry } from '../../../base/registry.ts';
import type { JobMessage } from '../../../messages/jobs.ts';
import type { AttemptOutcome, JobStatus } from '../../job-types.ts';
import { jobLimits } from '../../limits.ts';

/** State of a worker in membership and registration. */
export type WorkerStatus = {
  readonly id: NodeId;
  readonly name: string;
  readonly generation: number;
  readonly address: Address;
  readonly state: 'alive' | 'suspect' | 'dead' | 'left';
  readonly stuck: boolean;
  /** Local health score of membership: 0 is best. */
  readonly health: number;
  readonly admin: 'active' | 'draining' | 'drained' | undefined;
};

export type JobEvent =
  | { readonly kind: 'job.state'; readonly job: string; readonly name: string; readonly status: JobStatus }
  | {
      readonly kind: 'workflow.attempt';
      readonly job: string;
      readonly workflow: string;
      readonly unit: number;
      readonly attempt: number;
      /** Name of the node. */
      readonly worker: string;
      readonly outcome: AttemptOutcome;
    };

export type JobManagerPorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: Pick<Registry, 'range' | 'transact'>;
  readonly leadership: Leadership;
  readonly dc: string;
  /** Ends with the reply or an error, at the latest after `timeoutMs`. */
  request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  /** Current state in membership and registration. */
  worker(id: NodeId): WorkerStatus | undefined;
  sha256(bytes: Uint8Array): string;
  emit(event: JobEvent): void;
  halted(error: unknown): void;
};

export type JobManagerOptions = {
  /**
   * Lease of a worker: without a reply to its heartbeats its units end by 0.8 of it, and the leader reassigns at 1.1.
   */
  readonly jobLeaseMs: number;
  /** Timeout of a job that gives none. */
  readonly jobTimeoutMs: number;
  /** Size of all results of a workflow. */
  readonly jobResultBytesMax: number;
};

export const jobManagerDefaults: JobManagerOptions = {
  jobLeaseMs: 10_000,
  jobTimeoutMs: 3_600_000,
  jobResultBytesMax: jobLimits.resultBytesMax,
};
