/** Events of drains and rebalancing; each is emitted after its transaction has succeeded. */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ContainerMove } from '../state/container-records.ts';
import { heldCount } from '../state/node-holdings.ts';
import type { AssignerTask } from '../plans/drain-plan.ts';

export type BalanceEvent =
  | { readonly kind: 'leading' }
  | { readonly kind: 'superseded' }
  /** The same event as that of the placer for a move requested by an operator. */
  | {
      readonly kind: 'container.moving';
      readonly pool: string;
      readonly container: number;
      readonly node: NodeId;
      readonly from: NodeId;
      readonly reason: ContainerMove['cause'];
    }
  | { readonly kind: 'drained'; readonly node: NodeId }
  | { readonly kind: 'drainOverdue'; readonly node: NodeId; readonly remaining: number }
  | { readonly kind: 'drainEnded'; readonly node: NodeId }
  | { readonly kind: 'spreadBegun'; readonly node: NodeId }
  | { readonly kind: 'spreadEnded'; readonly node: NodeId };

export function balanceEventOf(task: AssignerTask): BalanceEvent {
  switch (task.kind) {
    case 'move': {
      const { held, node, to, cause: reason } = task;
      const { pool, container } = held.name;
      return { kind: 'container.moving', pool, container: Number(container), node: to.id, from: node.id, reason };
    }
    case 'drained':
      return { kind: 'drained', node: task.node.id };
    case 'overdue':
      return { kind: 'drainOverdue', node: task.node.id, remaining: heldCount(task.node) };
    case 'removeDrain':
      return { kind: 'drainEnded', node: task.node.id };
    case 'markNewNode':
      return { kind: 'spreadBegun', node: task.node.id };
    case 'unmarkNewNode':
      return { kind: 'spreadEnded', node: task.node.id };
    default:
      return unreachable(task);
  }
}
