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

const everybody = (): boolean => true;
const allBut =
  (...absent: readonly GroupMember[]) =>
  (id: NodeId): boolean =>
    !absent.some((one) => one.id === id);

test('one of three goes, also a dead one; a second one does not while one is dead', () => {
  const [a, b, c] = [member(1), member(2), member(3)];
  assert.equal(removalBlocker([a, b, c], a.id, everybody), undefined);
  assert.equal(removalBlocker([a, b, c], c.id, allBut(c)), undefined);
  const why = removalBlocker([a, b, c], b.id, allBut(c));
  assert.match(why ?? '', /without m2 there would be 2 voters, of which 2 are needed and 1 can be .*\(m3 cannot\)/);
});

test('the last voter stays, and whoever does not vote may go', () => {
  const [only, syncing] = [member(1), member(2, 'syncing')];
  assert.match(removalBlocker([only, syncing], only.id, everybody) ?? '', /m1 is the last voter/);
  assert.equal(removalBlocker([only, syncing], syncing.id, allBut(syncing)), undefined);
  assert.match(removalBlocker([only], syncing.id, everybody) ?? '', /does not belong/);
});

test('whatever is allowed, a majority of those who stay can be relied on', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }), fc.nat(), (following, pick) => {
      const members = following.map((_, index) => member(index + 1));
      const removed = members[pick % members.length] as GroupMember;
      const follows = (id: NodeId): boolean => following[members.findIndex((one) => one.id === id)] === true;
      const left = members.filter((one) => one !== removed);
      const isSafe = 2 * left.filter((one) => follows(one.id)).length > left.length;
      assert.equal(removalBlocker(members, removed.id, follows) === undefined, isSafe);
    }),
  );
});
