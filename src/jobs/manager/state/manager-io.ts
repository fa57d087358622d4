/** Declares the inputs and effects of the job manager machine. Types only. */
import type { Outcome } from '../../../base/errors.ts';
import type { Fence } from '../../../base/fence.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { TimerExpired, PersistFailed, Schedule, CancelTimer } from '../../../base/runtime/loop.ts';
import type { Address, Identity } from '../../../base/ports.ts';
import type { KeyRange, RangeResult, RegistryTransaction, TransactionResult } from '../../../base/registry.ts';
import type { JobMessage, JobMessageOf, JobVerb } from '../../../messages/jobs.ts';
import type { JobEvent } from './manager-ports.ts';
import type { ManagedJob } from '../model/managed-job.ts';

/** The answer of an order is JSON, of the others a message. */
export type ManagerReply = string | JobMessage;

export type ManagerAction =
  | { readonly kind: 'read'; readonly id: number; readonly range: KeyRange; readonly limit: number }
  | { readonly kind: 'transact'; readonly id: number; readonly transaction: RegistryTransaction }
  | { readonly kind: 'answer'; readonly call: number; readonly outcome: Outcome<ManagerReply> }
  /** Reads what lies apart of a job that is over, and answers with it. */
  | {
      readonly kind: 'gather';
      readonly call: number;
      readonly verb: ResultVerb;
      readonly job: ManagedJob;
      readonly argumentsJson: ResultQuery;
    }
  | { readonly kind: 'give'; readonly id: number; readonly to: Address; readonly message: JobMessageOf<'assignUnits'> }
  | { readonly kind: 'stop'; readonly id: number; readonly to: Address; readonly message: JobMessageOf<'stopUnits'> }
  | { readonly kind: 'tell'; readonly event: JobEvent };

export type ResultVerb = 'report' | 'result' | 'failures';

export type ResultQuery = {
  readonly workflow: string | undefined;
  readonly part: number | undefined;
  /** Of `result`: items of batches as `{index, value}` or `{index, error}`. */
  readonly oneByOne: boolean;
};

export type ManagerTimer = 'flush' | 'tick';
export type ManagerEffect = ManagerAction | Schedule<ManagerTimer> | CancelTimer;

export type ManagerInput =
  | { readonly kind: 'became'; readonly fence: Fence }
  | { readonly kind: 'lost' }
  | { readonly kind: 'read'; readonly id: number; readonly outcome: Outcome<RangeResult> }
  | { readonly kind: 'transacted'; readonly id: number; readonly outcome: Outcome<TransactionResult> }
  | {
      readonly kind: 'order';
      readonly call: number;
      readonly verb: JobVerb;
      readonly argumentsJson: string;
      readonly submitter: string;
      readonly remainingMs: number;
      /** Of `submit`: it is answered when the job is over, at the latest after so long. */
      readonly waitMs: number;
      /** Of `submit`: its idempotencyKey, unless the words have one. */
      readonly key: string | undefined;
    }
  | {
      readonly kind: 'report';
      readonly call: number;
      readonly from: Identity;
      readonly message: JobMessageOf<'workerHeartbeat'>;
    }
  | {
      readonly kind: 'news';
      readonly call: number;
      readonly from: Identity;
      readonly message: JobMessageOf<'reportUnits'>;
    }
  | { readonly kind: 'given'; readonly id: number; readonly outcome: Outcome<JobMessage> }
  | { readonly kind: 'stopped'; readonly id: number; readonly outcome: Outcome<JobMessage> }
  | { readonly kind: 'gone'; readonly node: NodeId; readonly generation: number }
  | { readonly kind: 'members' };

export type ManagerStepInput = ManagerInput | TimerExpired<ManagerTimer> | PersistFailed;
