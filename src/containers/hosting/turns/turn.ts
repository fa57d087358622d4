/** The kinds of turns (a call, a callback, a timer) and what they need of their activation. Types only. */
import type { Done, Outcome } from '../../../base/errors.ts';
import type { Clock, Log, StoreWrite } from '../../../base/ports.ts';
import type { CallOutput } from '../../contract.ts';
import type { Context } from '../../module.ts';
import type { CallChanges, ContainerContents } from '../state/container-contents.ts';
import type { ContextInfo } from './call-context.ts';
import type { Inbox } from './inbox.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import type { PendingCall } from './pending-call.ts';

/** A turn without a caller: a callback or a timer. It ends when its writes are committed. */
export type InternalTurn = {
  readonly name: string;
  readonly timeMsMax: number;
  /** If it throws or rejects, the turn fails and its changes are dropped. */
  readonly run: (ctx: Context, changes: CallChanges) => unknown;
  /** Rows to write besides the changes of `run`. */
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
  /** The activation has not ended, and the serving lease holds at this instant. */
  readonly canServe: (nowMs?: number) => boolean;
  /** So many commits are pending that the next writing turn has to wait. */
  readonly isCommitQueueFull: () => boolean;
  /** Commits the rows; the turn ends when they are durable. */
  readonly commit: (rows: readonly StoreWrite[], bytes: number, turn: Turn) => void;
  /** Replies when the state that is in memory now is durable. */
  readonly reply: (pending: PendingCall, outcome: Outcome<CallOutput>) => void;
  readonly timersChanged: () => void;
  /** A turn has ended; it may be the last one that `whenIdle` waits for. */
  readonly turnEnded: () => void;
};
