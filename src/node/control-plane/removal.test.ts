import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';
import { removalBlocker } from './removal.ts';

function member(number: number, standing: GroupMember['standing'] = 'voter'): GroupMember {
  const id = nodeIdFrom(new Uint8Array(16).fill(number));
  return { id, name: `m${number}`, host: '10.0.0.1', port: number, standing };
}

const allCaughtUp = (): boolean => true;
const allBut =
  (...absent: readonly GroupMember[]) =>
  (id: NodeId): boolean =>
    !absent.some((one) => one.id === id);

test('one of three voters can be removed, alive or dead, but no second one while one is dead', () => {
  const [a, b, c] = [member(1), member(2), member(3)];
  assert.equal(removalBlocker([a, b, c], a.id, allCaughtUp), undefined);
  assert.equal(removalBlocker([a, b, c], c.id, allBut(c)), undefined);
  const why = removalBlocker([a, b, c], b.id, allBut(c));
  assert.match(why ?? '', /without m2 the group has 2 voters and needs 2 of them, but only 1 can vote \(m3 cannot\)/);
});

test('the last voter cannot be removed; a manager without a vote can', () => {
  const [only, syncing] = [member(1), member(2, 'syncing')];
  assert.match(removalBlocker([only, syncing], only.id, allCaughtUp) ?? '', /m1 is the last voter/);
  assert.equal(removalBlocker([only, syncing], syncing.id, allBut(syncing)), undefined);
  assert.match(removalBlocker([only], syncing.id, allCaughtUp) ?? '', /does not belong/);
});

test('a removal is allowed exactly if a majority of the remaining voters is caught up', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }), fc.nat(), (following, pick) => {
      const members = following.map((_, index) => member(index + 1));
      const removed = members[pick % members.length] as GroupMember;
      const isCaughtUp = (id: NodeId): boolean => following[members.findIndex((one) => one.id === id)] === true;
      const remaining = members.filter((one) => one !== removed);
      const isSafe = 2 * remaining.filter((one) => isCaughtUp(one.id)).length > remaining.length;
      assert.equal(removalBlocker(members, removed.id, isCaughtUp) === undefined, isSafe);
    }),
  );
});
