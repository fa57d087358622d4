/** Inputs and effects of the job manager machine. Types only. */
import type { Outcome } from '../../../base/errors.ts';
import type { Fence } from '../../../base/fence.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { TimerExpired, PersistFailed, Schedule, CancelTimer } from '../../../base/runtime/loop.ts';
import type { Address, Identity } from '../../../base/ports.ts';
import type { KeyRange, RangeResult, RegistryTransaction, TransactionResult } from '../../../base/registry.ts';
import type { JobMessage, JobMessageOf, JobVerb } from '../../../messages/jobs.ts';
import type { JobEvent } from './manager-ports.ts';
import type { ManagedJob } from '../model/managed-job.ts';

/** JSON for a command, a message for the others. */
export type ManagerReply = string | JobMessage;

export type ManagerAction =
  | { readonly kind: 'read'; readonly id: number; readonly range: KeyRange; readonly limit: number }
  | { readonly kind: 'transact'; readonly id: number; readonly transaction: RegistryTransaction }
  | { readonly kind: 'reply'; readonly call: number; readonly outcome: Outcome<ManagerReply> }
  /** Reads the out-of-line results of a finished job and replies with them. */
  | {
      readonly kind: 'readResult';
      readonly call: number;
      readonly verb: ResultVerb;
      readonly job: ManagedJob;
      readonly query: ResultQuery;
    }
  | {
      readonly kind: 'assign';
      readonly id: number;
      readonly to: Address;
      readonly message: JobMessageOf<'assignUnits'>;
    }
  | { readonly kind: 'stop'; readonly id: number; readonly to: Address; readonly message: JobMessageOf<'stopUnits'> }
  | { readonly kind: 'emit'; readonly event: JobEvent };

export type ResultVerb = 'report' | 'result' | 'failures';

export type ResultQuery = {
  readonly workflow: string | undefined;
  readonly part: number | undefined;
  /** `result` of a batch: one `{index, value}` or `{index, error}` per item. */
  readonly oneByOne: boolean;
};

export type ManagerTimer = 'flush' | 'tick';
export type ManagerEffect = ManagerAction | Schedule<ManagerTimer> | CancelTimer;

export type ManagerInput =
  | { readonly kind: 'becameLeader'; readonly fence: Fence }
  | { readonly kind: 'lostLeadership' }
  | { readonly kind: 'read'; readonly id: number; readonly outcome: Outcome<RangeResult> }
  | { readonly kind: 'transacted'; readonly id: number; readonly outcome: Outcome<TransactionResult> }
  | {
      readonly kind: 'command';
      readonly call: number;
      readonly verb: JobVerb;
      readonly argumentsJson: string;
      readonly submitter: string;
      readonly remainingMs: number;
      /** `submit`: the reply waits for the end of the job, at the latest for this time. */
      readonly waitMs: number;
      /** `submit`: the idempotency key, unless the arguments contain one. */
      readonly idempotencyKey: string | undefined;
    }
  | {
      readonly kind: 'heartbeat';
      readonly call: number;
      readonly from: Identity;
      readonly message: JobMessageOf<'workerHeartbeat'>;
    }
  | {
      readonly kind: 'unitReports';
      readonly call: number;
      readonly from: Identity;
      readonly message: JobMessageOf<'reportUnits'>;
    }
  | { readonly kind: 'assignReply'; readonly id: number; readonly outcome: Outcome<JobMessage> }
  | { readonly kind: 'stopReply'; readonly id: number; readonly outcome: Outcome<JobMessage> }
  | { readonly kind: 'processGone'; readonly node: NodeId; readonly generation: number }
  | { readonly kind: 'membershipChanged' };

export type ManagerStepInput = ManagerInput | TimerExpired<ManagerTimer> | PersistFailed;
