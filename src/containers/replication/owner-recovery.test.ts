/** How owners begin and end, with the disks they find: small stories of three nodes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fenceOf } from '../../base/fence.ts';
import { ReplicationTestCluster } from '../../../test/support/containers/replication-cluster.ts';

function running(seed: string, names: readonly string[] = ['a', 'b'], settings = {}): ReplicationTestCluster {
  const world = new ReplicationTestCluster(seed, settings);
  for (const name of ['a', 'b', 'c']) world.start(name);
  world.create(0, names);
  world.until('it is open', () => world.node('a').opened.has(0));
  world.until('its copies are in sync', () => world.inSyncNames() === names.join(''));
  return world;
}

describe('an opening', () => {
  test('gives what was acknowledged, after any restart', () => {
    const world = running('restart');
    assert.ok(world.commit('a', 0, { k: '1', l: '2' }).ok);
    world.kill('a');
    world.start('a');
    const found: string[] = [];
    const opened = (_node: unknown, _change: unknown, entries: readonly { key: string }[]): void => {
      found.push(entries.map(({ key }) => key).join(''));
    };
    world.hosting = { ...world.hosting, opened };
    world.give(0, 'a', { opening: 'restart' });
    world.until('it is open', () => found.length === 1);
    assert.deepEqual(found, ['kl']);
    assert.ok(world.commit('a', 0, { k: '3' }).ok);
    assert.equal(world.state('b').get('k'), '3');
  });

  test('puts its fence on every disk in sync, before any commit', () => {
    const world = running('fence', ['a', 'b', 'c']);
    world.node('a').side.interrupt();
    world.cut.add('ab').add('ac');
    world.give(0, 'b');
    world.until('b has it', () => world.node('b').opened.has(0));
    world.kill('c');
    assert.equal(world.inSyncNames(), 'bc');
    assert.deepEqual(
      [world.meta('b').maxFence, world.meta('c').maxFence],
      [world.record()?.fence, world.record()?.fence],
    );
  });

  test('writes nothing over a later owner that came while it opened', () => {
    const world = running('overtaken', ['a']);
    const { host, id, tried } = world.node('a');
    world.give(0, 'a');
    world.until('it has begun to open', () => tried.get(0) === world.record()?.fence);
    const later = fenceOf(7, 7);
    const value = new TextEncoder().encode('later');
    const of = { pool: 7, container: 0, fence: later, inMemory: false, revision: 9 };
    const whole = {
      snapshot: 1,
      step: 0,
      entries: [{ key: 'k', value }],
      commits: [],
      install: { fence: later, seq: 3 },
    };
    host.handle({ id }, { kind: 'replicateSnapshot', ...of, ...whole }, (outcome) => assert.ok(outcome.ok));
    const { log } = world.node('a').opened.get(0) ?? {};
    let code: string | undefined;
    world.until('it is open again', () => world.node('a').opened.get(0)?.log !== log);
    world
      .node('a')
      .opened.get(0)
      ?.log.commit(
        [{ key: 'k', value: new Uint8Array(1) }],
        (outcome) => (code = outcome.ok ? 'ok' : outcome.error.code),
      );
    world.until('it ends', () => code !== undefined);
    assert.deepEqual([code, world.state('a')], ['FENCED', new Map([['k', 'later']])]);
  });

  test('takes nothing that is no rows into its log', () => {
    const world = running('no rows', ['a', 'b']);
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    const { host, id } = world.node('b');
    const { maxFence: fence, position } = world.meta('b');
    const request = { kind: 'replicateCommits', pool: 7, container: 0, fence, inMemory: false, revision: 9 } as const;
    let code: string | undefined;
    host.handle({ id }, { ...request, after: position, commits: [Uint8Array.of(1, 2, 3)] }, (outcome) => {
      code = outcome.ok ? 'taken' : outcome.error.code;
    });
    assert.equal(code, 'MALFORMED');
    assert.ok(world.commit('a', 0, { k: '2' }).ok);
    assert.deepEqual(world.state('b'), new Map([['k', '2']]));
  });

  test('never begins with nothing where there was something', () => {
    const world = running('lost disk');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.kill('a');
    world.kill('b');
    world.node('b').disk.stores.clear();
    world.start('b');
    const codes: string[] = [];
    world.hosting = { ...world.hosting, notOpened: (_node, _change, code) => codes.push(code) };
    world.give(0, 'b');
    world.until('it is refused', () => codes.length === 1, 20_000);
    assert.deepEqual(codes, ['STORE_CORRUPT']);
    assert.equal(world.inSyncNames(), 'a', 'only who has it is named');
  });

  test('refuses damaged state and is copied anew', () => {
    const world = running('damaged');
    assert.ok(world.commit('a', 0, { k: 'some value' }).ok);
    world.kill('a');
    const content = world.node('a').disk.store('store');
    const rows = content.read({ from: 'copies/s/', to: 'copies/t', limit: 10 });
    assert.ok(rows.ok);
    content.corrupt(rows.value[0]?.key ?? '', world.random);
    world.start('a');
    const codes: string[] = [];
    world.hosting = { ...world.hosting, notOpened: (_node, _change, code) => codes.push(code) };
    world.give(0, 'a', { opening: 'restart' });
    world.until('it is refused', () => codes.length === 1);
    assert.deepEqual([codes, world.inSyncNames()], [['STORE_CORRUPT'], 'b']);
    world.give(0, 'b');
    world.until('a is copied anew', () => world.inSyncNames() === 'ab', 20_000);
    assert.deepEqual(world.state('a'), new Map([['k', 'some value']]));
  });

  test('of a new container begins with nothing, whatever lies there', () => {
    const world = running('new');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    const found: number[] = [];
    world.hosting = { ...world.hosting, opened: (_node, _change, entries) => found.push(entries.length) };
    world.give(0, 'a', { opening: 'init', phase: 'opening', inSync: [{ node: world.node('a').id, generation: 1 }] });
    world.until('it is open', () => found.length === 1);
    assert.deepEqual(found, [0]);
    world.until('b follows', () => world.inSyncNames() === 'ab');
    assert.deepEqual(world.state('b'), new Map());
  });

  test('does not show what may not be kept', () => {
    const world = running('unacknowledged', ['a', 'b', 'c']);
    world.cut.add('ac');
    // b has it, c has not, nobody was told.
    world
      .node('a')
      .opened.get(0)
      ?.log.commit([{ key: 'k', value: new Uint8Array(1) }], () => assert.fail('no'));
    world.run(50);
    world.kill('a');
    assert.deepEqual([world.state('b').has('k'), world.state('c').has('k')], [true, false]);
    world.cut.add('bc');
    world.give(0, 'b');
    const isOpen = (): boolean => world.node('b').opened.has(0);
    world.run(500);
    assert.equal(isOpen(), false, 'c is in sync and has not what b would show');
    world.until('c is taken out', isOpen);
    assert.equal(world.inSyncNames(), 'b');
  });
});

describe('a node', () => {
  test('drops what is not its own any more when it returns', () => {
    const world = running('leftovers');
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    world.kill('b');
    world.write(0, () => undefined);
    world.run(100);
    const b = world.start('b', 1_000);
    world.run(5_000);
    assert.ok(world.rows('b') > 0, 'nothing goes because it is unknown');
    b.host.reconcile(() => 'notMine');
    world.until('all is gone', () => world.rows('b') === 0);
  });

  test('tells what it holds', () => {
    const world = running('holdings');
    const brief = (name: string): string =>
      world
        .node(name)
        .host.hostedReplicas()
        .map(({ pool, id, role, inSync }) => `${pool}/${id} ${role} ${inSync}`)
        .join();
    world.run(10);
    assert.deepEqual([brief('a'), brief('b'), brief('c')], ['p/0 owner true', 'p/0 copy true', '']);
    assert.deepEqual(world.node('a').host.metrics().open, 1);
  });

  test('closes a container when its commits have ended', () => {
    const world = running('close');
    const ends: string[] = [];
    const log = world.node('a').opened.get(0)?.log;
    log?.commit([{ key: 'k', value: new Uint8Array(1) }], (outcome) => ends.push(outcome.ok ? 'ok' : 'no'));
    log?.close(() => ends.push('closed'));
    log?.commit([{ key: 'l', value: new Uint8Array(1) }], (outcome) =>
      ends.push(outcome.ok ? 'ok' : outcome.error.code),
    );
    world.until('it is closed', () => ends.includes('closed'));
    assert.deepEqual(ends, ['ok', 'FENCED', 'closed']);
    assert.equal(world.node('a').host.metrics().open, 0);
  });
});

describe('a pool in memory', () => {
  test('touches no disk, and lives as long as a copy does', () => {
    const world = running('memory', ['a', 'b'], { durability: 'memory' });
    assert.ok(world.commit('a', 0, { k: '1' }).ok);
    assert.equal(world.rows('a') + world.rows('b'), 0);
    world.kill('a');
    const found: string[] = [];
    const opened = (_node: unknown, _change: unknown, entries: readonly { key: string }[]): void => {
      found.push(entries.map(({ key }) => key).join());
    };
    world.hosting = { ...world.hosting, opened };
    world.give(0, 'b');
    world.until('b has it', () => found.length === 1);
    assert.deepEqual(found, ['k']);
    world.start('a');
    world.until('a is a copy in its new life', () => {
      const holder = world.record()?.inSync.find(({ node }) => node === world.node('a').id);
      return holder?.generation === 2;
    });
    assert.ok(world.commit('b', 0, { l: '2' }).ok);
  });
});
