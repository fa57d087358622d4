/** Routes of pools and containers: replies, rejections and commands, on a node of a fake cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import { type Done, isRemusterError, success } from '../../base/errors.ts';
import type { ApiRequest } from '../../base/http-routes.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { poolRoutes } from './pool-routes.ts';

type Fields = Readonly<Record<string, unknown>>;

/** One node of the cluster, as far as these routes use it. */
class Scene {
  readonly cluster: DrainTestCluster = startedCluster(3, { mode: 'off' });
  readonly placer = new FakePlacer(this.cluster, 2);
  readonly audited: Fields[] = [];
  readonly commands: unknown[] = [];
  readonly #core: NodeCore;

  constructor() {
    const members = this.cluster.nodes.map(({ id, name }) => ({ id, name, dc: 'here', state: 'alive', roles: [] }));
    const core = {
      identity: { dc: 'here', name: 'a' },
      members: () => [...members, { ...members[0], name: 'far', id: 'f'.repeat(32), dc: 'there' }],
      control: {
        registry: this.cluster.registry,
        clock: this.cluster.clock,
        recordAdminEvent: (order: string, fields: Fields) => this.audited.push({ order, ...fields }),
        commands: {
          send: (verb: string, words: object, _timeoutMs: number, done: Done<unknown>) => {
            this.commands.push({ verb, ...words });
            done(success({}));
          },
        },
      },
    };
    this.#core = core as unknown as NodeCore;
  }

  async invoke(method: string, path: string, request: Partial<ApiRequest> = {}): Promise<Fields> {
    const route = poolRoutes(this.#core).find((one) => one.method === method && one.path === path);
    assert.ok(route, `there is no ${method} ${path}`);
    let isSettled = false;
    const handled = route.handler({ params: {}, query: {}, body: undefined, lastEventId: undefined, ...request });
    const ended = handled.finally(() => {
      isSettled = true;
    });
    ended.catch(() => {});
    for (let step = 0; !isSettled; step++) {
      assert.ok(step < 1_000, `${path} hangs`);
      this.cluster.run(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const response = await ended;
    assert.ok('json' in response);
    assert.equal((response.json as Fields)['schemaVersion'], 1);
    return response.json as Fields;
  }

  async refused(
    code: Parameters<typeof isRemusterError>[1],
    pattern: RegExp,
    pending: Promise<unknown>,
  ): Promise<void> {
    await assert.rejects(pending, (error) => {
      assert.ok(isRemusterError(error, code), String(error));
      assert.match(error.message, pattern);
      return true;
    });
  }

  create(others: object = {}): Promise<Fields> {
    const body = { name: 'visits', module: 'counter', containers: 4, reason: 'for a test', ...others };
    return this.invoke('POST', '/v1/pools', { body });
  }

  container(id: string, rest = '', body?: object): Promise<Fields> {
    const method = body === undefined ? 'GET' : 'POST';
    return this.invoke(method, `/v1/containers/:pool/:id${rest}`, { params: { pool: 'q', id }, body });
  }
}

test('a pool is created once, listed, shown and deleted, with an audit event for each command', async () => {
  const scene = new Scene();
  assert.equal((await scene.create())['created'], true);
  assert.equal((await scene.create())['created'], false);
  await scene.refused('PRECONDITION', /with containers 4, not 5/, scene.create({ containers: 5 }));
  const { items } = await scene.invoke('GET', '/v1/pools');
  assert.deepEqual(
    (items as readonly Fields[]).map(({ name, id, containers, serving }) => [name, id, containers, serving]),
    [['visits', '1.0', 4, 0]],
  );
  const shown = await scene.invoke('GET', '/v1/pools/:pool', { params: { pool: 'visits' }, query: { limit: '3' } });
  assert.deepEqual([(shown['containers'] as readonly unknown[]).length, shown['more']], [3, true]);
  const pending = (query: Record<string, string>): Promise<Fields> =>
    scene.invoke('DELETE', '/v1/pools/:pool', { params: { pool: 'visits' }, query });
  const dry = await pending({ dryRun: '' });
  assert.deepEqual([dry['dryRun'], dry['containerCount'], dry['state']], [true, 4, 'active']);
  assert.equal((await pending({ reason: 'done' }))['state'], 'deleting');
  assert.deepEqual(
    scene.audited.map(({ order, pool, reason }) => [order, pool, reason]),
    [
      ['pool-create', 'visits', 'for a test'],
      ['pool-delete', 'visits', 'done'],
    ],
  );
});

test('an invalid request is rejected before any write', async () => {
  const scene = new Scene();
  await scene.refused('BAD_ARGUMENT', /a pool has no field "container"/, scene.create({ container: 4 }));
  await scene.refused('BAD_ARGUMENT', /name of a module/, scene.create({ module: null }));
  await scene.refused('BAD_ARGUMENT', /JSON object/, scene.invoke('POST', '/v1/pools', { body: [] }));
  await scene.refused('BAD_ARGUMENT', /reason must be text/, scene.create({ reason: 7 }));
  await scene.refused('UNKNOWN_POOL', /no pool p/, scene.invoke('GET', '/v1/pools/:pool', { params: { pool: 'p' } }));
  await scene.refused('UNKNOWN_POOL', /no pool q/, scene.container('0'));
  await scene.refused('BAD_ARGUMENT', /whole number/, scene.container('x'));
  assert.deepEqual((await scene.invoke('GET', '/v1/pools'))['items'], []);
});

test('a container is shown and explained', async () => {
  const scene = new Scene();
  scene.placer.create(3, 'abc');
  const shown = await scene.container('1');
  assert.deepEqual([shown['pool'], shown['id'], shown['owner'], shown['copies']], ['q', 1, 'b', ['b', 'c']]);
  const { reasons, recoverableBy } = await scene.container('1', '/explain');
  assert.match((reasons as readonly string[]).join(' '), /b .* owns it/);
  assert.deepEqual(recoverableBy, ['c']);
  await scene.refused('UNKNOWN_CONTAINER', /0 to 2, not 3/, scene.container('3'));
});

test('a move is sent to the leader with the id of the node, unless the container is there already', async () => {
  const scene = new Scene();
  scene.placer.create(3, 'abc');
  const move = (body: object): Promise<Fields> => scene.container('1', '/migrate', body);
  const begun = await move({ to: 'a', reason: 'nearer' });
  assert.deepEqual([begun['from'], begun['to'], begun['moving']], ['b', 'a', true]);
  assert.deepEqual(scene.commands, [{ verb: 'migrate', pool: 'q', container: 1, to: scene.cluster.node('a').id }]);
  assert.deepEqual(scene.audited, [
    { order: 'container-migrate', pool: 'q', container: 1, target: 'a', reason: 'nearer' },
  ]);
  assert.equal((await move({ to: 'b' }))['moving'], false);
  assert.equal(scene.commands.length, 1);
  await scene.refused('BAD_ARGUMENT', /the target is missing/, move({}));
  await scene.refused('BAD_ARGUMENT', /no member has the id or name "z"/, move({ to: 'z' }));
  await scene.refused('PRECONDITION', /far is in there/, move({ to: 'far' }));
});
