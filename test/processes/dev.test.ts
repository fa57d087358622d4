/** Dev clusters: what they say, the orders they take, and that nothing is left of them, however they end. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  bindable,
  event,
  eventually,
  filesIn,
  ProcessLab,
  members,
  processIsUp,
  type ChildProgram,
} from '../support/processes/process-lab.ts';
import { until } from '../support/processes/manager-requests.ts';

type DevNode = {
  id: string;
  name: string;
  pid: number;
  roles: string[];
  dc: string;
  host: string;
  port: number;
  httpPort: number;
};
type Ready = { ready: true; admin: string; token: string; nodes: DevNode[] };

const size = ['--gates', '1', '--managers', '1', '--workers', '1', '--port-base', '0'];

async function startDev(lab: ProcessLab, ...words: string[]): Promise<{ dev: ChildProgram; ready: Ready }> {
  const dev = lab.program(['dev', '--with-parent', ...size, '-o', 'json', ...words]);
  const [line] = await dev.waitForOutput('stdout', /^\{"ready":true.*\}$/m);
  return { dev, ready: JSON.parse(line) as Ready };
}

function nodeCalled(ready: Ready, name: string): DevNode & { addr: string } {
  const node = ready.nodes.find((one) => one.name === name);
  assert.ok(node);
  return { ...node, addr: `http://127.0.0.1:${node.httpPort}` };
}

/** Registrations of 3 s. */
async function startHasty(lab: ProcessLab, ...words: string[]): Promise<{ dev: ChildProgram; ready: Ready }> {
  lab.env['REMUSTER_TIME_SCALE'] = '0.1';
  return await startDev(lab, '--data', join(lab.folder, 'data'), ...words);
}

type DevAnswer = { schemaVersion: number; verb: string; node: DevNode & { registration?: string } };

/** Kills w1, waits until the registry has dropped its registration, and starts it again. */
async function awayTooLong(lab: ProcessLab, ready: Ready): Promise<{ node: DevAnswer['node']; stderr: string }> {
  const manager = nodeCalled(ready, 'm1');
  const { id } = nodeCalled(ready, 'w1');
  assert.equal((await lab.run(['dev', 'kill', 'w1'])).code, 0);
  await until('w1 is not listed as active', async () => isRegistered(manager.addr, 'w1', 'lost'));
  await until('the registration of w1 is over', async () => {
    const { stdout } = await lab.run(['registry', 'list', `/cluster/register/${id}`, '-o', 'json']);
    return (JSON.parse(stdout) as { items: unknown[] }).items.length === 0 || undefined;
  });
  const restarted = await lab.run(['dev', 'restart', 'w1', '-o', 'json']);
  assert.equal(restarted.code, 0, restarted.stderr);
  return { node: (JSON.parse(restarted.stdout) as DevAnswer).node, stderr: restarted.stderr };
}

async function isRegistered(addr: string, name: string, mode: string): Promise<true | undefined> {
  const row = (await members(addr)).find((one) => one.name === name);
  return row?.registration === mode || undefined;
}

async function nothingIsLeft(lab: ProcessLab, ready: Ready): Promise<void> {
  for (const { name, pid } of ready.nodes) await eventually(`${name} is gone`, () => !processIsUp(pid));
  await eventually(`no file is left: ${filesIn(lab.folder).join(' ')}`, () => filesIn(lab.folder).length === 0);
  for (const { port, httpPort } of ready.nodes) await Promise.all([bindable(port), bindable(httpPort)]);
}

describe('a dev cluster', () => {
  test('says in one line what runs where, and leaves nothing behind on SIGTERM', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    assert.equal(dev.stdout.trim().split('\n').length, 1);
    assert.deepEqual(Object.keys(ready), ['ready', 'admin', 'token', 'secret', 'nodes']);
    assert.deepEqual(
      ready.nodes.map(({ name, roles, dc }) => `${name} ${roles.join()} ${dc}`),
      ['g1 gate dc1', 'm1 manager dc1', 'w1 worker dc1'],
    );
    for (const node of ready.nodes) {
      assert.match(node.id, /^[0-9a-f]{32}$/);
      assert.ok(processIsUp(node.pid));
      const rows = await members(`http://${node.host}:${node.httpPort}`);
      assert.deepEqual(rows.map(({ name, state }) => `${name} ${state}`).toSorted(), [
        'g1 alive',
        'm1 alive',
        'w1 alive',
      ]);
    }
    const found = await lab.run(['members', '-o', 'name']);
    assert.deepEqual(found.stdout.trim().split('\n').toSorted(), ['g1', 'm1', 'w1']);
    dev.kill('SIGTERM');
    assert.deepEqual(await dev.waitForExit(), { code: 0, signal: null });
    await nothingIsLeft(lab, ready);
  });

  test('takes orders: kill, pause, resume, partition and heal', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    const [g1, m1, w1] = ['g1', 'm1', 'w1'].map((name) => nodeCalled(ready, name)) as [
      DevNode & { addr: string },
      DevNode & { addr: string },
      DevNode,
    ];
    // Whoever hears of a death that somebody else has proven has never suspected it.
    const missed = (name: string, after: number) =>
      event(
        g1.addr,
        ({ seq, type, member }) => seq > after && member === name && /^member\.(?:suspect|dead)$/.test(type),
        `${name} missed`,
      );
    const back = (name: string, after: number) =>
      event(
        g1.addr,
        ({ seq, type, member }) => seq > after && member === name && type === 'member.alive',
        `${name} back`,
      );

    const cut = await lab.run(['dev', 'partition', 'g1,w1', '/', 'm1']);
    assert.deepEqual([cut.code, cut.stdout, cut.stderr], [0, '', 'cut: g1,w1 / m1\n']);
    const lost = await missed('m1', 0);
    assert.equal((await lab.run(['dev', 'heal'])).code, 0);
    const healed = await back('m1', lost.seq);

    assert.equal((await lab.run(['dev', 'pause', 'm1'])).code, 0);
    const silent = await missed('m1', healed.seq);
    assert.ok(processIsUp(m1.pid));
    assert.equal((await lab.run(['dev', 'resume', 'm1'])).code, 0);
    await back('m1', silent.seq);

    const killed = await lab.run(['dev', 'kill', 'w1']);
    assert.deepEqual([killed.code, killed.stderr], [0, `killed: w1 (pid ${w1.pid})\n`]);
    assert.ok(!processIsUp(w1.pid));
    await dev.waitForOutput('stderr', /node ended w1 \(pid \d+\): signal SIGKILL; 2 still up/);
    await missed('w1', 0);
    assert.ok(processIsUp(g1.pid) && processIsUp(m1.pid) && dev.isUp);

    for (const name of ['w1', 'x9']) assert.equal((await lab.run(['dev', 'kill', name])).code, 2, name);
    dev.kill('SIGINT');
    assert.deepEqual(await dev.waitForExit(), { code: 130, signal: null });
    await nothingIsLeft(lab, ready);
    assert.equal((await lab.run(['dev', 'kill', 'g1'])).code, 3);
  });

  test('leaves nothing behind when it is killed, not even a node that was paused', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    assert.equal((await lab.run(['dev', 'pause', 'w1'])).code, 0);
    dev.kill('SIGKILL');
    await nothingIsLeft(lab, ready);
  });

  test('ends in good order when the program that started it is gone', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    dev.child.stdin?.destroy();
    assert.deepEqual(await dev.waitForExit(), { code: 1, signal: null });
    await nothingIsLeft(lab, ready);
  });

  test('is stopped at once by a second signal', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    dev.kill('SIGTERM');
    await dev.waitForOutput('stderr', /stopping/);
    dev.kill('SIGTERM');
    assert.deepEqual(await dev.waitForExit(), { code: 1, signal: null });
    await nothingIsLeft(lab, ready);
  });

  test('keeps its data when asked to, and its nodes come back as themselves', async (context) => {
    const lab = new ProcessLab(context);
    const data = join(lab.folder, 'data');
    const first = await startDev(lab, '--data', data);
    first.dev.kill('SIGTERM');
    assert.equal((await first.dev.waitForExit()).code, 0);
    assert.deepEqual(readdirSync(data).toSorted(), ['g1', 'logs', 'm1', 'w1']);
    const second = await startDev(lab, '--data', data);
    assert.deepEqual(
      second.ready.nodes.map(({ id }) => id),
      first.ready.nodes.map(({ id }) => id),
    );
    const [row] = await members(nodeCalled(second.ready, 'g1').addr);
    assert.equal(row?.generation, 2);
    second.dev.kill('SIGKILL');
    for (const { pid } of second.ready.nodes) await eventually('the node is gone', () => !processIsUp(pid));
    assert.deepEqual(filesIn(lab.folder), ['data']);
    assert.ok(existsSync(join(data, 'g1')) && !existsSync(join(data, 'dev.json')));
  });

  test('moves on when its ports are taken, and says so', async (context) => {
    const lab = new ProcessLab(context);
    const { ready } = await startDev(lab);
    const base = nodeCalled(ready, 'g1').port;
    const other = lab.program([
      'dev',
      '--with-parent',
      '--gates',
      '1',
      '--managers',
      '0',
      '--workers',
      '0',
      '--port-base',
      String(base),
      '-o',
      'json',
    ]);
    await other.waitForOutput('stderr', new RegExp(`ports from ${base} on are in use, taking \\d+`));
    const [line] = await other.waitForOutput('stdout', /^\{"ready":true.*\}$/m);
    assert.notEqual((JSON.parse(line) as Ready).nodes[0]?.port, base);
    const several = await lab.run(['dev', 'kill', 'g1']);
    assert.equal(several.code, 2);
    assert.match(several.stderr, /several dev clusters run; choose one of --addr http/);
    const { addr } = nodeCalled(ready, 'w1');
    const paused = await lab.run(['dev', 'pause', 'w1', '-o', 'json'], { REMUSTER_ADDR: addr });
    assert.equal(paused.code, 0, paused.stderr);
    const { schemaVersion, verb, node } = JSON.parse(paused.stdout) as DevAnswer;
    assert.deepEqual([schemaVersion, verb, node.name, node.pid], [1, 'pause', 'w1', nodeCalled(ready, 'w1').pid]);
    assert.equal((await lab.run(['dev', 'resume', 'w1', '--addr', addr])).code, 0);
    const foreign = await lab.run(['dev', 'kill', 'w1', '--addr', 'http://127.0.0.1:1']);
    assert.equal(foreign.code, 2);
    assert.match(foreign.stderr, /http:\/\/127\.0\.0\.1:1 is no dev cluster of yours/);
  });

  test('a node that was away too long is active again', async (context) => {
    const lab = new ProcessLab(context);
    const { ready } = await startHasty(lab);
    const { node, stderr } = await awayTooLong(lab, ready);
    assert.equal(node.registration, 'active');
    assert.doesNotMatch(stderr, /drained/);
  });

  test('with --rejoin drained a node that was away too long says how to activate it', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startHasty(lab, '--rejoin', 'drained');
    const { node, stderr } = await awayTooLong(lab, ready);
    assert.equal(node.registration, 'drained');
    const activate = /w1 is drained and gets no work: remuster node activate w1/;
    assert.match(stderr, activate);
    await dev.waitForOutput('stderr', activate);
    const { stdout, stderr: notices } = await lab.run(['members']);
    assert.match(stdout, /^w1 +worker +dc1 +alive +drained /m);
    assert.match(notices, /w1 returned too late and is drained: remuster node activate w1/);
    const { addr } = nodeCalled(ready, 'w1');
    const drained = await event(addr, ({ type, mode }) => type === 'node.state' && mode === 'drained', 'drained');
    assert.equal(drained['activate'], 'remuster node activate w1');
    const log = readFileSync(join(lab.folder, 'data', 'logs', 'w1.log'), 'utf8');
    assert.match(log, /"level":"warn".*returned after its registration had run out.*remuster node activate w1/);
    assert.equal((await lab.run(['node', 'activate', 'w1'])).code, 0);
    await until('w1 is active', async () => isRegistered(addr, 'w1', 'active'));
  });
});
