/** The events of the address table, for operators. Kinds and fields are part of the event log of a node. */
import type { ErrorCode } from '../../base/errors.ts';

export type AddressTableEvent =
  /** The table equals the registry for the first time since the start of the node. */
  | { readonly kind: 'table.confirmed'; readonly version: number; readonly containers: number }
  /** STORE_CORRUPT: the file is not used, and is rebuilt from the registry. */
  | { readonly kind: 'table.damaged'; readonly file: string; readonly code: ErrorCode; readonly reason: string }
  /** The disk refuses writes: the table does not change, and the write is retried. Emitted once until it works. */
  | { readonly kind: 'table.log-failing'; readonly code: ErrorCode; readonly reason: string }
  | { readonly kind: 'table.log-works' }
  /**
   * PRECONDITION: the state on this disk is of another group. The table does not follow the registry, and this node
   * serves no container.
   */
  | { readonly kind: 'table.refused'; readonly code: ErrorCode; readonly reason: string }
  /** The whole table is loaded again. */
  | { readonly kind: 'table.repairing'; readonly reason: string };
