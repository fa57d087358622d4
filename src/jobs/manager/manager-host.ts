/**
 * Drives the manager of jobs: tells it when this node leads, carries what it decides to the registry and to workers,
 * and answers orders, reports and news. It decides nothing, but acts only while the lease of the leader surely holds.
 */
import { type Done, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import type { JobMessageOf, JobVerb } from '../../messages/jobs.ts';
import type { ManagerOptions, ManagerPorts } from './manager-ports.ts';

export type { JobEvent, ManagerOptions, ManagerPorts, WorkerKnown } from './manager-ports.ts';

export class ManagerHost {
  constructor(_ports: ManagerPorts, _options: Partial<ManagerOptions> = {}) {}

  /** A jobOrder for the leader. NOT_LEADER elsewhere: the desk of the node passes it on. */
  order(_verb: JobVerb, _words: string, _submitter: string, _remainingMs: number, done: Done<string>): void {
    done(failure('INTERNAL', 'not built yet'));
  }

  /** On any node: writes the code to the registry unless it is there. */
  storeBundle(_sha256: string, _code: Uint8Array, done: Done<void>): void {
    done(failure('INTERNAL', 'not built yet'));
  }

  heardReport(_from: Identity, _message: JobMessageOf<'workerReport'>, reply: Done<JobMessageOf<'workerHeard'>>): void {
    reply(failure('INTERNAL', 'not built yet'));
  }

  heardNews(_from: Identity, _message: JobMessageOf<'tellUnits'>, reply: Done<JobMessageOf<'unitsHeard'>>): void {
    reply(failure('INTERNAL', 'not built yet'));
  }

  /** Proof, not belief: the process of that life runs no longer. */
  gone(_node: NodeId, _generation: number): void {}

  /** What `workers` gives may differ now. */
  memberChanged(): void {}

  counts(): { readonly open: number; readonly queued: number; readonly running: number } {
    return { open: 0, queued: 0, running: 0 };
  }

  stop(): void {}
}
