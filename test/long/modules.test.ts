/**
 * Modules that are deployed to running nodes, pools that are created from files, exported and imported, with real
 * processes and through the command line. No call fails while a new version is rolled out.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { kv } from '../../src/modules/kv/kv.ts';
import { module } from '../../src/containers/module.ts';
import { type Agent, awaitEvent, ChildProgram } from '../support/processes/process-lab.ts';
import { awaitNodeEvent, until } from '../support/processes/manager-requests.ts';
import { PoolCluster } from '../support/processes/pool-cluster.ts';

const entry = resolve(import.meta.dirname, '../../src/cli/main.ts');

type Run = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

class CommandShell {
  readonly cluster: PoolCluster;

  constructor(cluster: PoolCluster) {
    this.cluster = cluster;
  }

  file(name: string, text?: string): string {
    const path = join(this.cluster.lab.folder, name);
    if (text !== undefined) writeFileSync(path, text);
    return path;
  }

  async run(...args: readonly string[]): Promise<Run> {
    const [node] = this.cluster.up as readonly [Agent];
    const { lab } = this.cluster;
    // Not a program of the lab, whose exits must be caused by the test.
    const program = new ChildProgram([entry, ...args], {
      cwd: lab.folder,
      env: { ...lab.env, REMUSTER_ADDR: node.addr },
    });
    const { code } = await program.waitForExit();
    return { code, stdout: program.stdout, stderr: program.stderr };
  }

  async ok(...args: readonly string[]): Promise<Record<string, unknown>> {
    const { code, stdout, stderr } = await this.run(...args, '-o', 'json');
    assert.equal(code, 0, `${args.join(' ')}\n${stderr}`);
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  async refused(code: number, pattern: RegExp, ...args: readonly string[]): Promise<void> {
    const ended = await this.run(...args);
    assert.deepEqual([ended.code, pattern.test(ended.stderr)], [code, true], ended.stderr);
  }

  async call(pool: string, method: string, ...args: readonly string[]): Promise<unknown> {
    const { code, stdout, stderr } = await this.run('call', pool, method, ...args, '-o', 'json');
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  }
}

/** The interface of the module for callers; the nodes get the module from a file. */
const tally = module('tally', { methods: { add: (_ctx, by: number): number => by } });

function tallyFile(version: number, rest = '', more = ''): string {
  return `import { type Context, module } from 'remuster';
import { step } from './step.ts';
${more}
export const tally = module('tally', {
  ${rest}
  methods: {
    add: (ctx: Context, by: number) => {
      const n = (ctx.state.get<number>('n') ?? 0) + by * step;
      ctx.state.set('n', n);
      return n;
    },
    version: { readonly: true, run: (): number => ${version}, aggregate: (parts: number[]) => parts.join() },
    boom: () => {
      throw new Error('boom');
    },
  },
});
`;
}

const names = ['m1', 'w1', 'w2', 'w3'];

describe('modules', { timeout: 240_000 }, () => {
  it('are deployed, rolled out under load without a failed call, and refused when broken', async (t) => {
    const shell = await start(t);
    const { cluster } = shell;
    const path = shell.file('tally.ts', tallyFile(1));
    shell.file('step.ts', 'export const step: number = 1;\n');
    await shell.refused(5, /no node has a module "tally", only counter, kv/, ...create('t', 'tally'));
    const first = await shell.ok('module', 'deploy', path, '--reason', 'the first');
    assert.deepEqual([first['name'], first['version'], first['deployed']], ['tally', 1, true]);
    await shell.ok(...create('t', 'tally'));
    assert.equal(await shell.call('t', 'version', '--broadcast'), '1,1,1,1');

    const load = await startCalls(cluster);
    shell.file('tally.ts', tallyFile(2));
    const second = await shell.ok('module', 'deploy', path);
    assert.deepEqual([second['version'], pools(second)], [2, [['t', 2, 4]]]);
    assert.equal(await shell.call('t', 'version', '--broadcast'), '2,2,2,2');
    const { calls, failures } = await load.stop();
    assert.deepEqual(failures, []);
    assert.ok(calls > 50, `only ${calls} calls`);
    assert.equal(await load.sum(), calls, 'every call ran once');

    await refusesBroken(shell, path);
    await cluster.end();
  });

  it('are loaded again after a restart, and by nodes that join later', async (t) => {
    const shell = await start(t, { m1: 'manager', w1: 'worker' });
    const { cluster } = shell;
    shell.file('step.ts', 'export const step: number = 1;\n');
    await shell.ok('module', 'deploy', shell.file('tally.ts', tallyFile(1)));
    await shell.ok(...create('t', 'tally'), '--restart');
    assert.equal(await shell.call('t', 'add', '5', '--id', '0'), 5);
    await cluster.kill(cluster.get('w1'));
    await cluster.restart('w1');
    await cluster.add('w2', ['--roles', 'worker']);
    await awaitEvent(cluster.get('w2').addr, ({ type }) => type === 'module.loaded', 'the module on w2');
    assert.equal(await shell.call('t', 'add', '5', '--id', '0', '--timeout', '30s'), 10);
    await until('both nodes have loaded it', async () => {
      const shown = await shell.ok('module', 'show', 'tally');
      const [version] = shown['versions'] as { loadedBy: string[]; missingOn: string[] }[];
      return version?.loadedBy.join() === 'w1,w2' && version.missingOn.length === 0 ? true : undefined;
    });
    await cluster.end();
  });
});

/** Bundles that cannot be imported, that exit, and that cannot open their containers. */
async function refusesBroken(shell: CommandShell, path: string): Promise<void> {
  const { cluster } = shell;
  const broken = `${tallyFile(3)}\nif (tally.name === 'tally') throw new Error('no database');\n`;
  await shell.refused(
    1,
    /BUNDLE_INVALID: tally\.ts:19:\d+: Error: no database/,
    'module',
    'deploy',
    shell.file('tally.ts', broken),
  );
  await shell.refused(
    1,
    /ended its process/,
    'module',
    'deploy',
    shell.file('tally.ts', `${tallyFile(3)}process.exit(3);\n`),
  );
  await shell.refused(
    1,
    /BUNDLE_INVALID: tally\.ts:2:22: /,
    'module',
    'deploy',
    shell.file('tally.ts', tallyFile(3).replace('./step', './none')),
  );
  const shown = await shell.ok('module', 'show', 'tally');
  assert.deepEqual(
    (shown['versions'] as { version: number }[]).map(({ version }) => version),
    [1, 2],
  );

  shell.file(
    'tally.ts',
    tallyFile(
      3,
      'restart: cannot, recover: cannot,',
      "function cannot(): never { throw new Error('version 3 cannot'); }",
    ),
  );
  const stopped = await shell.run('module', 'deploy', path, '--timeout', '60s');
  assert.equal(stopped.code, 1, stopped.stderr);
  assert.match(stopped.stderr, /the roll-out has stopped: t\/\d failed to open 3 times: .*version 3 cannot/);
  const replies = await Promise.all(
    [0, 1, 2, 3].map(
      async (id) => (await shell.run('call', 't', 'version', '--id', String(id), '--timeout', '2s')).stdout,
    ),
  );
  assert.equal(replies.filter((text) => text.trim() === '2').length, 3, 'the other containers keep their version');
  shell.file('tally.ts', tallyFile(4));
  assert.deepEqual(pools(await shell.ok('module', 'deploy', path)), [['t', 4, 4]]);
  cluster.assertNoUnexpectedExit();
}

describe('compose', { timeout: 240_000 }, () => {
  const file = `compose:
  - { name: back, module: kv, containers: 2, copies: 1, restart: true, params: { color: green } }
  - { pool_name: other, mod_name: kv, containers: 2, copies: 1, pool_query: local }
`;

  it('creates pools that return after a loss of registry and state, and do not return after a deletion (CH-13)', async (t) => {
    const shell = await start(t, { m1: 'manager', w1: 'worker', w2: 'worker' });
    const { cluster } = shell;
    const path = shell.file('pools.yaml', file);
    const results = async (...args: readonly string[]): Promise<unknown> => {
      const { items } = await shell.ok('compose', path, ...args);
      return (items as { name: string; result: string }[]).map(({ name, result }) => `${name} ${result}`);
    };
    assert.deepEqual(await results(), ['back created', 'other created']);
    assert.deepEqual(await results(), ['back exists already', 'other exists already']);
    const restart = (node: string, pool = 'back'): string => join(cluster.lab.folder, node, 'restart', `${pool}.yaml`);
    for (const node of ['w1', 'w2']) await appears(restart(node));
    assert.match(readFileSync(restart('w1'), 'utf8'), /"color": "green"/);
    assert.deepEqual([existsSync(restart('w1', 'other')), existsSync(restart('m1'))], [false, false]);

    // The registry is lost. A worker with state does not follow a new group of managers.
    const lose = (node: string, store: string): void => {
      for (const part of ['', '-wal', '-shm', '-log0', '-log1'])
        rmSync(join(cluster.lab.folder, node, `${store}${part}`), { force: true });
    };
    await cluster.stop(...cluster.up);
    lose('m1', 'log.db');
    await Promise.all([cluster.restart('m1', ['--bootstrap']), cluster.restart('w1'), cluster.restart('w2')]);
    for (const name of ['w1', 'w2']) await awaitNodeEvent(cluster.get(name), 'table.refused', {});
    assert.deepEqual((await shell.ok('pool', 'list'))['items'], []);
    // Without state the pools of the files return, empty.
    await cluster.stop(cluster.get('w1'), cluster.get('w2'));
    for (const name of ['w1', 'w2']) lose(name, 'containers.db');
    await Promise.all([cluster.restart('w1'), cluster.restart('w2')]);
    await cluster.awaitReady();
    await cluster.awaitHealthy('back');
    const { items } = await shell.ok('pool', 'list');
    assert.deepEqual(
      (items as { name: string; params: unknown }[]).map(({ name, params }) => [name, params]),
      [['back', { color: 'green' }]],
    );

    // Deleted while one worker is down: it must not recreate the pool.
    await cluster.stop(cluster.get('w2'));
    assert.deepEqual(await results('--unregister', '--yes'), ['back deleted', 'other does not exist']);
    await disappears(restart('w1'));
    assert.ok(existsSync(restart('w2')));
    await cluster.restart('w2');
    await disappears(restart('w2'));
    assert.deepEqual((await shell.ok('pool', 'list'))['items'], []);
    await cluster.end();
  });
});

describe('a pool', { timeout: 240_000 }, () => {
  it('is exported and imported completely and with checksums, only into a new pool of the same shape', async (t) => {
    const shell = await start(t, { m1: 'manager', w1: 'worker', w2: 'worker' });
    const { cluster } = shell;
    const session = await cluster.session();
    await shell.ok(...create('from', 'kv'));
    const from = session.pool(kv, 'from');
    const keys = Array.from({ length: 300 }, (_, n) => `key ${n}`);
    await Promise.all(keys.map((key) => from.dynamic().put(key, { n: key, big: 'x'.repeat(2_000) })));
    await from.dynamic().put('short', 'lived', { ttlMs: 600_000 });
    const out = shell.file('pool.jsonl');
    const exported = await shell.ok('pool', 'export', 'from', '--out', out);
    assert.deepEqual([exported['containers'], Number(exported['rows']) > 301], [4, true]);

    await shell.ok(...create('narrow', 'kv', 2));
    await shell.refused(5, /has 2 containers of kv, but the file has 4 of kv/, 'pool', 'import', 'narrow', out);
    await shell.refused(5, /other callers have written to container/, 'pool', 'import', 'from', out);
    const text = readFileSync(out, 'utf8');
    const corrupt = shell.file('corrupt.jsonl', text.replace('"v":"', '"v":"A'));
    await shell.refused(1, /STORE_CORRUPT: .*container \d/, 'pool', 'import', 'to', corrupt);
    await shell.refused(1, /STORE_CORRUPT/, 'pool', 'import', 'to', shell.file('short.jsonl', text.slice(0, -100)));

    const imported = await shell.ok('pool', 'import', 'to', out);
    assert.equal(imported['rows'], exported['rows']);
    const to = session.pool(kv, 'to');
    for (const key of keys) assert.deepEqual((await to.dynamic().get(key))?.value, { n: key, big: 'x'.repeat(2_000) });
    assert.equal((await to.dynamic().get('short'))?.value, 'lived');
    await cluster.awaitHealthy('to');
    // The replicas have it: the loss of an owner goes unnoticed.
    await cluster.kill(cluster.get('w1'));
    assert.deepEqual((await to.dynamic().get('key 7'))?.value, { n: 'key 7', big: 'x'.repeat(2_000) });
    await cluster.restart('w1');
    await cluster.end();
  });
});

async function start(
  t: TestContext,
  nodes = Object.fromEntries(names.map((name) => [name, roleOf(name)])),
): Promise<CommandShell> {
  return new CommandShell(await PoolCluster.start(t, nodes));
}

function roleOf(name: string): string {
  return name.startsWith('m') ? 'manager' : 'worker';
}

function create(name: string, of: string, containers = 4): readonly string[] {
  return ['pool', 'create', name, '--module', of, '--containers', String(containers)];
}

function pools(deployed: Record<string, unknown>): readonly unknown[] {
  const all = deployed['pools'] as { name: string; moduleVersion: number; current: number }[];
  return all.map(({ name, moduleVersion, current }) => [name, moduleVersion, current]);
}

async function appears(path: string): Promise<void> {
  await until(path, async () => (existsSync(path) ? true : undefined));
}

async function disappears(path: string): Promise<void> {
  await until(`no ${path}`, async () => (existsSync(path) ? undefined : true));
}

/** Four callers, each of its own container, until they are stopped. */
async function startCalls(cluster: PoolCluster): Promise<{
  stop(): Promise<{ readonly calls: number; readonly failures: readonly string[] }>;
  sum(): Promise<number>;
}> {
  const session = await cluster.session();
  const pool = session.pool(tally, 't').with({ timeoutMs: 20_000 });
  const failures: string[] = [];
  let isStopped = false;
  let calls = 0;
  const caller = async (id: number): Promise<void> => {
    while (!isStopped) {
      try {
        await pool.id(id).add(1);
        calls += 1;
      } catch (error) {
        failures.push(String(error));
      }
      // Without a pause the callers would take the CPU time of the nodes.
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const callers = [0, 1, 2, 3].map(caller);
  return {
    stop: async () => {
      isStopped = true;
      await Promise.all(callers);
      return { calls, failures };
    },
    sum: async () => {
      const counts = await Promise.all([0, 1, 2, 3].map((id) => pool.id(id).add(0)));
      return counts.reduce((total, one) => total + one, 0);
    },
  };
}
