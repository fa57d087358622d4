import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LinkedList, type ListNode } from './linked-list.ts';

describe('a linked list', () => {
  it('keeps insertion order, whatever is removed and however often', () => {
    const step = fc.oneof(fc.constant('add' as const), fc.nat(30));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const list = new LinkedList<number>();
        const model = new Set<number>();
        const nodes: ListNode<number>[] = [];
        for (const one of steps) {
          if (one === 'add') {
            model.add(nodes.length);
            nodes.push(list.add(nodes.length));
          } else if (nodes[one] !== undefined) {
            model.delete(one);
            list.remove(nodes[one]);
          }
          assert.deepEqual(list.all(), [...model]);
        }
      }),
    );
  });
});
