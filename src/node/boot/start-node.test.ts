/** Whole nodes in this process, on real ports that the system chooses. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import type { Address, Log } from '../../base/ports.ts';
import { connect } from '../../client/index.ts';
import { type RunningNode, startNode } from './start-node.ts';
import { type NodeOptions, nodeOptions } from '../options/options.ts';

const waitMs = 10_000;
const secret = 'x9K!mPq2$vRt7wLz4#nB';
const root = mkdtempSync(join(tmpdir(), 'remuster-compose-'));
const running = new Set<RunningNode>();

after(async () => {
  await Promise.all([...running].map((node) => node.stop('the test is over')));
  rmSync(root, { recursive: true, force: true });
});

/** A node, and a wait for its log lines. */
type LoggedNode = { readonly node: RunningNode; readonly saw: (line: string) => Promise<void> };

async function start(
  name: string,
  join_: readonly Address[] = [],
  more: Partial<NodeOptions> = {},
): Promise<LoggedNode> {
  const lines: string[] = [];
  let wake = Promise.withResolvers<void>();
  const log: Log = (_level, message, fields) => {
    const member = fields?.['member'];
    lines.push(typeof member === 'string' ? `${message} ${member}` : message);
    wake.resolve();
  };
  const data = join(root, name);
  const fast = { profile: 'local', timeScale: 0.4 } as const;
  const ports = { port: 0, httpPort: 0, stopTimeoutMs: 5_000 };
  const node = await startNode(nodeOptions({ name, data, join: join_, secret, ...fast, ...ports, ...more }), { log });
  running.add(node);
  void node.ended.then(() => running.delete(node));
  const saw = async (line: string): Promise<void> => {
    const late = deadline(`${name} never logged "${line}" but ${lines.join(', ')}`);
    for (let from = 0; ;) {
      const at = lines.indexOf(line, from);
      if (at !== -1) {
        lines.splice(0, at + 1);
        break;
      }
      from = lines.length;
      wake = Promise.withResolvers<void>();
      await Promise.race([wake.promise, late.promise]);
    }
    late.cancel();
  };
  return { node, saw };
}

function deadline(what: string): { promise: Promise<never>; cancel: () => void } {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  const timer = setTimeout(() => reject(new Error(what)), waitMs);
  return { promise, cancel: () => clearTimeout(timer) };
}

function addressOf({ node }: LoggedNode): Address {
  return { host: '127.0.0.1', port: node.port };
}

async function getJson(
  { node }: LoggedNode,
  path: string,
): Promise<{ items: Record<string, string>[] } & Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${node.httpPort}${path}`, { signal: AbortSignal.timeout(waitMs) });
  return (await response.json()) as { items: Record<string, string>[] };
}

test('three nodes find each other, and the others record that one leaves', async () => {
  const a = await start('a');
  const b = await start('b', [addressOf(a)]);
  const c = await start('c', [addressOf(a)]);
  await Promise.all([a.node.ready, b.node.ready, c.node.ready]);
  await Promise.all([b.saw('member.alive c'), c.saw('member.alive b'), a.saw('member.alive c')]);
  const { items } = await getJson(b, '/v1/members');
  assert.deepEqual(
    new Set(items.map((row) => `${row['name']} ${row['state']}`)),
    new Set(['a alive', 'b alive', 'c alive']),
  );
  await c.node.stop('maintenance');
  await Promise.all([a.saw('member.left c'), b.saw('member.left c')]);
  assert.deepEqual(await c.node.ended, { reason: 'maintenance' });
  await assert.rejects(fetch(`http://127.0.0.1:${c.node.httpPort}/livez`));
  await Promise.all([a.node.stop('done'), b.node.stop('done')]);
});

test('a restart on the same data directory keeps the id and raises the generation', async () => {
  const first = await start('again');
  assert.equal(first.node.identity.generation, 1);
  await first.node.stop('restart');
  const second = await start('again');
  assert.equal(second.node.identity.id, first.node.identity.id);
  assert.equal(second.node.identity.generation, 2);
  await second.node.stop('done');
});

test('a node finds its cluster again without seeds after a restart', async () => {
  const a = await start('seedless-a');
  const b = await start('seedless-b', [addressOf(a)]);
  await a.saw('member.alive seedless-b');
  await b.saw('member.alive seedless-a');
  await b.node.stop('restart');
  await a.saw('member.left seedless-b');
  const again = await start('seedless-b');
  await Promise.all([again.saw('member.alive seedless-a'), a.saw('member.alive seedless-b')]);
  await Promise.all([a.node.stop('done'), again.node.stop('done')]);
});

test('a data directory in use is rejected, and its owner continues', async () => {
  const owner = await start('locked');
  await assert.rejects(start('locked'), (error: Error) => {
    assert.ok(isRemusterError(error));
    assert.match(error.message, /in use|locked/);
    return true;
  });
  assert.equal((await getJson(owner, '/livez'))['ok'], true);
  await owner.node.stop('done');
});

test('a failed start releases everything', async () => {
  const occupant = await start('occupant');
  const taken = { httpPort: occupant.node.httpPort };
  await assert.rejects(start('half', [], taken), (error) => isRemusterError(error));
  const half = await start('half');
  assert.equal(half.node.identity.generation, 2);
  await Promise.all([half.node.stop('done'), occupant.node.stop('done')]);
});

test('a node that cannot join is not ready, but can be stopped', async () => {
  const gone = await start('gone');
  const deadSeed = addressOf(gone);
  await gone.node.stop('done');
  const waiting = await start('waiting', [deadSeed]);
  assert.equal((await getJson(waiting, '/readyz'))['ok'], false);
  assert.equal((await getJson(waiting, '/livez'))['ok'], true);
  await waiting.node.stop('enough');
  await assert.rejects(waiting.node.ready, (error) => isRemusterError(error, 'CANCELLED'));
});

test('a partition by chaos is detected on both sides and heals', async () => {
  const a = await start('left', [], { chaos: true });
  const b = await start('right', [addressOf(a)], { chaos: true });
  await Promise.all([a.saw('member.alive right'), b.saw('member.alive left')]);
  const cut = async (names: readonly string[]): Promise<void> => {
    const response = await fetch(`http://127.0.0.1:${a.node.httpPort}/v1/dev/partition`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ cut: names }),
      signal: AbortSignal.timeout(waitMs),
    });
    assert.equal(response.status, 200, await response.text());
  };
  await cut(['right']);
  await Promise.all([a.saw('member.suspect right'), b.saw('member.suspect left')]);
  await cut([]);
  await Promise.all([a.saw('member.alive right'), b.saw('member.alive left')]);
  await Promise.all([a.node.stop('done'), b.node.stop('done')]);
});

test('a client connects and gets replies; a client with a wrong secret does not', async () => {
  const node = await start('served');
  const addr = `127.0.0.1:${node.node.port}`;
  const session = await connect({ addr, secret });
  assert.deepEqual(
    (await session.members()).map(({ name }) => name),
    ['served'],
  );
  const payload = new Uint8Array(2_000_000).fill(7);
  assert.deepEqual(await session.echo(payload), payload);
  await session.close();
  const wrong = connect({ addr, secret: 'j3H@fDs8%yGc1eUo6&kA', requestTimeoutMs: 1_000 });
  await assert.rejects(wrong, (error) => isRemusterError(error));
  await assert.rejects(connect({ addr: 'nonsense' }), (error) => isRemusterError(error, 'BAD_ARGUMENT'));
  await node.node.stop('done');
});

test('a node serves metrics and config without its secret', async () => {
  const node = await start('shown');
  await node.node.ready;
  const config = JSON.stringify(await getJson(node, '/v1/config'));
  assert.ok(!config.includes(secret));
  const metrics = await fetch(`http://127.0.0.1:${node.node.httpPort}/metrics`);
  assert.match(await metrics.text(), /^remuster_joined 1$/m);
  await node.node.stop('done');
});

test('an ephemeral directory is removed at the end', async () => {
  const node = await start('brief', [], { ephemeral: true });
  assert.ok(existsSync(join(root, 'brief')));
  await node.node.stop('done');
  assert.ok(!existsSync(join(root, 'brief')));
});

test('an unreachable address, or one without a secret, is rejected', async () => {
  await assert.rejects(start('wild', [], { host: '0.0.0.0' }), (error) => isRemusterError(error, 'BAD_ARGUMENT'));
  const open = start('open', [], { host: '192.0.2.1', secret: undefined });
  await assert.rejects(open, (error) => isRemusterError(error, 'WEAK_SECRET'));
});

test('a change of secrets reaches the membership thread: a joiner with the new secret exchanges datagrams', async () => {
  const a = await start('rotating');
  await a.node.ready;
  const next = 'j3H@fDs8%yGc1eUo6&kA';
  assert.throws(
    () => a.node.setSecrets({ current: 'short', previous: [] }),
    (error) => isRemusterError(error, 'WEAK_SECRET'),
  );
  a.node.setSecrets({ current: next, previous: [] });
  const b = await start('joiner', [addressOf(a)], { secret: next });
  await b.node.ready;
  // Round trips are measured by datagrams.
  const late = deadline('no datagram was answered');
  for (;;) {
    const { items } = await Promise.race([getJson(a, '/v1/members'), late.promise]);
    if (typeof items.find(({ name }) => name === 'joiner')?.['roundTripMs'] === 'number') break;
    await Promise.race([new Promise((resolve) => setTimeout(resolve, 20)), late.promise]);
  }
  late.cancel();
});

test('a node without datagrams is a member through the manager that receives its heartbeats', async () => {
  const a = await start('monitor', [], { timeScale: 4 });
  const b = await start('quiet', [addressOf(a)], { membership: 'push', roles: ['worker'], timeScale: 4 });
  await Promise.all([a.saw('member.alive quiet'), b.saw('member.alive monitor')]);
  const { items } = await getJson(a, '/v1/members');
  assert.equal(items.find(({ name }) => name === 'quiet')?.['watchedBy'], 'monitor');
  await b.node.stop('done');
  await a.saw('member.left quiet');
});
