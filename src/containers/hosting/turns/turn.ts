/** What takes a turn (a call, a callback, a timer) and what turns need of their activation. Types only. */
import type { Done, Outcome } from '../../../base/errors.ts';
import type { Clock, Log, StoreWrite } from '../../../base/ports.ts';
import type { CallOutput } from '../../contract.ts';
import type { Context } from '../../module.ts';
import type { CallChanges, ContainerContents } from '../state/container-contents.ts';
import type { ContextInfo } from './call-context.ts';
import type { Inbox } from './inbox.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import type { PendingCall } from './pending-call.ts';

/** A turn that nobody has called for: a callback, a timer. It ends when what it wrote is committed. */
export type InternalTurn = {
  readonly name: string;
  readonly timeMsMax: number;
  /** What is thrown, or rejected, is its failure: then nothing of it counts. */
  readonly run: (ctx: Context, changes: CallChanges) => unknown;
  /** Besides what `run` writes. */
  readonly rows?: readonly StoreWrite[];
  readonly done: Done<void>;
};

export type Turn = PendingCall | InternalTurn;

export type TurnPorts = {
  readonly clock: Clock;
  readonly limits: HostingLimits;
  readonly log: Log;
  readonly contextInfo: ContextInfo;
  readonly contents: ContainerContents;
  readonly inbox: Inbox;
  /** Ours, open, and the lease holds: at this instant. */
  readonly canServe: (nowMs?: number) => boolean;
  /** So many commits are under way that the next writing turn has to wait. */
  readonly isCommitQueueFull: () => boolean;
  /** Makes it durable; the turn ends after it. */
  readonly commit: (rows: readonly StoreWrite[], bytes: number, turn: Turn) => void;
  /** Answers when everything that is in memory now is durable. */
  readonly answer: (pending: PendingCall, outcome: Outcome<CallOutput>) => void;
  readonly timersChanged: () => void;
  /** A turn has ended: somebody may wait for the last one. */
  readonly turnEnded: () => void;
};
