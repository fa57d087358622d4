/** Options and events of the placer. An event is reported after its transaction has succeeded. */
import type { NodeId } from '../../base/ids.ts';

export type PlacementContainerEvent = {
  readonly kind:
    | 'container.assigned'
    | 'container.recovered'
    | 'container.recoveryFailed'
    | 'container.waiting'
    | 'container.moving'
    | 'container.moveCancelled'
    | 'container.migrated';
  readonly pool: string;
  readonly container: number;
  /** Who has it now, or is to have it. */
  readonly node: NodeId | undefined;
  /** Who had it before. */
  readonly from: NodeId | undefined;
  readonly reason: string;
  /** Somebody should look at it. */
  readonly needsAttention: boolean;
};

export type PlacerEvent =
  | { readonly kind: 'placer.leading' }
  | { readonly kind: 'placer.superseded' }
  | PlacementContainerEvent
  | { readonly kind: 'pool.created' | 'pool.deleted'; readonly pool: string; readonly containers: number };
