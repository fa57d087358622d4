import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type SimulatedCluster, simulateCluster } from './testing.ts';

function states(cluster: SimulatedCluster, name: string): string {
  return cluster
    .members(name)
    .map((member) => `${member.name} ${member.state}`)
    .toSorted()
    .join(', ');
}

const minute = 60_000;

it('a simulated cluster starts nodes that know each other', async () => {
  const cluster = simulateCluster({ nodes: 3 });
  await cluster.advance(10_000);
  assert.equal(cluster.nowMs(), 10_000);
  for (const name of cluster.names) assert.equal(states(cluster, name), 'n1 alive, n2 alive, n3 alive');
});

it('a simulated node can be killed and restarted', async () => {
  const cluster = simulateCluster({ nodes: 3 });
  await cluster.advance(10_000);
  cluster.kill('n2');
  assert.deepEqual(cluster.members('n2'), []);
  await cluster.advance(minute);
  assert.equal(states(cluster, 'n1'), 'n1 alive, n2 dead, n3 alive');
  cluster.restart('n2');
  assert.throws(() => cluster.restart('n2'), { code: 'BAD_ARGUMENT' });
  await cluster.advance(minute);
  assert.equal(states(cluster, 'n1'), 'n1 alive, n2 alive, n3 alive');
  assert.equal(cluster.members('n1').find(({ name }) => name === 'n2')?.generation, 2);
});

it('a simulated cluster can be partitioned and healed', async () => {
  const cluster = simulateCluster({ nodes: 4, seed: 'parted' });
  await cluster.advance(10_000);
  cluster.partition(['n1', 'n2']);
  await cluster.advance(minute);
  assert.equal(states(cluster, 'n1'), 'n1 alive, n2 alive, n3 dead, n4 dead');
  assert.equal(states(cluster, 'n4'), 'n1 dead, n2 dead, n3 alive, n4 alive');
  cluster.heal();
  await cluster.advance(minute);
  for (const name of cluster.names) assert.equal(states(cluster, name), 'n1 alive, n2 alive, n3 alive, n4 alive');
});

it('a simulated node can lose power, and can be paused', async () => {
  const cluster = simulateCluster({ nodes: 3 });
  await cluster.advance(10_000);
  cluster.losePower('n3');
  cluster.pause('n2', 2 * minute);
  await cluster.advance(minute);
  assert.equal(states(cluster, 'n1'), 'n1 alive, n2 dead, n3 dead');
  cluster.restart('n3');
  await cluster.advance(3 * minute);
  assert.equal(states(cluster, 'n1'), 'n1 alive, n2 alive, n3 alive');
});

it('a simulated cluster gives the same log for the same seed', async () => {
  const run = async (seed: number): Promise<string[]> => {
    const lines: string[] = [];
    const cluster = simulateCluster({ nodes: 5, seed, onLine: (line) => lines.push(line) });
    await cluster.advance(5_000);
    cluster.kill('n1');
    await cluster.advance(30_000);
    assert.deepEqual(cluster.lastLines(3), lines.slice(-3));
    return lines;
  };
  const first = await run(1);
  assert.deepEqual(await run(1), first);
  assert.notDeepEqual(await run(2), first);
  assert.ok(first.some((line) => /n1 +process killed/.test(line)));
});

it('promises of the test settle while virtual time passes', async () => {
  const cluster = simulateCluster();
  let turns = 0;
  const spinning = (async () => {
    while (cluster.nowMs() < 1_000) {
      turns += 1;
      await Promise.resolve();
    }
  })();
  await cluster.advance(2_000);
  await spinning;
  assert.ok(turns > 1);
});

it('the controls of a simulated cluster reject the name of an unknown node', () => {
  const cluster = simulateCluster();
  for (const action of [() => cluster.kill('n9'), () => cluster.members('x'), () => cluster.partition(['n1', 'y'])]) {
    assert.throws(action, { code: 'BAD_ARGUMENT' });
  }
});
