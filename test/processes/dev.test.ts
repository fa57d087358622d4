/** Dev clusters: what they say, the orders they take, and that nothing is left of them, however they end. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
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
    assert.match(several.stderr, /several dev clusters run/);
  });
});
