/** Dev clusters: their output, their verbs, and that they leave nothing behind however they end. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { awaitEvent, ProcessLab, fetchMembers, processIsUp } from '../support/processes/process-lab.ts';
import { type DevNode, devNodeOf, assertDevClusterGone, startDev } from '../support/processes/dev-clusters.ts';

describe('a dev cluster', () => {
  test('prints its nodes in one line, and leaves nothing behind on SIGTERM', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    assert.equal(dev.stdout.trim().split('\n').length, 1);
    assert.deepEqual(Object.keys(ready), ['ready', 'admin', 'token', 'cluster', 'secret', 'nodes']);
    assert.deepEqual(
      ready.nodes.map(({ name, roles, dc }) => `${name} ${roles.join()} ${dc}`),
      ['g1 gate dc1', 'm1 manager dc1', 'w1 worker dc1'],
    );
    for (const node of ready.nodes) {
      assert.match(node.id, /^[0-9a-f]{32}$/);
      assert.ok(processIsUp(node.pid));
      const rows = await fetchMembers(`http://${node.host}:${node.httpPort}`);
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
    await assertDevClusterGone(lab, ready);
  });

  test('executes kill, pause, resume, partition and heal', async (context) => {
    const lab = new ProcessLab(context);
    const { dev, ready } = await startDev(lab);
    const [g1, m1, w1] = ['g1', 'm1', 'w1'].map((name) => devNodeOf(ready, name)) as [
      DevNode & { addr: string },
      DevNode & { addr: string },
      DevNode,
    ];
    // A node that gets proof of a death from another node declares it dead without a suspicion.
    const suspectOrDead = (name: string, after: number) =>
      awaitEvent(
        g1.addr,
        ({ seq, type, member }) => seq > after && member === name && /^member\.(?:suspect|dead)$/.test(type),
        `${name} suspect or dead`,
      );
    const back = (name: string, after: number) =>
      awaitEvent(
        g1.addr,
        ({ seq, type, member }) => seq > after && member === name && type === 'member.alive',
        `${name} back`,
      );

    const cut = await lab.run(['dev', 'partition', 'g1,w1', '/', 'm1']);
    assert.deepEqual([cut.code, cut.stdout, cut.stderr], [0, '', 'cut: g1,w1 / m1\n']);
    const lost = await suspectOrDead('m1', 0);
    assert.equal((await lab.run(['dev', 'heal'])).code, 0);
    const healed = await back('m1', lost.seq);

    assert.equal((await lab.run(['dev', 'pause', 'm1'])).code, 0);
    const paused = await suspectOrDead('m1', healed.seq);
    assert.ok(processIsUp(m1.pid));
    assert.equal((await lab.run(['dev', 'resume', 'm1'])).code, 0);
    await back('m1', paused.seq);

    const killed = await lab.run(['dev', 'kill', 'w1']);
    assert.deepEqual([killed.code, killed.stderr], [0, `killed: w1 (pid ${w1.pid})\n`]);
    assert.ok(!processIsUp(w1.pid));
    await dev.waitForOutput('stderr', /node ended w1 \(pid \d+\): signal SIGKILL; 2 still running/);
    await suspectOrDead('w1', 0);
    assert.ok(processIsUp(g1.pid) && processIsUp(m1.pid) && dev.isUp);

    for (const name of ['w1', 'x9']) assert.equal((await lab.run(['dev', 'kill', name])).code, 2, name);
    dev.kill('SIGINT');
    assert.deepEqual(await dev.waitForExit(), { code: 130, signal: null });
    await assertDevClusterGone(lab, ready);
    assert.equal((await lab.run(['dev', 'kill', 'g1'])).code, 3);
  });
});
