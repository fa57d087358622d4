/** What the assigner has done or found, for logs, events and whoever follows them. It is told after it has happened. */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ContainerMove } from '../state/container-records.ts';
import { heldCount } from '../state/node-holdings.ts';
import type { MoveReason } from '../../registry/assignment/record.ts';
import type { DrainTask } from '../plans/drain-plan.ts';

export type BalanceEvent =
  | { readonly kind: 'leading' }
  | { readonly kind: 'superseded' }
  | { readonly kind: 'lost'; readonly name: string; readonly node: NodeId }
  | { readonly kind: 'assigned'; readonly name: string; readonly node: NodeId; readonly reason: MoveReason }
  | { readonly kind: 'moving'; readonly name: string; readonly node: NodeId; readonly reason: MoveReason }
  /** As the placer tells it when somebody orders a move. */
  | {
      readonly kind: 'container.moving';
      readonly pool: string;
      readonly container: number;
      readonly node: NodeId;
      readonly from: NodeId;
      readonly reason: ContainerMove['cause'];
    }
  | { readonly kind: 'kept'; readonly name: string; readonly node: NodeId }
  | { readonly kind: 'drained'; readonly node: NodeId }
  | { readonly kind: 'drainOverdue'; readonly node: NodeId; readonly remaining: number }
  | { readonly kind: 'drainEnded'; readonly node: NodeId }
  | { readonly kind: 'spreadBegun'; readonly node: NodeId }
  | { readonly kind: 'spreadEnded'; readonly node: NodeId };

export function balanceEventOf(task: DrainTask): BalanceEvent {
  switch (task.kind) {
    case 'reclaim':
      return { kind: 'lost', name: task.held.text, node: task.node.id };
    case 'give':
      return { kind: 'assigned', name: task.waiting.text, node: task.to.id, reason: task.waiting.record.reason };
    case 'release':
      return { kind: 'moving', name: task.held.text, node: task.node.id, reason: task.reason };
    case 'move': {
      const { held, node, to, cause: reason } = task;
      const { pool, container } = held.name;
      return { kind: 'container.moving', pool, container: Number(container), node: to.id, from: node.id, reason };
    }
    case 'keep':
      return { kind: 'kept', name: task.held.text, node: task.node.id };
    case 'drained':
      return { kind: 'drained', node: task.node.id };
    case 'overdue':
      return { kind: 'drainOverdue', node: task.node.id, remaining: heldCount(task.node) };
    case 'forgetDrain':
      return { kind: 'drainEnded', node: task.node.id };
    case 'beginSpread':
      return { kind: 'spreadBegun', node: task.node.id };
    case 'endSpread':
      return { kind: 'spreadEnded', node: task.node.id };
    default:
      return unreachable(task);
  }
}
