/** What the assigner has done or found, for logs, events and whoever follows them. It is told after it has happened. */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { MoveReason } from './record.ts';
import type { Task } from './tasks.ts';

export type AssignerEvent =
  | { readonly kind: 'leading' }
  | { readonly kind: 'superseded' }
  | { readonly kind: 'lost'; readonly name: string; readonly node: NodeId }
  | { readonly kind: 'assigned'; readonly name: string; readonly node: NodeId; readonly reason: MoveReason }
  | { readonly kind: 'moving'; readonly name: string; readonly node: NodeId; readonly reason: MoveReason }
  | { readonly kind: 'kept'; readonly name: string; readonly node: NodeId }
  | { readonly kind: 'drained'; readonly node: NodeId }
  | { readonly kind: 'drainOverdue'; readonly node: NodeId; readonly remaining: number }
  | { readonly kind: 'drainEnded'; readonly node: NodeId };

export function eventOf(task: Task): AssignerEvent {
  switch (task.kind) {
    case 'reclaim':
      return { kind: 'lost', name: task.held.text, node: task.node.id };
    case 'give':
      return { kind: 'assigned', name: task.waiting.text, node: task.to.id, reason: task.waiting.record.reason };
    case 'release':
      return { kind: 'moving', name: task.held.text, node: task.node.id, reason: task.reason };
    case 'keep':
      return { kind: 'kept', name: task.held.text, node: task.node.id };
    case 'drained':
      return { kind: 'drained', node: task.node.id };
    case 'overdue':
      return { kind: 'drainOverdue', node: task.node.id, remaining: task.node.assignments.size };
    case 'forgetDrain':
      return { kind: 'drainEnded', node: task.node.id };
    default:
      return unreachable(task);
  }
}
