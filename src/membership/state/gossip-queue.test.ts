import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import { type Claim, type ClaimKind } from './claim.ts';
import { GossipQueue, claimBytesBound } from './gossip-queue.ts';

const node = (n: number) => String(n).padStart(32, '0') as NodeId;
const claim = (kind: ClaimKind, n: number, incarnation = 0): Claim => ({
  ...{ kind, id: node(n), generation: 1, incarnation, by: node(99), refused: false, entry: undefined },
});
const room = (claims: number) => claims * claimBytesBound(claim('dead', 1));
const said = (claims: readonly Claim[]) => claims.map(({ kind, id }) => `${kind} ${Number(id)}`);

describe('gossip buffer', () => {
  it('tells the oldest first, then in the order join, left, alive, suspect, dead', () => {
    const buffer = new GossipQueue(10, () => {});
    for (const kind of ['dead', 'suspect', 'alive', 'left', 'join'] as const) buffer.add(claim(kind, buffer.size));
    const told = said(buffer.take(room(9), 3));
    assert.deepEqual(told, ['dead 0', 'join 4', 'left 3', 'alive 2', 'suspect 1']);
  });

  it('starves nobody: a death behind an endless flow of joins reaches its count', () => {
    const buffer = new GossipQueue(1_000, () => {});
    buffer.add(claim('dead', 0));
    let deaths = 0;
    for (let turn = 1; turn <= 40; turn++) {
      buffer.add(claim('join', turn));
      deaths += buffer.take(room(2), 4).filter(({ kind }) => kind === 'dead').length;
    }
    assert.equal(deaths, 4);
  });

  it('forgets a claim after it was told as often as it should be', () => {
    const buffer = new GossipQueue(10, () => {});
    buffer.add(claim('alive', 1));
    const times = Array.from({ length: 6 }, () => buffer.take(room(1), 4).length);
    assert.deepEqual(times, [1, 1, 1, 1, 0, 0]);
    assert.equal(buffer.size, 0);
  });

  it('keeps one claim per member, the latest, and tells it anew', () => {
    const buffer = new GossipQueue(10, () => {});
    buffer.add(claim('suspect', 1, 0));
    buffer.take(room(1), 4);
    buffer.add(claim('alive', 1, 1));
    assert.equal(buffer.size, 1);
    assert.deepEqual(said(buffer.take(room(5), 4)), ['alive 1']);
  });

  it('has a bound: what was told most gives way, and the owner hears of it', () => {
    let overflows = 0;
    const buffer = new GossipQueue(2, () => (overflows += 1));
    buffer.add(claim('alive', 1));
    buffer.take(room(1), 4);
    buffer.add(claim('alive', 2));
    buffer.add(claim('alive', 3));
    assert.equal(overflows, 1);
    assert.deepEqual(said(buffer.take(room(5), 4)).toSorted(), ['alive 2', 'alive 3']);
  });

  it('never exceeds the room of a message', () => {
    const buffer = new GossipQueue(100, () => {});
    for (let n = 0; n < 50; n++) buffer.add(claim('suspect', n));
    assert.equal(buffer.take(room(7) + 5, 4).length, 7);
  });
});
