/** Facts that a simulated consensus group reports, as data. No behaviour. */
import type { ErrorCode, StateChanged } from '../../../src/base/errors.ts';
import type { Fence } from '../../../src/base/fence.ts';
import type { CellCommand } from '../workloads/groups/replicated-cells.ts';

/** A command without its attempts: what a client wants applied once. */
export type CommandId = { readonly client: string; readonly number: number };

export type GroupObservation =
  /** A node has sent this term in a message other than a pre-vote. */
  | { readonly kind: 'termSent'; readonly node: string; readonly term: number }
  | { readonly kind: 'voted'; readonly node: string; readonly term: number; readonly candidate: string }
  /** A node is the leader of a term in its own view; `voters` is its configuration. */
  | { readonly kind: 'leads'; readonly node: string; readonly term: number; readonly voters: readonly string[] }
  /** A node has acknowledged that it holds the log up to `index`. */
  | { readonly kind: 'logAcknowledged'; readonly node: string; readonly term: number; readonly index: number }
  /**
   * The commit index of a leader; `voters` is its configuration, `isDurable` says whether its own disk has the entry.
   */
  | {
      readonly kind: 'commitAdvanced';
      readonly node: string;
      readonly term: number;
      readonly index: number;
      readonly isDurable: boolean;
      readonly voters: readonly string[];
    }
  /** All nodes that rely on a leader lease at this instant. */
  | { readonly kind: 'leasesHeld'; readonly nodes: readonly string[] }
  | { readonly kind: 'elected'; readonly node: string; readonly fence: Fence }
  | {
      readonly kind: 'applied';
      readonly node: string;
      readonly index: number;
      readonly term: number;
      readonly chain: number;
      readonly command: CellCommand;
      readonly effective: boolean;
    }
  | { readonly kind: 'restored'; readonly node: string; readonly index: number; readonly chain: number }
  | { readonly kind: 'called'; readonly command: CellCommand }
  /** A client has its reply. */
  | { readonly kind: 'replied'; readonly command: CommandId; readonly returned: string }
  | {
      readonly kind: 'committed';
      readonly node: string;
      readonly command: CellCommand;
      readonly index: number;
      readonly fence: Fence;
    }
  /** A node has ended an attempt with an error. */
  | {
      readonly kind: 'attemptFailed';
      readonly command: CellCommand;
      readonly code: ErrorCode;
      readonly stateChanged: StateChanged;
    }
  /** A configuration change was proposed to a node, and its outcome. */
  | { readonly kind: 'changeStarted'; readonly node: string; readonly change: number }
  | { readonly kind: 'changeEnded'; readonly node: string; readonly change: number; readonly ok: boolean }
  /** The state of all running nodes, read periodically. */
  | { readonly kind: 'groupStatus'; readonly nodes: readonly GroupNodeStatus[] };

/** The state of one running node. */
export type GroupNodeStatus = {
  readonly node: string;
  readonly isLeading: boolean;
  readonly leader: string | undefined;
  readonly term: number;
  readonly isMember: boolean;
  readonly index: number;
  readonly chain: number;
};
