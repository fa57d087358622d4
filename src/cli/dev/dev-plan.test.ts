/** The plan of a dev cluster: nodes, seeds, environment, groups of a partition. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentEnvironment, agentArguments, parseGroups, planDevNodes, seedsFor } from './dev-plan.ts';

const ports = [7400, 7401, 7402, 7403, 7404].map((port) => ({ port, httpPort: port + 100 }));

describe('the plan', () => {
  test('has the requested nodes, each with one role', () => {
    const nodes = planDevNodes({ gates: 1, managers: 3, workers: 3, dcs: 1 });
    assert.deepEqual(
      nodes.map((node) => node.name),
      ['g1', 'm1', 'm2', 'm3', 'w1', 'w2', 'w3'],
    );
    assert.deepEqual(nodes[0], { name: 'g1', roles: ['gate'], dc: 'dc1' });
  });

  test('gives each datacenter its own managers and workers', () => {
    const nodes = planDevNodes({ gates: 2, managers: 1, workers: 2, dcs: 2 });
    assert.deepEqual(
      nodes.map((node) => `${node.name}@${node.dc}`),
      ['g1@dc1', 'g2@dc2', 'm1@dc1', 'm2@dc2', 'w1@dc1', 'w2@dc1', 'w3@dc2', 'w4@dc2'],
    );
  });

  test('has at least one and at most 50 nodes', () => {
    assert.throws(() => planDevNodes({ gates: 0, managers: 0, workers: 0, dcs: 1 }), /1 to 50 nodes/);
    assert.throws(() => planDevNodes({ gates: 1, managers: 30, workers: 30, dcs: 1 }), /1 to 50 nodes/);
  });

  test('gives a node other nodes with known ports as seeds', () => {
    assert.deepEqual(seedsFor(0, ports), ['127.0.0.1:7401', '127.0.0.1:7402', '127.0.0.1:7403']);
    assert.deepEqual(
      seedsFor(1, [
        { port: 9, httpPort: 10 },
        { port: 0, httpPort: 0 },
      ]),
      ['127.0.0.1:9'],
    );
  });
});

test('a node gets secrets by its environment, never by its command line, and no option of another node', () => {
  const identity = { root: '/r', secret: 'the-secret', token: 'the-token' };
  const own = { PATH: '/bin', REMUSTER_PORT: '1', REMUSTER_LOG_LEVEL: 'debug', REMUSTER_AUTH_SECRET: 'other' };
  const environment = agentEnvironment(own, identity, { rejoin: 'active', console: true });
  assert.deepEqual(environment, {
    PATH: '/bin',
    REMUSTER_LOG_LEVEL: 'debug',
    REMUSTER_PROFILE: 'local',
    REMUSTER_AUTH_SECRET: 'the-secret',
    REMUSTER_TOKEN: 'the-token',
    REMUSTER_REJOIN: 'active',
  });
  const args = agentArguments({ name: 'w1', roles: ['worker'], dc: 'dc1' }, { port: 1, httpPort: 2 }, [], {
    root: '/r',
    temporary: true,
  });
  assert.ok(args.includes('--dev-temporary'));
  assert.ok(!args.includes('--join'));
  assert.ok(!args.join(' ').includes('the-'));
});

test('nodes serve no console if the cluster has none, whatever the environment says', () => {
  const identity = { root: '/r', secret: 'the-secret', token: 'the-token' };
  const own = { REMUSTER_CONSOLE: 'true' };
  const environment = agentEnvironment(own, identity, { rejoin: 'active', console: false });
  assert.equal(environment['REMUSTER_CONSOLE'], 'false');
});

describe('groups of a partition', () => {
  const known = ['a', 'b', 'c', 'd'];

  test('are separated by a slash, their nodes by commas', () => {
    assert.deepEqual(parseGroups('a,b / c', known), [['a', 'b'], ['c']]);
    assert.deepEqual(parseGroups('a/b/c', known), [['a'], ['b'], ['c']]);
  });

  test('contain all other nodes when only one group is given', () => {
    assert.deepEqual(parseGroups('a', known), [['a'], ['b', 'c', 'd']]);
  });

  test('are refused when a node is unknown or in two groups, or a group is empty', () => {
    assert.throws(() => parseGroups('a / x', known), /there is no node "x": the nodes are a, b, c, d/);
    assert.throws(() => parseGroups('a /', known), /A,B \/ C/);
    assert.throws(() => parseGroups('a,b / b', known), /two groups/);
  });
});
