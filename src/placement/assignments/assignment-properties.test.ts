import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  AssignmentTestCluster,
  type AssignmentTestNode,
  ttlMs,
} from '../../../test/support/placement/assignment-cluster.ts';

/**
 * Random nodes are killed, cut off, drained, activated and restarted, leaders change and old ones do not hear of it,
 * hosts are slow and fail. At every revision each assignment is in exactly one place (the cluster checks it), at no
 * moment two nodes serve the same, and when the trouble ends everything is served again.
 */
const seeds = 150;
const troubleMs = 30_000;

type Trouble = (cluster: AssignmentTestCluster, node: AssignmentTestNode) => void;

const troubles: readonly Trouble[] = [
  (_, node) => (node.isUp ? node.kill() : undefined),
  (_, node) => {
    if (!node.isUp) node.start(node.mode === 'active' ? 'active' : 'drained', 'fast_restart');
  },
  (_, node) => node.cut(),
  (_, node) => node.heal(),
  (_, node) => node.heal(),
  (cluster, node) => cluster.operations.drain(node.id, { parallelMax: 1 + cluster.random.below(3) }, () => {}),
  (_, node) => (node.isUp && node.mode === 'drained' ? node.setMode('active', 'admin_activate') : undefined),
  (_, node) => (node.isUp && node.mode === 'drained' ? node.setMode('active', 'admin_activate') : undefined),
  (cluster, node) => (node.isUp ? cluster.lead(node.name) : undefined),
  (cluster, node) => (node.isUp ? cluster.lead(node.name, 'does not know') : undefined),
  (cluster, node) => node.assigner.rebalance({ movesMax: 1 + cluster.random.below(8) }, () => {}),
  (cluster, node) => cluster.create(1, cluster.random.chance(0.5) ? { preferred: node.id } : {}),
  // The answer is lost, but what was asked for happens.
  (_, node) => node.registry.interrupt('DEADLINE', { happens: true }),
];

/** A node that was down for longer than its lease must not come back active. */
function restart(
  cluster: AssignmentTestCluster,
  node: AssignmentTestNode,
  downSinceMs: Map<AssignmentTestNode, number>,
): void {
  const isLate = cluster.timeline.nowMs - (downSinceMs.get(node) ?? 0) >= 0.5 * ttlMs;
  if (node.isUp) return;
  node.start(isLate || node.mode !== 'active' ? 'drained' : 'active', isLate ? 'stale_restart' : 'fast_restart');
}

function live(seed: number): AssignmentTestCluster {
  const cluster = new AssignmentTestCluster({
    seed: String(seed),
    delayMsMax: 300,
    failures: 0.1,
    rebalance: { mode: 'automatic', intervalMs: 3_000, cooldownMs: 1_000, movesPerHourMax: 1_000 },
    assigner: { releaseTimeoutMs: 2_000, transactionsMax: 1 + (seed % 4) },
  });
  const { random } = cluster;
  cluster.add(4);
  cluster.lead('a');
  cluster.create(12);
  const downSinceMs = new Map<AssignmentTestNode, number>();
  while (cluster.timeline.nowMs < troubleMs) {
    const node = random.pick(cluster.nodes);
    const trouble = random.below(troubles.length);
    const wasUp = node.isUp;
    if (trouble === 1) restart(cluster, node, downSinceMs);
    else troubles[trouble]?.(cluster, node);
    if (wasUp && !node.isUp) downSinceMs.set(node, cluster.timeline.nowMs);
    cluster.run(random.below(800));
  }
  for (const node of cluster.nodes) {
    node.heal();
    restart(cluster, node, downSinceMs);
  }
  cluster.run(2 * ttlMs);
  cluster.lead('b');
  cluster.run(1_000);
  for (const node of cluster.nodes) if (node.mode === 'drained') node.setMode('active', 'admin_activate');
  return cluster;
}

test(`${seeds} random lives: nothing is lost, doubled or served twice, and all is served in the end`, () => {
  let revisions = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const cluster = live(seed);
    const isWell = (): boolean => cluster.isSettled() && cluster.places().size === cluster.created.size;
    cluster.until(isWell, 90_000, 'everything is served');
    revisions += cluster.revisionsChecked;
    for (const node of cluster.nodes) if (node.isUp) node.kill();
  }
  assert.ok(revisions > 100 * seeds, `${revisions} revisions are too few to show anything`);
});
