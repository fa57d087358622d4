/** The routes of the control plane, requested from nodes in a simulated cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../base/errors.ts';
import type { ApiResponse, ServerSentEvent, ApiRequest } from '../base/http-routes.ts';
import { kv } from '../modules/kv/kv.ts';
import { type SimulatedNode, bootSimulatedNode } from '../simulation/cluster/simulated-node.ts';
import { SimulatedWorld } from '../simulation/world/simulated-world.ts';
import type { NodeCore } from './core/node-core-types.ts';
import { nodeOptions } from './options/options.ts';
import { httpRoutes } from './http/routes.ts';

type Fields = Readonly<Record<string, unknown>>;
type RouteRequest = Partial<ApiRequest> & { readonly method?: string };

const options = nodeOptions({ cluster: 'test', secret: 'correct horse battery staple' });
const names = ['m1', 'm2', 'm3', 'w1'] as const;

/** A settled cluster: three voters, every node registered. */
class Scene {
  readonly #world: SimulatedWorld<SimulatedNode>;

  constructor(members: readonly string[] = names, dc: (name: string) => string = () => 'local') {
    const join = [{ host: '10.0.0.0', port: 7400 }];
    this.#world = new SimulatedWorld<SimulatedNode>({
      seed: 'control routes',
      names: members,
      failpoints: false,
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join,
          dc,
          roles: (name) => (name.startsWith('m') ? ['manager', 'worker'] : ['worker']),
          modules: [kv],
          options: { registry: 'embedded' },
        }),
    });
    this.#world.startAll();
    this.#world.advance(20_000);
  }

  core(name: string): NodeCore {
    return this.#world.program(name)?.core ?? assert.fail(`${name} is down`);
  }

  crash(name: string): void {
    this.#world.crash(name, 'kept');
    this.#world.advance(30_000);
  }

  restart(name: string): void {
    this.#world.start(name);
    this.#world.advance(30_000);
  }

  advance(ms: number): void {
    this.#world.advance(ms);
  }

  /** Advances time until the response is there. */
  async invoke(at: string, path: string, { method = 'GET', ...request }: RouteRequest = {}): Promise<ApiResponse> {
    const sources = {
      core: this.core(at),
      options,
      origins: undefined,
      transportCounters: () => ({}),
      chaos: undefined,
    };
    const route = httpRoutes(sources).find((one) => one.path === path && one.method === method);
    assert.ok(route !== undefined, `there is no ${method} ${path}`);
    let isSettled = false;
    const handled = route.handler({ params: {}, query: {}, body: undefined, lastEventId: undefined, ...request });
    const settled = handled.finally(() => {
      isSettled = true;
    });
    settled.catch(() => {});
    for (let step = 0; !isSettled; step++) {
      assert.ok(step < 2_000, `${path} hangs`);
      this.#world.advance(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return await settled;
  }

  async json(at: string, path: string, pending: RouteRequest = {}): Promise<Fields> {
    const response = await this.invoke(at, path, pending);
    assert.ok('json' in response);
    return response.json as Fields;
  }

  async post(at: string, path: string, name: string, body: object = {}): Promise<Fields> {
    return await this.json(at, path, { method: 'POST', params: { name }, body });
  }

  async put(key: string, value: string, ifVersion?: number): Promise<Fields> {
    return await this.json('w1', '/v1/registry', { method: 'PUT', body: { key, value, ifVersion } });
  }

  /** Containers without copies, all open. */
  async pool(containers: number): Promise<void> {
    await this.json('m1', '/v1/pools', { method: 'POST', body: { name: 'p', module: 'kv', containers, copies: 1 } });
    this.advance(5_000);
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

  async leader(): Promise<string> {
    return String((await this.json('w1', '/v1/leader'))['leader']);
  }

  async standings(at = 'w1'): Promise<Fields> {
    const { items } = await this.json(at, '/v1/managers');
    return Object.fromEntries((items as readonly Fields[]).map(({ name, standing }) => [name, standing]));
  }
}

const all = { m1: 'voter', m2: 'voter', m3: 'voter' };

test('every node returns the leader with term and fence', async () => {
  const scene = new Scene();
  const [first, ...others] = await Promise.all(names.map((name) => scene.json(name, '/v1/leader')));
  for (const other of others) assert.deepEqual(other, first);
  assert.deepEqual(first?.['quorum'], { voters: 3, alive: 3 });
  assert.match(String(first?.['fence']), /^\d+$/);
  assert.deepEqual(await scene.standings(), all);
  await scene.refused('BAD_ARGUMENT', /datacenter "mars"/, scene.json('m1', '/v1/leader', { query: { dc: 'mars' } }));
});

test('a key is written under a condition, and a conflict names the current version', async () => {
  const scene = new Scene();
  assert.equal((await scene.put('/a', 'one', 0))['version'], 1);
  assert.equal((await scene.put('/a', 'two'))['version'], 2);
  await scene.refused('PRECONDITION', /^\/a has version 2, not 1:/, scene.put('/a', 'x', 1));
  const wrong = [{}, { key: '', value: '' }, { key: 'a', value: 1 }, { key: 'a', value: '', ifVersion: -1 }, [], 'a'];
  for (const body of wrong)
    await scene.refused(
      'BAD_ARGUMENT',
      /must be|whole number/,
      scene.json('m1', '/v1/registry', { method: 'PUT', body }),
    );
  const remove = (query: Record<string, string>): Promise<Fields> =>
    scene.json('m2', '/v1/registry', { method: 'DELETE', query });
  await scene.refused('BAD_ARGUMENT', /key is missing/, remove({}));
  await scene.refused('BAD_ARGUMENT', /ifVersion must be/, remove({ key: '/a', ifVersion: 'x' }));
  await scene.refused('PRECONDITION', /has version 2, not 7/, remove({ key: '/a', ifVersion: '7' }));
  assert.equal((await remove({ key: '/a', ifVersion: '2' }))['deleted'], 1);
  assert.equal((await remove({ key: '/a' }))['deleted'], 0);
});

test('keys are read page by page, and invalid queries are rejected', async () => {
  const scene = new Scene();
  for (const key of ['/p/1', '/p/2', '/p/3', '/q']) await scene.put(key, key);
  const read = (query: Record<string, string>): Promise<Fields> => scene.json('m3', '/v1/registry', { query });
  const keysOf = ({ items }: Fields): unknown[] => (items as readonly Fields[]).map(({ key }) => key);
  const first = await read({ prefix: '/p/', limit: '2' });
  assert.deepEqual([keysOf(first), first['more']], [['/p/1', '/p/2'], true]);
  const second = await read({ prefix: '/p/', limit: '2', after: '/p/2' });
  assert.deepEqual([keysOf(second), second['more']], [['/p/3'], false]);
  assert.deepEqual(keysOf(await read({ prefix: '/p/', after: '/a' })), ['/p/1', '/p/2', '/p/3']);
  assert.deepEqual(keysOf(await read({ key: '/q', stale: '' })), ['/q']);
  for (const limit of ['0', '-1', '1e3', '10001', 'all', ''])
    await scene.refused('BAD_ARGUMENT', /limit must be a whole number/, read({ limit }));
});

test('a watch sends its first revision and each change, and stops with its reader', async () => {
  const scene = new Scene();
  const { revision } = await scene.put('/w/a', 'before');
  const watch = async (query: Record<string, string>, lastEventId?: string) => {
    const events: ServerSentEvent[] = [];
    const response = await scene.invoke('w1', '/v1/registry/watch', { query, lastEventId });
    assert.ok('sse' in response);
    const stop = response.sse(
      (event) => events.push(event) > 0,
      () => {},
    );
    return { events, stop };
  };
  const [now, since] = [await watch({ prefix: '/w/' }), await watch({ prefix: '/w/' }, String(Number(revision) - 1))];
  scene.advance(1_000);
  await scene.put('/w/b', 'after');
  await scene.put('/elsewhere', 'unseen');
  scene.advance(1_000);
  now.stop();
  await scene.put('/w/c', 'too late');
  scene.advance(1_000);
  const changes = (events: readonly ServerSentEvent[]): unknown[] =>
    events.flatMap(({ data }) => ((data as Fields)['changes'] ?? []) as readonly Fields[]).map(({ key }) => key);
  const { epoch } = (now.events[0]?.data ?? {}) as Fields;
  assert.match(String(epoch), /^[0-9a-f]{16}\.0$/);
  assert.deepEqual(now.events[0], { event: 'from', data: { from: Number(revision) + 1, epoch } });
  assert.deepEqual(changes(now.events), ['/w/b']);
  assert.deepEqual(changes(since.events), ['/w/a', '/w/b', '/w/c']);
  since.stop();
  for (const from of ['0', '-1', 'x', '1.5'])
    await scene.refused('BAD_ARGUMENT', /from must be a whole number/, watch({ from }));
  await scene.refused('BAD_ARGUMENT', /lastEventId must be/, watch({}, 'x'));
});

test('a node is drained and activated, and the event names the reason', async () => {
  const scene = new Scene();
  await scene.pool(8);
  const drain = (body: object): Promise<Fields> => scene.post('m1', '/v1/nodes/:name/drain', 'w1', body);
  const preflight = await drain({ dryRun: true });
  assert.deepEqual([preflight['dryRun'], preflight['blockedBy']], [true, []]);
  assert.ok(Number(preflight['remaining']) > 0);
  for (const body of [{ deadline: 'soon' }, { deadline: '1ms' }, { reason: 7 }, { dryRun: 'yes' }, []])
    await scene.refused('BAD_ARGUMENT', /./, drain(body));
  await drain({ reason: 'new disk', deadline: '30s' });
  scene.advance(10_000);
  const shown = await scene.json('m2', '/v1/nodes/:name', { params: { name: 'w1' } });
  assert.deepEqual([shown['registration'], shown['reason'], shown['note']], ['drained', 'drain_complete', 'new disk']);
  assert.equal((shown['drain'] as Fields)['remaining'], 0);
  const events = scene.core('m1').events.since(0);
  const ordered = events.findLast(({ type }) => type === 'admin.ordered') as Fields | undefined;
  assert.deepEqual([ordered?.['order'], ordered?.['target'], ordered?.['reason']], ['drain', 'w1', 'new disk']);

  const active = await scene.post('m1', '/v1/nodes/:name/activate', 'w1', { reason: 'disk is in' });
  assert.deepEqual([active['registration'], active['reason']], ['active', 'admin_activate']);
  // Sooner than it gets its share by itself.
  scene.advance(500);
  const plan = await scene.json('w1', '/v1/rebalance', { method: 'POST', body: { dryRun: true, maxMoves: 1 } });
  assert.deepEqual(
    (plan['moves'] as readonly Fields[]).map(({ to }) => to),
    ['w1'],
  );
  for (const body of [{ maxMoves: 0 }, { maxMoves: 1.5 }, { maxMoves: 1_001 }, { dryRun: 1 }])
    await scene.refused('BAD_ARGUMENT', /must be/, scene.json('m1', '/v1/rebalance', { method: 'POST', body }));
});

test('leadership is transferred to the named voter, and to no other node', async () => {
  const scene = new Scene();
  const transfer = (to?: unknown): Promise<Fields> =>
    scene.json('w1', '/v1/transfer', { method: 'POST', body: { to } });
  const former = await scene.leader();
  const to = ['m1', 'm2', 'm3'].find((name) => name !== former);
  await scene.refused('PRECONDITION', /already the leader/, transfer(former));
  await scene.refused('PRECONDITION', /not a voter/, transfer('w1'));
  await scene.refused('BAD_ARGUMENT', /no member/, transfer('unknown'));
  await scene.refused('BAD_ARGUMENT', /name of a manager/, transfer(1));
  await transfer(to);
  scene.advance(2_000);
  assert.equal(await scene.leader(), to);
});

test('a manager that was removed stays outside until it is added again', async () => {
  const scene = new Scene();
  const leader = await scene.leader();
  const removed = ['m1', 'm2', 'm3'].find((name) => name !== leader);
  assert.ok(removed !== undefined);
  const dry = await scene.post('w1', '/v1/managers/:name/remove', removed, { dryRun: true });
  assert.deepEqual([dry['dryRun'], dry['voters']], [true, 2]);
  assert.deepEqual(await scene.standings(), all);
  await scene.post('w1', '/v1/managers/:name/remove', removed, { reason: 'old' });
  scene.advance(10_000);
  assert.deepEqual(await scene.standings(), { ...all, [removed]: 'outside' });
  // It is no longer a voter, and still finds the leader.
  assert.equal((await scene.json(removed, '/v1/leader'))['leader'], leader);
  await scene.refused('PRECONDITION', /not a member/, scene.post(removed, '/v1/managers/:name/promote', removed));
  await scene.refused(
    'PRECONDITION',
    /w1 does not have the role manager/,
    scene.post('w1', '/v1/managers/:name/add', 'w1'),
  );
  assert.equal((await scene.post(removed, '/v1/managers/:name/add', removed))['standing'], 'syncing');
  scene.advance(10_000);
  assert.deepEqual(await scene.standings(), all);
  await scene.refused('PRECONDITION', /^m\d is already a member/, scene.post('w1', '/v1/managers/:name/add', removed));
});

test('a manager that was removed while it was down can be added again when it returns', async () => {
  const scene = new Scene();
  const leader = await scene.leader();
  const removed = ['m3', 'm2'].find((name) => name !== leader) ?? '';
  scene.crash(removed);
  await scene.post('w1', '/v1/managers/:name/remove', removed);
  await scene.refused('PRECONDITION', /is dead/, scene.post('w1', '/v1/managers/:name/add', removed));
  scene.restart(removed);
  assert.deepEqual(await scene.standings(), { ...all, [removed]: 'outside' });
  await scene.post('w1', '/v1/managers/:name/add', removed);
  scene.advance(10_000);
  assert.deepEqual(await scene.standings(), all);
});

test('the leader can be removed, too, and another one follows', async () => {
  const scene = new Scene();
  const former = await scene.leader();
  await scene.post('w1', '/v1/managers/:name/remove', former);
  scene.advance(10_000);
  assert.notEqual(await scene.leader(), former);
  assert.deepEqual(await scene.standings(), { ...all, [former]: 'outside' });
});

test('no manager is removed that the quorum needs', async () => {
  const scene = new Scene();
  const leader = await scene.leader();
  const [other, dead] = ['m1', 'm2', 'm3'].filter((name) => name !== leader);
  assert.ok(other !== undefined && dead !== undefined);
  scene.crash(dead);
  const remove = (name: string): Promise<Fields> => scene.post('w1', '/v1/managers/:name/remove', name);
  await scene.refused('PRECONDITION', /it would lose its quorum/, remove(other));
  assert.deepEqual(await scene.standings(), all);
  assert.equal((await remove(dead))['voters'], 2);
  assert.equal((await remove(other))['voters'], 1);
  await scene.refused('PRECONDITION', /the last voter/, remove(leader));
  await scene.refused('PRECONDITION', /does not belong/, remove('w1'));
  await scene.put('/still', 'decided');
});

test('a node leaves only when nothing depends on it', async () => {
  const scene = new Scene();
  await scene.pool(4);
  const leave = (name: string, body: object = {}): Promise<Fields> =>
    scene.post('m1', '/v1/nodes/:name/leave', name, body);
  await scene.refused('PRECONDITION', /w1 is not drained: drain it first; w1 still holds 1/, leave('w1'));
  await scene.refused('PRECONDITION', /m2 belongs to the manager group: remove it first/, leave('m2'));
  await scene.post('m1', '/v1/nodes/:name/drain', 'w1');
  scene.advance(10_000);
  assert.deepEqual((await leave('w1', { dryRun: true }))['blockedBy'], []);
  assert.equal((await leave('w1'))['left'], true);
  const { items } = await scene.json('m1', '/v1/registry', { query: { prefix: '/cluster/register/' } });
  assert.deepEqual(
    (items as readonly Fields[]).map(({ value }) => String((JSON.parse(String(value)) as Fields)['name'])).toSorted(),
    ['m1', 'm2', 'm3'],
  );
});

test('a backup is read and restored in parts through any node', async () => {
  const scene = new Scene();
  await scene.put('/kept', 'yes');
  for (let i = 0; i < 3; i++) await scene.put(`/large/${i}`, String(i).repeat(400_000));
  const path = '/v1/registry/snapshot';
  const parts: Fields[] = [await scene.json('w1', path)];
  for (let offset = 524_288; parts.at(-1)?.['last'] !== true; offset += 524_288)
    parts.push(await scene.json('m2', path, { query: { id: String(parts[0]?.['id']), offset: String(offset) } }));
  assert.equal(parts.length, 3);
  assert.deepEqual(new Set(parts.map(({ cluster }) => cluster)), new Set(['test/local']));
  await scene.put('/kept', 'changed');
  await scene.put('/new', 'lost');
  const restore = (part: object): Promise<Fields> => scene.json('m3', path, { method: 'POST', body: part });
  for (const { offset, bytes, last } of parts) await restore({ id: 'r1', offset, bytes, last });
  const { items } = await scene.json('w1', '/v1/registry', { query: { prefix: '/kept' } });
  assert.equal((items as readonly Fields[])[0]?.['value'], 'yes');
  assert.deepEqual((await scene.json('w1', '/v1/registry', { query: { key: '/new' } }))['items'], []);

  await scene.refused('PRECONDITION', /start again/, scene.json('m1', path, { query: { id: '9-9', offset: '0' } }));
  await scene.refused('BAD_ARGUMENT', /offset/, scene.json('m1', path, { query: { offset: '-1' } }));
  await scene.refused('BAD_ARGUMENT', /first part/, scene.json('m1', path, { query: { offset: '5' } }));
  const [first] = parts;
  for (const part of [
    {},
    { ...first, id: 7 },
    { ...first, bytes: '#' },
    { ...first, bytes: '' },
    { ...first, last: 1 },
  ])
    await scene.refused('BAD_ARGUMENT', /must be|base64/, restore(part));
  await scene.refused('PRECONDITION', /has ended/, restore({ ...first, id: 'r2', offset: 524_288 }));
  // A backup that is not read to the end expires.
  const { id } = await scene.json('w1', path);
  scene.advance(61_000);
  await scene.refused(
    'PRECONDITION',
    /start again/,
    scene.json('w1', path, { query: { id: String(id), offset: '0' } }),
  );
});

test('a command about another datacenter is executed there', async () => {
  const scene = new Scene(['m1', 'w1', 'm2', 'w2'], (name) => (name.endsWith('1') ? 'east' : 'west'));
  const leaders = await Promise.all(['east', 'west'].map((dc) => scene.json('w1', '/v1/leader', { query: { dc } })));
  assert.deepEqual(
    leaders.map(({ leader, fence }) => [leader, typeof fence]),
    [
      ['m1', 'string'],
      ['m2', 'object'],
    ],
  );
  await scene.post('w1', '/v1/nodes/:name/drain', 'w2', { reason: 'from afar' });
  scene.advance(5_000);
  const shown = await scene.json('m1', '/v1/nodes/:name', { params: { name: 'w2' } });
  assert.deepEqual([shown['registration'], shown['note']], ['drained', 'from afar']);
  await scene.refused('PRECONDITION', /no other node is active/, scene.post('w1', '/v1/nodes/:name/drain', 'm2'));
  const west = await scene.json('m1', '/v1/balance', { query: { dc: 'west' } });
  assert.deepEqual((west['nodes'] as readonly Fields[]).map(({ name }) => String(name)).toSorted(), ['m2', 'w2']);
  await scene.refused('PRECONDITION', /the last voter/, scene.post('w1', '/v1/managers/:name/remove', 'm2'));
  await scene.refused('BAD_ARGUMENT', /"mars"/, scene.json('m1', '/v1/balance', { query: { dc: 'mars' } }));
  await scene.refused('BAD_ARGUMENT', /did you mean w2/, scene.post('w1', '/v1/nodes/:name/drain', 'w22'));
});
