import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { LinkedList, type ListNode } from './linked-list.ts';

it('keeps the order in which things came, whoever leaves, and however often', () => {
  const step = fc.oneof(fc.constant('add' as const), fc.nat(30));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const chain = new LinkedList<number>();
      const model = new Set<number>();
      const links: ListNode<number>[] = [];
      for (const one of steps) {
        if (one === 'add') {
          model.add(links.length);
          links.push(chain.add(links.length));
        } else if (links[one] !== undefined) {
          model.delete(one);
          chain.remove(links[one]);
        }
        assert.deepEqual(chain.all(), [...model]);
      }
    }),
  );
});
