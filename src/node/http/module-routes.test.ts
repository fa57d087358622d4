/** Routes of modules, and the module version of a new pool, on a node of a fake cluster. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { type Done, failure, isRemusterError, success } from '../../base/errors.ts';
import type { ApiRequest } from '../../base/http-routes.ts';
import { module } from '../../containers/module.ts';
import { ModuleCatalog } from '../../containers/module-catalog.ts';
import { loadedModulesKey } from '../../placement/modules/module-keys.ts';
import { encodeLoadedModules } from '../../placement/modules/module-records.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { moduleRoutes } from './module-routes.ts';
import { poolRoutes } from './pool-routes.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A node whose fake module sync accepts any code but "broken" as a module `counter`. */
class Scene {
  readonly cluster: DrainTestCluster = startedCluster(2);
  readonly audited: Fields[] = [];
  /** The fake table never changes by itself, so the creation of a pool waits until its limit. */
  readonly expected: string[] = [];
  readonly table = new Map<string, { readonly record: { readonly major: number; readonly minor: number } }>();
  readonly #core: NodeCore;

  constructor() {
    const modules = new ModuleCatalog();
    modules.add(module('kv', { methods: { a: () => 1 } }));
    const check = (code: Uint8Array, name: string | undefined, done: Done<{ name: string; sha256: string }>): void => {
      const isBroken = new TextDecoder().decode(code) === 'broken';
      const sha256 = hashOf(code);
      this.cluster.clock.schedule(0, () =>
        done(isBroken ? failure('BUNDLE_INVALID') : success({ name: name ?? 'counter', sha256 })),
      );
    };
    const calls = { expectPool: (pool: string, major: number) => void this.expected.push(`${pool} ${major}`) };
    const core = {
      identity: { dc: 'here', name: 'a' },
      members: () => [],
      containers: { modules, moduleSync: { check }, table: { pool: (name: string) => this.table.get(name) }, calls },
      control: {
        registry: this.cluster.registry,
        clock: this.cluster.clock,
        recordAdminEvent: (order: string, fields: Fields) => this.audited.push({ order, ...fields }),
      },
    };
    this.#core = core as unknown as NodeCore;
  }

  async invoke(method: string, path: string, request: Partial<ApiRequest> = {}): Promise<Fields> {
    const routes = [...moduleRoutes(this.#core), ...poolRoutes(this.#core)];
    const route = routes.find((one) => one.method === method && one.path === path);
    assert.ok(route, `there is no ${method} ${path}`);
    let isOver = false;
    const ended = route
      .handler({ params: {}, query: {}, body: undefined, lastEventId: undefined, ...request })
      .finally(() => {
        isOver = true;
      });
    ended.catch(() => {});
    for (let step = 0; !isOver; step++) {
      assert.ok(step < 1_000, `${path} hangs`);
      this.cluster.run(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const response = await ended;
    assert.ok('json' in response);
    return response.json as Fields;
  }

  deploy(text: string, more: object = {}): Promise<Fields> {
    const body = { code: Buffer.from(text).toString('base64'), reason: 'for a test', ...more };
    return this.invoke('POST', '/v1/modules', { body });
  }

  roll(body: object = {}): Promise<Fields> {
    return this.invoke('POST', '/v1/modules/:module/roll', { params: { module: 'counter' }, body });
  }

  create(name: string, of: string): Promise<Fields> {
    return this.invoke('POST', '/v1/pools', { body: { name, module: of, containers: 1 } });
  }

  load(modules: Readonly<Record<string, readonly number[]>>): void {
    const value = encodeLoadedModules(new Map(Object.entries(modules)));
    for (const { id } of this.cluster.nodes) {
      const then = [{ kind: 'put', key: loadedModulesKey(id), value }] as const;
      this.cluster.registry.transact({ compare: [], then, otherwise: [] }, {}, () => {});
    }
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
}

function hashOf(code: Uint8Array): string {
  return createHash('sha256').update(code).digest('hex');
}

test('a bundle is checked, deployed once, listed, shown and rolled, with an audit event for each command', async () => {
  const scene = new Scene();
  const first = await scene.deploy('one');
  assert.deepEqual([first['name'], first['version'], first['deployed'], first['bytes']], ['counter', 1, true, 3]);
  assert.equal((await scene.deploy('one'))['deployed'], false);
  await scene.refused('PRECONDITION', /version 1 of \w+ is not loaded yet on a, b/, scene.roll());
  scene.load({ kv: [0], counter: [1] });
  await scene.create('p', 'counter');
  assert.deepEqual((await scene.roll({ version: 1 }))['pools'], ['p']);
  const { items } = await scene.invoke('GET', '/v1/modules');
  assert.deepEqual(
    (items as readonly Fields[]).map(({ name, version, loadedBy }) => [name, version, loadedBy]),
    [
      ['counter', 1, ['a', 'b']],
      ['kv', 0, ['a', 'b']],
    ],
  );
  const shown = await scene.invoke('GET', '/v1/modules/:module', { params: { module: 'counter' } });
  assert.deepEqual(
    (shown['pools'] as readonly Fields[]).map((pool) => [pool['name'], pool['moduleVersion']]),
    [['p', 1]],
  );
  assert.deepEqual(
    scene.audited.map(({ order, reason }) => [order, reason]),
    [
      ['module-deploy', 'for a test'],
      ['pool-create', ''],
      ['module-roll', ''],
    ],
  );
});

test('an invalid deployment is rejected before any write', async () => {
  const scene = new Scene();
  await scene.refused('BUNDLE_INVALID', /./, scene.deploy('broken'));
  await scene.refused('BUNDLE_INVALID', /does not match sha256/, scene.deploy('one', { sha256: 'x' }));
  await scene.refused('BAD_ARGUMENT', /base64/, scene.invoke('POST', '/v1/modules', { body: { code: '%' } }));
  await scene.refused('BAD_ARGUMENT', /base64/, scene.invoke('POST', '/v1/modules', { body: {} }));
  await scene.refused('BAD_ARGUMENT', /name must be text/, scene.deploy('one', { name: 7 }));
  const huge = scene.invoke('POST', '/v1/modules', { body: { code: 'A'.repeat(6_000_000) } });
  await scene.refused('TOO_LARGE', /exceeds the limit/, huge);
  await scene.refused('UNKNOWN_MODULE', /counter/, scene.roll());
  assert.deepEqual((await scene.invoke('GET', '/v1/modules'))['items'], []);
});

test('a new pool gets the newest deployed version, or version 0 of a configured module', async () => {
  const scene = new Scene();
  assert.equal((await scene.create('own', 'kv'))['moduleVersion'], 0);
  await scene.refused('PRECONDITION', /no node has a module "counter", only kv: /, scene.create('p', 'counter'));
  scene.load({ counter: [0], kv: [0] });
  assert.equal((await scene.create('configured', 'counter'))['moduleVersion'], 0);
  await scene.deploy('one');
  await scene.deploy('two');
  assert.equal((await scene.create('deployed', 'counter'))['moduleVersion'], 2);
  assert.equal((await scene.create('configured', 'counter'))['created'], false);
  scene.load({});
  assert.equal((await scene.create('own', 'kv'))['created'], false);
});

test('the creation of a pool ends when the table has this pool, not a former one of its name', async () => {
  const scene = new Scene();
  scene.table.set('own', { record: { major: 7, minor: 0 } });
  scene.cluster.clock.schedule(300, () => scene.table.set('own', { record: { major: 1, minor: 0 } }));
  const { id } = await scene.create('own', 'kv');
  assert.equal(id, '1.0');
  assert.equal(scene.table.get('own')?.record.major, 1);
  assert.deepEqual(scene.expected, ['own 1']);
});
