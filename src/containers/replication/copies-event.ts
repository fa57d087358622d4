/** What has happened to copies, for logs, events and whoever follows them. It is told after it has happened. */
import type { NodeId } from '../../base/ids.ts';

type OfContainer = { readonly pool: string; readonly container: number };

export type ReplicationEvent =
  /** The set in sync, without the owner, has changed. */
  | ({ readonly kind: 'inSync'; readonly nodes: readonly NodeId[]; readonly left: readonly NodeId[] } & OfContainer)
  /** The log at the owner has ended before it was closed. */
  | ({ readonly kind: 'lost'; readonly reason: string } & OfContainer)
  /** The state here cannot be read, or is not here although it should be. */
  | ({ readonly kind: 'corrupt'; readonly reason: string } & OfContainer)
  /** Nothing of it is left on this node, because the record said so. */
  | { readonly kind: 'dropped'; readonly pool: number; readonly container: number }
  /** What was left by an earlier life could not be looked at. */
  | { readonly kind: 'unreconciled'; readonly reason: string };
