import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fenceOf } from '../../base/fence.ts';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import type { Peer } from '../../base/ports.ts';
import type { LeadershipView } from '../../base/registry.ts';
import { preferSelfWhenLeaderless, managersByPreference } from './manager-selection.ts';
import type { KnownManager } from '../group/group-autopilot.ts';
import { newestLeadership } from './observed-leadership.ts';

const [a, b, c] = [1, 2, 3].map((byte) => nodeIdFrom(new Uint8Array(16).fill(byte))) as [NodeId, NodeId, NodeId];
const peer = (id: NodeId): Peer => ({ id, host: '127.0.0.1', port: 1 });

test('a manager without a leader sends to itself, and to others as soon as a leader exists', () => {
  const receivers: NodeId[] = [];
  let isLeaderless = true;
  const send = preferSelfWhenLeaderless(
    (to) => {
      receivers.push(to.id);
      return () => {};
    },
    peer(a),
    () => isLeaderless,
  );
  send(peer(b), new Uint8Array(), 1, () => {});
  isLeaderless = false;
  send(peer(b), new Uint8Array(), 1, () => {});
  assert.deepEqual(receivers, [a, b]);
});

test('requests go to the leader first, then to this node, then to the others, and never to dead managers', () => {
  const manager = (id: NodeId, isAlive = true): KnownManager => ({ ...peer(id), name: id, isAlive });
  const seen = [a, b, c].map((id) => manager(id));
  const order = (leader: NodeId | undefined, self: NodeId | undefined): NodeId[] =>
    managersByPreference(seen, leader, self).map(({ id }) => id);
  assert.deepEqual(order(c, b), [c, b, a]);
  assert.deepEqual(order(undefined, b), [b, a, c]);
  assert.deepEqual(order(undefined, undefined), [a, b, c]);
  const living = managersByPreference([manager(a), manager(b), manager(c, false)], c, b);
  assert.deepEqual(
    living.map(({ id }) => id),
    [b, a],
  );
});

test('gossip of the same term does not replace the view of a group member that lost its leader', () => {
  const led = (leader: NodeId, term: number): LeadershipView => ({ leader, term, fence: fenceOf(term, 1) });
  const lost = (term: number): LeadershipView => ({ leader: undefined, term, fence: undefined });
  assert.deepEqual(newestLeadership(lost(4), led(a, 4), true), lost(4));
  assert.deepEqual(newestLeadership(lost(4), led(a, 4), false), led(a, 4));
  assert.deepEqual(newestLeadership(lost(4), led(a, 3), false), lost(4));
  assert.deepEqual(newestLeadership(lost(4), led(b, 5), true), led(b, 5));
  assert.deepEqual(newestLeadership(led(a, 4), led(b, 5), true), led(b, 5));
  assert.deepEqual(newestLeadership(led(a, 4), led(b, 4), false), led(a, 4));
  assert.deepEqual(newestLeadership(lost(0), lost(7), false), lost(0));
});
