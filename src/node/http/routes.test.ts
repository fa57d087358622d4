/** The replies of the HTTP interface, requested from cores in a simulated cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import type { ApiResponse, ServerSentEvent, ApiRequest } from '../../base/http-routes.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import { SimulatedWorld } from '../../simulation/world/simulated-world.ts';
import { Chaos } from '../membership/chaos.ts';
import { bootNode } from '../node-core.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { inlineMembership } from '../membership/inline-membership.ts';
import { type NodeOptions, nodeOptions } from '../options/options.ts';
import { type HttpRouteSources, httpRoutes } from './routes.ts';

type Program = { readonly core: NodeCore; readonly chaos: Chaos };

const secret = 'correct horse battery staple';
const options: NodeOptions = nodeOptions({ cluster: 'test', secret, join: [{ host: '10.0.0.0', port: 1 }] });

function cluster(names: readonly string[]): SimulatedWorld<Program> {
  const world = new SimulatedWorld<Program>({
    seed: 'routes',
    names,
    failpoints: false,
    boot: (ports, { name, index, host, random, log }) => {
      const id = nodeIdFrom(new Uint8Array(16).fill(index));
      const identity: Identity = { id, name, host, port: 1, generation: 1, roles: ['worker'], dc: `dc${index}` };
      const chaos = new Chaos(ports.clock);
      const { datagrams, streams } = ports.listen(identity, 'test');
      const wrapped = { datagrams: chaos.datagrams(datagrams), streams: chaos.streams(streams) };
      const store = ports.openStore('node');
      const membership = inlineMembership(wrapped.datagrams, random, options);
      return {
        chaos,
        core: bootNode(
          { clock: ports.clock, streams: wrapped.streams, store, log, membership },
          { ...options, identity },
        ),
      };
    },
  });
  world.startAll();
  return world;
}

function sourcesOf(
  world: SimulatedWorld<Program>,
  name: string,
  changes: Partial<HttpRouteSources> = {},
): HttpRouteSources {
  const { core } = world.program(name) as Program;
  const transportCounters = () => ({ 'rejected.replayed': 2, 'datagrams.sentBytes': 7 });
  return { core, options, origins: undefined, transportCounters, chaos: undefined, ...changes };
}

async function invoke(
  sources: HttpRouteSources,
  path: string,
  request: Partial<ApiRequest> = {},
): Promise<ApiResponse> {
  const route = httpRoutes(sources).find((candidate) => candidate.path === path);
  assert.ok(route !== undefined, `there is no ${path}`);
  return await route.handler({ params: {}, query: {}, body: undefined, lastEventId: undefined, ...request });
}

async function json(
  sources: HttpRouteSources,
  path: string,
  request?: Partial<ApiRequest>,
): Promise<Record<string, unknown>> {
  const response = await invoke(sources, path, request);
  assert.ok('json' in response);
  const body = response.json as Record<string, unknown>;
  assert.equal(body['schemaVersion'], 1);
  return body;
}

test('the list of members has the documented columns', async () => {
  const world = cluster(['a', 'b']);
  world.advance(3_000);
  const { items } = await json(sourcesOf(world, 'a'), '/v1/members');
  const rows = items as Record<string, unknown>[];
  assert.deepEqual(
    rows.map((row) => [row['name'], row['state'], row['registration']]),
    [
      ['a', 'alive', null],
      ['b', 'alive', null],
    ],
  );
});

test('readyz is ok between join and leave; livez is ok all the time', async () => {
  const world = cluster(['a', 'b']);
  world.crash('a');
  const sources = sourcesOf(world, 'b');
  const statusOf = async (path: string): Promise<unknown> =>
    ((await invoke(sources, path)) as { status: number }).status;
  assert.equal(await statusOf('/readyz'), 503);
  world.start('a');
  world.advance(5_000);
  assert.equal(await statusOf('/readyz'), 200);
  sources.core.stop(() => {});
  assert.equal(await statusOf('/readyz'), 503);
  assert.equal(await statusOf('/livez'), 200);
  assert.equal(await statusOf('/startupz'), 200);
  const { ok, checks } = await json(sources, '/readyz', { query: { verbose: '' } });
  assert.equal(ok, false);
  assert.deepEqual(
    (checks as { ok: boolean }[]).map((check) => check.ok),
    [true, true, false],
  );
});

test('the status of a node includes rejections of the transport', async () => {
  const world = cluster(['a']);
  const status = await json(sourcesOf(world, 'a'), '/v1/node');
  assert.deepEqual(status['rejected'], { replayed: 2 });
  assert.equal(status['name'], 'a');
  assert.equal(status['term'], null);
});

test('the cluster status counts nodes per datacenter, and has no leader without a control plane', async () => {
  const world = cluster(['a', 'b']);
  world.advance(3_000);
  const { dcs, ready, cluster: called } = await json(sourcesOf(world, 'a'), '/v1/status');
  assert.equal(called, 'test');
  assert.equal(ready, true);
  const none = { leader: null, leaderId: null, term: null, quorum: null, containers: null, jobs: null };
  assert.deepEqual(dcs, [
    { dc: 'dc0', nodes: 1, ...none },
    { dc: 'dc1', nodes: 1, ...none },
  ]);
});

test('config lists every option with its source, and shows no secret', async () => {
  const world = cluster(['a']);
  const response = await json(sourcesOf(world, 'a'), '/v1/config');
  assert.ok(!JSON.stringify(response).includes(secret));
  const row = (response['items'] as { name: string; value: string; source: unknown }[]).find(
    ({ name }) => name === 'cluster',
  );
  assert.deepEqual(row, { name: 'cluster', value: 'test', source: null });
});

test('the metrics page is Prometheus text', async () => {
  const world = cluster(['a', 'b']);
  world.advance(3_000);
  const response = await invoke(sourcesOf(world, 'a'), '/metrics');
  assert.ok('text' in response);
  assert.match(response.text, /^remuster_members\{state="alive"\} 2$/m);
  assert.match(response.text, /^remuster_rejected_total\{part="transport",reason="replayed"\} 2$/m);
  assert.match(response.text, /^remuster_transport_datagrams_sent_bytes_total 7$/m);
  assert.match(response.text, /^# TYPE remuster_rejected_total counter$/m);
  const line = /^(# (HELP|TYPE) remuster_\w+ .+|remuster_\w+(\{[^}]*\})? [\d.]+)$/;
  for (const text of response.text.trimEnd().split('\n')) assert.match(text, line);
});

test('a reader of events resumes where it stopped, then follows', async () => {
  const world = cluster(['a', 'b']);
  const sources = sourcesOf(world, 'a');
  const first = await json(sources, '/v1/events', { query: { follow: 'false' } });
  const [started] = first['items'] as { seq: number; type: string }[];
  assert.equal(started?.type, 'node.started');
  const response = await invoke(sources, '/v1/events', { lastEventId: String(started?.seq) });
  assert.ok('sse' in response);
  const events: ServerSentEvent[] = [];
  const stop = response.sse(
    (event) => events.push(event) > 0,
    () => {},
  );
  world.advance(3_000);
  stop();
  assert.deepEqual(
    events.map(({ data }) => (data as { type: string }).type),
    ['node.joined', 'member.alive'],
  );
  assert.deepEqual(
    events.map(({ id }) => id),
    ['2', '3'],
  );
  world.crash('b');
  world.advance(30_000);
  assert.equal(events.length, 2);
  await assert.rejects(invoke(sources, '/v1/events', { lastEventId: 'x' }), (error) =>
    isRemusterError(error, 'BAD_ARGUMENT'),
  );
});

test('the partition route exists only with chaos, and cuts nodes by name', async () => {
  const world = cluster(['a', 'b']);
  world.advance(3_000);
  const plain = sourcesOf(world, 'a');
  assert.ok(!httpRoutes(plain).some((route) => route.path.startsWith('/v1/dev')));
  const sources = { ...plain, chaos: (world.program('a') as Program).chaos };
  for (const body of [undefined, {}, { cut: 'b' }, { cut: ['unknown'] }]) {
    await assert.rejects(invoke(sources, '/v1/dev/partition', { body }), (error) =>
      isRemusterError(error, 'BAD_ARGUMENT'),
    );
  }
  const stateOfB = (): string | undefined => sources.core.members().find(({ name }) => name === 'b')?.state;
  await json(sources, '/v1/dev/partition', { body: { cut: ['b'] } });
  world.advance(20_000);
  assert.equal(stateOfB(), 'dead');
  await json(sources, '/v1/dev/partition', { body: { cut: [] } });
  world.advance(15_000);
  assert.equal(stateOfB(), 'alive');
});

test('why shows the evidence of a death, and suggests a name for an unknown one', async () => {
  const world = cluster(['alpha', 'beta', 'gamma']);
  world.advance(3_000);
  world.crash('gamma', 'kept');
  world.advance(3_000);
  const sources = sourcesOf(world, 'alpha');
  const { state, seenBy, history } = await json(sources, '/v1/members/:name/why', { params: { name: 'gamma' } });
  assert.deepEqual([state, seenBy], ['dead', 'alpha']);
  assert.deepEqual(
    (history as { type: string }[]).map(({ type }) => type),
    ['member.alive', 'member.suspect', 'member.dead'],
  );
  await assert.rejects(invoke(sources, '/v1/members/:name/why', { params: { name: 'gama' } }), /did you mean gamma/);
});

test('rtt returns the estimate and the measured value; reachability covers every pair', async () => {
  const world = cluster(['a', 'b']);
  world.advance(10_000);
  const sources = sourcesOf(world, 'a');
  const { estimatedMs, measuredMs } = await json(sources, '/v1/rtt', { query: { from: 'a', to: 'b' } });
  assert.ok(typeof estimatedMs === 'number' && estimatedMs > 0);
  assert.ok(typeof measuredMs === 'number' && measuredMs > 0);
  await assert.rejects(invoke(sources, '/v1/rtt', { query: { from: 'a' } }), (error) =>
    isRemusterError(error, 'BAD_ARGUMENT'),
  );
  const pending = json(sources, '/v1/reachability');
  await Promise.resolve();
  world.advance(1_000);
  const { partial, hearings } = await pending;
  assert.equal(partial, false);
  assert.deepEqual(
    (hearings as { from: string; to: string; state: string }[]).map(({ from, to, state }) => `${from}>${to} ${state}`),
    ['a>b alive', 'b>a alive'],
  );
});

test('the metrics include membership', async () => {
  const world = cluster(['a', 'b']);
  world.advance(10_000);
  const response = await invoke(sourcesOf(world, 'a'), '/metrics');
  assert.ok('text' in response);
  for (const line of [
    /^remuster_health_score 0$/m,
    /^remuster_members\{state="alive"\} 2$/m,
    /^remuster_membership_probes_total [1-9]/m,
  ])
    assert.match(response.text, line);
  const [, count] = /^remuster_membership_round_trip_seconds_count (\d+)$/m.exec(response.text) ?? [];
  assert.ok(Number(count) > 0);
});
