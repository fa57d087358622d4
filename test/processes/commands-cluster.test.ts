/**
 * Commands of operators that change a cluster, against one dev cluster of real processes: what they print, their exit
 * codes, and the state of the cluster afterwards.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  type ProgramExit,
  awaitEvent,
  ProcessLab,
  fetchMembers,
  type ChildProgram,
} from '../support/processes/process-lab.ts';
import { httpCall, put, type Target, until } from '../support/processes/manager-requests.ts';

type Fields = Readonly<Record<string, unknown>>;
type CommandResult = ProgramExit & { readonly stdout: string; readonly stderr: string };
type DevNode = { readonly name: string; readonly httpPort: number };
type Ready = { readonly admin: string; readonly token: string; readonly nodes: readonly DevNode[] };
type Leader = { readonly leader: string; readonly term: number };

class CommandLine {
  readonly lab: ProcessLab;
  readonly admin: Target;
  readonly #nodes: readonly DevNode[];

  constructor(lab: ProcessLab, { admin, token, nodes }: Ready) {
    this.lab = lab;
    this.admin = { addr: admin, token };
    this.#nodes = nodes;
  }

  addrOf(name: string): string {
    const node = this.#nodes.find((one) => one.name === name);
    return `http://127.0.0.1:${node?.httpPort ?? assert.fail(`there is no ${name}`)}`;
  }

  async run(...args: string[]): Promise<CommandResult> {
    return await this.lab.run(args);
  }

  start(...args: string[]): ChildProgram {
    return this.lab.program(args);
  }

  /** The JSON output of a command that must succeed. */
  async json(...args: string[]): Promise<Fields> {
    const { code, stdout, stderr } = await this.run(...args, '-o', 'json');
    assert.equal(code, 0, `${args.join(' ')}\n${stdout}\n${stderr}`);
    const output = JSON.parse(stdout) as Fields;
    assert.equal(output['schemaVersion'], 1);
    return output;
  }

  async list(...args: string[]): Promise<readonly Fields[]> {
    return (await this.json(...args))['items'] as readonly Fields[];
  }

  /** The message of a command that must fail with that code, on stderr only. */
  async refused(exitCode: number, errorCode: string, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args, '-o', 'json');
    assert.deepEqual([code, stdout], [exitCode, ''], `${args.join(' ')}\n${stderr}`);
    const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '') as { error: Record<string, string> };
    assert.equal(error['code'], errorCode, stderr);
    return error['message'] ?? '';
  }

  async leader(): Promise<Leader> {
    return await until('a leader', async () => {
      const { code, stdout } = await this.run('leader', '-o', 'json');
      return code === 0 ? (JSON.parse(stdout) as Leader) : undefined;
    });
  }

  async awaitRegistration(name: string, status: string): Promise<void> {
    await until(`${name} ${status}`, async () => {
      const row = (await this.list('members')).find((member) => member['name'] === name);
      return row?.['registration'] === status ? true : undefined;
    });
  }
}

test('operators inspect and change a cluster', { timeout: 300_000 }, async (context) => {
  const lab = new ProcessLab(context);
  const args = ['--gates', '0', '--managers', '3', '--workers', '2', '--port-base', '0'];
  const dev = lab.program(['dev', '--with-parent', ...args, '-o', 'json']);
  const [line] = await dev.waitForOutput('stdout', /^\{"ready":true.*\}$/m);
  const commands = new CommandLine(lab, JSON.parse(line) as Ready);
  const step = async (
    name: string,
    run: (commands: CommandLine, context: TestContext) => Promise<void>,
  ): Promise<void> => {
    await context.test(name, async (inner) => await run(commands, inner));
  };
  await step('the leader, the voters and the registrations are shown', shows);
  await step('keys are written, read, compared and watched', keys);
  await step('a snapshot restores its content, and a corrupt one is refused', snapshots);
  await step('a drained node has no container, and gets its share again when activated', drains);
  await step('Ctrl-C does not stop a drain', interrupted);
  await step('the last active node is not drained', lastActive);
  await step('leadership is transferred in a new term', transfers);
  await step('a removal that costs the quorum is refused', quorum);
  await step('a node leaves permanently, and its process exits with 0', async () => await leaves(commands, dev));
});

async function shows(commands: CommandLine): Promise<void> {
  const [leader, status, managers, table, summary, unknown] = await Promise.all([
    commands.json('leader'),
    commands.json('status'),
    commands.list('manager', 'list'),
    commands.run('members'),
    commands.run('status'),
    commands.refused(2, 'BAD_ARGUMENT', 'leader', '--dc', 'nowhere'),
  ]);
  const [dc] = status['dcs'] as readonly Fields[];
  assert.deepEqual([status['cluster'], status['ready'], dc?.['dc'], dc?.['nodes']], ['dev', true, 'dc1', 5]);
  assert.deepEqual(dc?.['quorum'], { voters: 3, alive: 3 });
  assert.ok(typeof leader['term'] === 'number' && leader['term'] > 0);
  assert.match(String(leader['fence']), /^\d+$/);
  assert.deepEqual(
    managers.map(({ name, standing, state }) => [name, standing, state].join(' ')),
    ['m1 voter alive', 'm2 voter alive', 'm3 voter alive'],
  );
  assert.equal(managers.filter((row) => row['leader'] === true).length, 1);
  assert.match(table.stdout, /^NAME +ROLES +DC +STATE +REGISTRATION/);
  assert.equal(table.stdout.match(/ alive +active /g)?.length, 5, table.stdout);
  assert.match(
    summary.stdout,
    /^DC +LEADER +TERM +VOTERS +NODES +CONTAINERS +OPEN JOBS\ndc1 +m\d +\d+ +3\/3 +5 +0 +0$/m,
  );
  assert.match(unknown, /no member is in the datacenter "nowhere"/);
  // Every request that changes something needs the token.
  const { addr } = commands.admin;
  for (const [method, path] of [
    ['PUT', '/v1/registry'],
    ['DELETE', '/v1/registry?key=a'],
    ['POST', '/v1/registry/snapshot'],
    ['POST', '/v1/nodes/w1/drain'],
    ['POST', '/v1/nodes/w1/leave'],
    ['POST', '/v1/managers/m2/remove'],
    ['POST', '/v1/transfer'],
    ['POST', '/v1/rebalance'],
  ] as const)
    assert.equal((await httpCall({ addr }, method, path)).code, 'UNAUTHENTICATED', `${method} ${path}`);
}

async function keys(commands: CommandLine): Promise<void> {
  const first = await commands.json('registry', 'put', '/test/a', 'one', '--if-version', '0');
  assert.equal(first['version'], 1);
  const watcher = commands.start('registry', 'watch', '/test/');
  const [, from] = await watcher.waitForOutput('stderr', /from revision (\d+) on/);
  assert.ok(Number(from) > Number(first['revision']));
  const second = await commands.json('registry', 'put', '/test/a', 'two', '--if-version', '1');
  assert.equal(second['version'], 2);
  const [line] = await watcher.waitForOutput('stdout', /^\{.*"key":"\/test\/a".*\}$/m);
  const seen = JSON.parse(line) as Fields;
  assert.deepEqual([seen['kind'], seen['value'], seen['revision']], ['put', 'two', second['revision']]);

  const conflict = await commands.refused(5, 'PRECONDITION', 'registry', 'put', '/test/a', 'x', '--if-version', '1');
  assert.match(conflict, /\/test\/a has version 2, not 1/);
  await commands.json('registry', 'put', '/test/b', 'three');
  const [got, listed, names, missing] = await Promise.all([
    commands.json('registry', 'get', '/test/a'),
    commands.list('registry', 'list', '/test/'),
    commands.run('registry', 'list', '/test/', '-o', 'name'),
    commands.refused(1, 'UNKNOWN_KEY', 'registry', 'get', '/test/none'),
  ]);
  assert.deepEqual([got['value'], got['version']], ['two', 2]);
  assert.deepEqual(
    listed.map(({ key, value }) => [key, value]),
    [
      ['/test/a', 'two'],
      ['/test/b', 'three'],
    ],
  );
  assert.equal(names.stdout, '/test/a\n/test/b\n');
  assert.match(missing, /there is no key/);

  await commands.refused(2, 'BAD_ARGUMENT', 'registry', 'delete', '/test/b');
  const deleted = await commands.json(
    'registry',
    'delete',
    '/test/b',
    '--yes',
    '--if-version',
    '1',
    '--reason',
    'tidy',
  );
  assert.equal(deleted['deleted'], 1);
  await watcher.waitForOutput('stdout', /"kind":"delete","key":"\/test\/b"/);
  await awaitEvent(
    commands.admin.addr,
    ({ type, reason }) => type === 'admin.ordered' && reason === 'tidy',
    'the order',
  );
  watcher.kill('SIGINT');
  assert.equal((await watcher.waitForExit()).code, 130);
}

async function snapshots(commands: CommandLine): Promise<void> {
  const file = join(commands.lab.folder, 'registry.backup');
  // Values larger than a command line, so that the snapshot has several parts.
  for (let i = 0; i < 6; i++)
    assert.equal((await put(commands.admin, `/large/${i}`, String(i).repeat(200_000))).code, 'OK');
  const saved = await commands.json('registry', 'snapshot', 'save', file);
  assert.deepEqual([saved['cluster'], saved['bytes']], ['dev/dc1', readFileSync(file).length]);
  assert.ok(Number(saved['bytes']) > 1_200_000);
  await commands.json('registry', 'put', '/test/a', 'changed after it');
  await commands.json('registry', 'put', '/test/c', 'not in it');

  const corrupt = join(commands.lab.folder, 'corrupt.backup');
  const bytes = readFileSync(file);
  bytes[bytes.length - 5] = (bytes.at(-5) ?? 0) ^ 1;
  writeFileSync(corrupt, bytes);
  await commands.refused(1, 'STORE_CORRUPT', 'registry', 'snapshot', 'restore', corrupt, '--yes');
  await commands.refused(2, 'BAD_ARGUMENT', 'registry', 'snapshot', 'restore', file);
  assert.equal((await commands.json('registry', 'get', '/test/c'))['value'], 'not in it');

  const restored = await commands.json('registry', 'snapshot', 'restore', file, '--yes');
  assert.equal(restored['restored'], true);
  assert.equal((await commands.json('registry', 'get', '/test/a'))['value'], 'two');
  assert.equal((await commands.run('registry', 'list', '/large/', '-o', 'name')).stdout.split('\n').length, 7);
  await commands.refused(1, 'UNKNOWN_KEY', 'registry', 'get', '/test/c');
  for (const name of ['m1', 'm2', 'm3', 'w1', 'w2']) await commands.awaitRegistration(name, 'active');
}

async function drains(commands: CommandLine): Promise<void> {
  const created = await commands.json('pool', 'create', 'p', '--module', 'kv', '--containers', '6', '--copies', '1');
  assert.equal(created['serving'], 6);
  assert.match((await commands.run('balance')).stdout, /coefficient of variation \d+\.\d+.*\n6 containers on 2 active/);

  const preflight = await commands.json('node', 'drain', 'w1', '--dry-run');
  assert.deepEqual([preflight['dryRun'], preflight['blockedBy']], [true, []]);
  const drained = await commands.json('node', 'drain', 'w1', '--deadline', '30s', '--reason', 'new disk');
  assert.deepEqual([drained['phase'], drained['remaining'], drained['registration']], ['drained', 0, 'drained']);
  const shown = await commands.json('node', 'show', 'w1');
  assert.deepEqual([shown['reason'], shown['note']], ['drain_complete', 'new disk']);
  const { nodes, containers, unassigned } = await commands.json('balance');
  assert.deepEqual([containers, unassigned], [6, 0]);
  assert.deepEqual(held(nodes, 'w1'), { containers: 0, isActive: false });

  const active = await commands.json('node', 'activate', 'w1', '--reason', 'disk is in');
  assert.deepEqual([active['registration'], active['reason']], ['active', 'admin_activate']);
  await commands.awaitRegistration('w1', 'active');
  const owns = async (name: string): Promise<number> =>
    held((await commands.json('balance'))['nodes'], name).containers;
  await until('w1 gets its share', async () => ((await owns('w1')) === 3 ? true : undefined));

  // Uneven enough for a rebalance, and w1 has not just joined.
  const rows = (await commands.json('pool', 'show', 'p'))['containers'] as readonly Fields[];
  const away = rows.filter(({ owner }) => owner === 'w1').slice(0, 2);
  await commands.json('container', 'migrate', ...away.map(({ id }) => `p/${String(id)}`), '--to', 'w2');
  assert.equal(await owns('w1'), 1);
  const plan = await commands.json('rebalance', '--dry-run', '--max-moves', '1');
  assert.deepEqual([plan['dryRun'], plan['started']], [true, 0]);
  assert.deepEqual(
    (plan['moves'] as readonly Fields[]).map(({ to }) => to),
    ['w1'],
  );
  assert.equal(await owns('w1'), 1);
  const rebalance = await commands.json('rebalance', '--yes');
  assert.ok(
    Number(rebalance['started']) > 0 && (rebalance['failed'] as unknown[]).length === 0,
    JSON.stringify(rebalance),
  );
  await until('w1 has more again', async () => ((await owns('w1')) > 1 ? true : undefined));
  await commands.refused(2, 'BAD_ARGUMENT', 'rebalance', '--max-moves', '0');
  await commands.refused(2, 'BAD_ARGUMENT', 'node', 'drain', 'w1', '--deadline', 'soon');
  assert.match(await commands.refused(2, 'BAD_ARGUMENT', 'node', 'show', 'w11'), /did you mean w1/);
}

function held(nodes: unknown, name: string): { readonly containers: number; readonly isActive: boolean } {
  type Row = { readonly name: string; readonly containers: number; readonly isActive: boolean };
  const row = (nodes as readonly Row[]).find((one) => one.name === name) ?? assert.fail(`no row of ${name}`);
  return { containers: row.containers, isActive: row.isActive };
}

/** A paused node hands no container over, so its drain lasts until it resumes. */
async function interrupted(commands: CommandLine): Promise<void> {
  await commands.run('dev', 'pause', 'w1');
  const drain = commands.start('node', 'drain', 'w1');
  await drain.waitForOutput('stderr', /moving|has not opened|has not been copied/);
  drain.kill('SIGINT');
  assert.equal((await drain.waitForExit()).code, 130);
  assert.match(drain.stderr, /the drain of w1 continues: `remuster node show w1` shows its progress/);
  const detached = await commands.json('node', 'drain', 'w1', '--detach');
  assert.equal(detached['phase'], 'draining');
  await commands.run('dev', 'resume', 'w1');
  assert.equal((await commands.json('node', 'drain', 'w1'))['phase'], 'drained');
  await commands.json('node', 'activate', 'w1');
  await commands.awaitRegistration('w1', 'active');
}

async function lastActive(commands: CommandLine): Promise<void> {
  await commands.json('node', 'drain', 'w1');
  assert.match(await commands.refused(5, 'PRECONDITION', 'node', 'drain', 'w2'), /no other node is active/);
  const { code, stdout } = await commands.run('node', 'drain', 'w2', '--dry-run', '-o', 'json');
  assert.equal(code, 5);
  assert.match(String((JSON.parse(stdout) as Fields)['blockedBy']), /no other node is active/);
  assert.match(await commands.refused(5, 'PRECONDITION', 'rebalance'), /at least 2 active nodes/);
  await commands.json('node', 'activate', 'w1');
}

async function transfers(commands: CommandLine): Promise<void> {
  const former = await commands.leader();
  const to = ['m1', 'm2', 'm3'].find((name) => name !== former.leader) ?? '';
  await until('leadership is taken over', async () => {
    const { code, stdout, stderr } = await commands.run('manager', 'transfer', to, '-o', 'json');
    // On a busy machine the target may be too late; then nothing has changed.
    assert.ok(code === 0 || code === 4 || /already the leader/.test(stderr), stderr);
    if (code !== 0) return (await commands.leader()).leader === to ? true : undefined;
    const { leader, term } = JSON.parse(stdout) as Leader;
    assert.equal(leader, to);
    assert.ok(term > former.term);
    return true;
  });
  const now = await commands.leader();
  assert.ok(now.term > former.term);
  const message = await commands.refused(5, 'PRECONDITION', 'manager', 'transfer', now.leader);
  assert.match(message, /already the leader/);
  assert.match(await commands.refused(5, 'PRECONDITION', 'manager', 'transfer', 'w1'), /not a voter/);
}

async function quorum(commands: CommandLine): Promise<void> {
  // The manager is removed and added again by hand; the autopilot promotes it.
  const { leader } = await commands.leader();
  const killed = ['m3', 'm2'].find((name) => name !== leader) ?? '';
  const other = ['m1', 'm2', 'm3'].find((name) => name !== leader && name !== killed) ?? '';
  await commands.json('manager', 'remove', killed, '--yes', '--reason', 'to be replaced');
  assert.equal(await standing(commands, killed), 'outside');
  assert.match(await commands.refused(5, 'PRECONDITION', 'manager', 'promote', killed), /not a member/);
  await commands.json('manager', 'add', killed);
  await until(`${killed} votes again`, async () => ((await standing(commands, killed)) === 'voter' ? true : undefined));

  await commands.run('dev', 'kill', killed);
  const leading = commands.addrOf((await commands.leader()).leader);
  await awaitEvent(leading, ({ type, member }) => type === 'member.dead' && member === killed, `${killed} dead`);
  const message = await commands.refused(5, 'PRECONDITION', 'manager', 'remove', other, '--yes');
  assert.match(message, new RegExp(`without ${other} the group has 2 voters.*${killed} cannot.*lose its quorum`));
  assert.match(await commands.refused(5, 'PRECONDITION', 'manager', 'remove', other, '--dry-run'), /quorum/);
  assert.equal(await standing(commands, other), 'voter');
  const removed = await commands.json('manager', 'remove', killed, '--yes');
  assert.equal(removed['voters'], 2);
  const { dcs } = await commands.json('status');
  assert.deepEqual((dcs as readonly Fields[])[0]?.['quorum'], { voters: 2, alive: 2 });
}

async function standing(commands: CommandLine, name: string): Promise<unknown> {
  return (await commands.list('manager', 'list')).find((row) => row['name'] === name)?.['standing'];
}

async function leaves(commands: CommandLine, dev: ChildProgram): Promise<void> {
  const plan = await commands.json('node', 'leave', 'w2', '--dry-run');
  assert.equal((plan['steps'] as readonly string[]).length, 2);
  const left = await commands.json('node', 'leave', 'w2', '--yes', '--reason', 'sold');
  assert.equal(left['left'], true);
  await dev.waitForOutput('stderr', /node ended w2 \(pid \d+\): exit code 0/);
  await until('w2 is known to have left', async () => {
    const row = (await fetchMembers(commands.admin.addr)).find(({ name }) => name === 'w2');
    return row?.state === 'left' ? true : undefined;
  });
  const registered = await commands.run('registry', 'list', '/cluster/register/', '-o', 'json');
  assert.ok(!registered.stdout.includes('"name\\":\\"w2'), registered.stdout);
  assert.match(
    await commands.refused(5, 'PRECONDITION', 'node', 'leave', 'w2'),
    /it cannot receive the command to leave/,
  );
}
