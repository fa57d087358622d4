/** Dev clusters: how they end, keep their data, move to free ports, and take nodes back. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  awaitEvent,
  eventually,
  filesIn,
  ProcessLab,
  fetchMembers,
  processIsUp,
  type ChildProgram,
  type NodeEvent,
} from '../support/processes/process-lab.ts';
import {
  type DevNode,
  devSize,
  devNodeOf,
  assertDevClusterGone,
  type Ready,
  startDev,
} from '../support/processes/dev-clusters.ts';
import { until } from '../support/processes/manager-requests.ts';

/** Registrations of 3 s. */
async function startWithShortLeases(lab: ProcessLab, ...args: string[]): Promise<{ dev: ChildProgram; ready: Ready }> {
  lab.env['REMUSTER_TIME_SCALE'] = '0.1';
  return await startDev(lab, '--data', join(lab.folder, 'data'), ...args);
}

type DevReply = { schemaVersion: number; verb: string; node: DevNode & { registration?: string } };

/** Kills w1, waits until the registry has dropped its registration, and starts it again. */
async function restartAfterExpiry(lab: ProcessLab, ready: Ready): Promise<{ node: DevReply['node']; stderr: string }> {
  const manager = devNodeOf(ready, 'm1');
  const { id } = devNodeOf(ready, 'w1');
  assert.equal((await lab.run(['dev', 'kill', 'w1'])).code, 0);
  await until('w1 is not listed as active', async () => isRegistered(manager.addr, 'w1', 'lost'));
  await until('the registration of w1 has expired', async () => {
    const { stdout } = await lab.run(['registry', 'list', `/cluster/register/${id}`, '-o', 'json']);
    return (JSON.parse(stdout) as { items: unknown[] }).items.length === 0 || undefined;
  });
  const restarted = await lab.run(['dev', 'restart', 'w1', '-o', 'json']);
  assert.equal(restarted.code, 0, restarted.stderr);
  return { node: (JSON.parse(restarted.stdout) as DevReply).node, stderr: restarted.stderr };
}

async function isRegistered(addr: string, name: string, mode: string): Promise<true | undefined> {
  const row = (await fetchMembers(addr)).find((one) => one.name === name);
  return row?.registration === mode || undefined;
}

describe('a dev cluster', () => {
  test('leaves nothing behind when it is killed, not even a node that was paused', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    assert.equal((await lab.run(['dev', 'pause', 'w1'])).code, 0);
    dev.kill('SIGKILL');
    await assertDevClusterGone(lab, ready);
  });

  test('leaves nothing behind when it is killed, not even a restarted node that was paused', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    assert.equal((await lab.run(['dev', 'kill', 'w1'])).code, 0);
    const restarted = await lab.run(['dev', 'restart', 'w1', '-o', 'json']);
    const { node } = JSON.parse(restarted.stdout) as DevReply;
    assert.equal((await lab.run(['dev', 'pause', 'w1'])).code, 0);
    dev.kill('SIGKILL');
    await eventually('w1 is gone', () => !processIsUp(node.pid));
    await assertDevClusterGone(lab, ready);
  });

  test('refuses a data directory of an unknown format', async (context) => {
    const lab = new ProcessLab(context);
    const data = join(lab.folder, 'data');
    const first = await startDev(lab, '--data', data);
    first.dev.kill('SIGTERM');
    await first.dev.waitForExit();
    writeFileSync(join(data, 'w1', 'format'), '7\n');
    const refused = await lab.run(['dev', ...devSize, '-o', 'json', '--data', data]);
    assert.equal(refused.code, 1);
    const { error } = JSON.parse(refused.stderr.trim().split('\n').at(-1) ?? '') as { error: Record<string, string> };
    assert.deepEqual([error['code'], error['stateChanged']], ['INCOMPATIBLE_VERSION', 'no']);
    assert.match(String(error['message']), /^node w1 cannot start: the data directory .* has format 7/);
  });

  test('ends gracefully when its parent process is gone', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    dev.child.stdin?.destroy();
    assert.deepEqual(await dev.waitForExit(), { code: 1, signal: null });
    await assertDevClusterGone(lab, ready);
  });

  test('is stopped at once by a second signal', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    dev.kill('SIGTERM');
    await dev.waitForOutput('stderr', /stopping/);
    dev.kill('SIGTERM');
    assert.deepEqual(await dev.waitForExit(), { code: 1, signal: null });
    await assertDevClusterGone(lab, ready);
  });

  test('keeps its data with --data, and its nodes keep their ids', async (context) => {
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
    const [row] = await fetchMembers(devNodeOf(second.ready, 'g1').addr);
    assert.equal(row?.generation, 2);
    second.dev.kill('SIGKILL');
    for (const { pid } of second.ready.nodes) await eventually('the node is gone', () => !processIsUp(pid));
    assert.deepEqual(filesIn(lab.folder), ['data']);
    assert.ok(existsSync(join(data, 'g1')) && !existsSync(join(data, 'dev.json')));
  });

  test('uses other ports when its ports are taken, and reports it', async (context) => {
    const lab = new ProcessLab(context);
    const { ready } = await startDev(lab);
    const base = devNodeOf(ready, 'g1').port;
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
    await other.waitForOutput('stderr', new RegExp(`ports from ${base} on are in use: using ports from \\d+ on`));
    const [line] = await other.waitForOutput('stdout', /^\{"ready":true.*\}$/m);
    assert.notEqual((JSON.parse(line) as Ready).nodes[0]?.port, base);
    const several = await lab.run(['dev', 'kill', 'g1']);
    assert.equal(several.code, 2);
    assert.match(several.stderr, /several dev clusters run: choose one with --addr http/);
    const { addr } = devNodeOf(ready, 'w1');
    const paused = await lab.run(['dev', 'pause', 'w1', '-o', 'json'], { REMUSTER_ADDR: addr });
    assert.equal(paused.code, 0, paused.stderr);
    const { schemaVersion, verb, node } = JSON.parse(paused.stdout) as DevReply;
    assert.deepEqual([schemaVersion, verb, node.name, node.pid], [1, 'pause', 'w1', devNodeOf(ready, 'w1').pid]);
    assert.equal((await lab.run(['dev', 'resume', 'w1', '--addr', addr])).code, 0);
    const foreign = await lab.run(['dev', 'kill', 'w1', '--addr', 'http://127.0.0.1:1']);
    assert.equal(foreign.code, 2);
    assert.match(foreign.stderr, /http:\/\/127\.0\.0\.1:1 is not a dev cluster of this user/);
  });

  test('activates a node that restarts after its registration expired', async (context) => {
    const lab = new ProcessLab(context);
    const { ready } = await startWithShortLeases(lab);
    const { node, stderr } = await restartAfterExpiry(lab, ready);
    assert.equal(node.registration, 'active');
    assert.doesNotMatch(stderr, /drained/);
  });

  test('prints with --rejoin drained how to activate such a node', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startWithShortLeases(lab, '--rejoin', 'drained');
    const { node, stderr } = await restartAfterExpiry(lab, ready);
    assert.equal(node.registration, 'drained');
    const activate = /w1 is drained and gets no work: remuster node activate w1/;
    assert.match(stderr, activate);
    await dev.waitForOutput('stderr', activate);
    const { stdout, stderr: notices } = await lab.run(['members']);
    assert.match(stdout, /^w1 +worker +dc1 +alive +drained /m);
    assert.match(notices, /w1 returned after its registration expired and is drained: remuster node activate w1/);
    const { addr } = devNodeOf(ready, 'w1');
    for (const one of [addr, devNodeOf(ready, 'm1').addr]) {
      const isDrained = ({ type, member, mode }: NodeEvent): boolean =>
        type === 'node.state' && member === 'w1' && mode === 'drained';
      assert.equal((await awaitEvent(one, isDrained, 'drained'))['activate'], 'remuster node activate w1');
    }
    const log = readFileSync(join(lab.folder, 'data', 'logs', 'w1.log'), 'utf8');
    assert.match(log, /"level":"warn".*returned after its registration had expired.*remuster node activate w1/);
    assert.equal((await lab.run(['node', 'activate', 'w1'])).code, 0);
    await until('w1 is active', async () => isRegistered(addr, 'w1', 'active'));
  });
});
