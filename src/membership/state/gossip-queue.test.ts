import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import { type Claim, type ClaimKind } from './claim.ts';
import { GossipQueue, claimBytesBound } from './gossip-queue.ts';

const node = (n: number) => String(n).padStart(32, '0') as NodeId;
const claim = (kind: ClaimKind, n: number, incarnation = 0): Claim => ({
  ...{ kind, id: node(n), generation: 1, incarnation, by: node(99), refused: false, entry: undefined },
});
const bytesOf = (claims: number) => claims * claimBytesBound(claim('dead', 1));
const format = (claims: readonly Claim[]) => claims.map(({ kind, id }) => `${kind} ${Number(id)}`);

describe('the gossip queue', () => {
  it('sends the oldest claim first, then in the order join, left, alive, suspect, dead', () => {
    const queue = new GossipQueue(10, () => {});
    for (const kind of ['dead', 'suspect', 'alive', 'left', 'join'] as const) queue.add(claim(kind, queue.size));
    const sent = format(queue.take(bytesOf(9), 3));
    assert.deepEqual(sent, ['dead 0', 'join 4', 'left 3', 'alive 2', 'suspect 1']);
  });

  it('starves no claim: a death behind an endless flow of joins reaches its count', () => {
    const queue = new GossipQueue(1_000, () => {});
    queue.add(claim('dead', 0));
    let deaths = 0;
    for (let turn = 1; turn <= 40; turn++) {
      queue.add(claim('join', turn));
      deaths += queue.take(bytesOf(2), 4).filter(({ kind }) => kind === 'dead').length;
    }
    assert.equal(deaths, 4);
  });

  it('drops a claim that was transmitted often enough', () => {
    const queue = new GossipQueue(10, () => {});
    queue.add(claim('alive', 1));
    const times = Array.from({ length: 6 }, () => queue.take(bytesOf(1), 4).length);
    assert.deepEqual(times, [1, 1, 1, 1, 0, 0]);
    assert.equal(queue.size, 0);
  });

  it('keeps only the latest claim per member, and counts its transmissions from zero', () => {
    const queue = new GossipQueue(10, () => {});
    queue.add(claim('suspect', 1, 0));
    queue.take(bytesOf(1), 4);
    queue.add(claim('alive', 1, 1));
    assert.equal(queue.size, 1);
    assert.deepEqual(format(queue.take(bytesOf(5), 4)), ['alive 1']);
  });

  it('drops the most transmitted claim when it is full, and reports the overflow', () => {
    let overflows = 0;
    const queue = new GossipQueue(2, () => (overflows += 1));
    queue.add(claim('alive', 1));
    queue.take(bytesOf(1), 4);
    queue.add(claim('alive', 2));
    queue.add(claim('alive', 3));
    assert.equal(overflows, 1);
    assert.deepEqual(format(queue.take(bytesOf(5), 4)).toSorted(), ['alive 2', 'alive 3']);
  });

  it('never exceeds the size of a message', () => {
    const queue = new GossipQueue(100, () => {});
    for (let n = 0; n < 50; n++) queue.add(claim('suspect', n));
    assert.equal(queue.take(bytesOf(7) + 5, 4).length, 7);
  });
});
