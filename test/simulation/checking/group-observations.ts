/** Facts that a simulated group reports, as data. No behaviour. */
import type { ErrorCode, StateChanged } from '../../../src/base/errors.ts';
import type { Fence } from '../../../src/base/fence.ts';
import type { CellCommand } from '../workloads/groups/replicated-cells.ts';

/** An order without its attempts: one thing that a client wants done once. */
export type CommandId = { readonly client: string; readonly number: number };

export type GroupObservation =
  /** A node has told somebody of this term, in any message but those that only sound out an election. */
  | { readonly kind: 'toldTerm'; readonly node: string; readonly term: number }
  | { readonly kind: 'voted'; readonly node: string; readonly term: number; readonly candidate: string }
  /** A node is the leader of a term by its own view; `voters` are those it counts. */
  | { readonly kind: 'leads'; readonly node: string; readonly term: number; readonly voters: readonly string[] }
  /** A node has said that it holds the log up to `index`. */
  | { readonly kind: 'holds'; readonly node: string; readonly term: number; readonly index: number }
  /** The highest index that a leader regards as agreed; `voters` are those it counts, `isDurable` speaks of its disk. */
  | {
      readonly kind: 'commits';
      readonly node: string;
      readonly term: number;
      readonly index: number;
      readonly isDurable: boolean;
      readonly voters: readonly string[];
    }
  /** All nodes whose lease holds at this instant by their own word. */
  | { readonly kind: 'leases'; readonly nodes: readonly string[] }
  | { readonly kind: 'became'; readonly node: string; readonly fence: Fence }
  | {
      readonly kind: 'applied';
      readonly node: string;
      readonly index: number;
      readonly term: number;
      readonly chain: number;
      readonly order: CellCommand;
      readonly effective: boolean;
    }
  | { readonly kind: 'restored'; readonly node: string; readonly index: number; readonly chain: number }
  | { readonly kind: 'called'; readonly order: CellCommand }
  /** A client has its answer; `index` is where it was agreed, for what is not a read. */
  | { readonly kind: 'answered'; readonly order: CommandId; readonly saw: string }
  | {
      readonly kind: 'agreed';
      readonly node: string;
      readonly order: CellCommand;
      readonly index: number;
      readonly fence: Fence;
    }
  /** A node has ended an attempt with an error. */
  | {
      readonly kind: 'attemptFailed';
      readonly order: CellCommand;
      readonly code: ErrorCode;
      readonly stateChanged: StateChanged;
    }
  /** A change of members was asked of a node, and how it ended. */
  | { readonly kind: 'changeStarted'; readonly node: string; readonly change: number }
  | { readonly kind: 'changeEnded'; readonly node: string; readonly change: number; readonly ok: boolean }
  /** How the group stands, now and then, once the faults are over. */
  | { readonly kind: 'standing'; readonly seats: readonly GroupNodeStatus[] };

/** One running node as it stands. */
export type GroupNodeStatus = {
  readonly node: string;
  readonly isLeading: boolean;
  readonly leader: string | undefined;
  readonly term: number;
  readonly isMember: boolean;
  readonly index: number;
  readonly chain: number;
};
