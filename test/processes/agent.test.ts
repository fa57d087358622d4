/** Agents as real processes: they join, crash, restart, leave, and are refused. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  awaitAlive,
  awaitBindable,
  awaitEvent,
  filesIn,
  ProcessLab,
  fetchMembers,
} from '../support/processes/process-lab.ts';

describe('agents', () => {
  test('join each other and print when they are ready', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const b = await lab.agent('b', ['--join', `127.0.0.1:${a.port}`, '--roles', 'gate', '--dc', 'east']);
    assert.match(a.id, /^[0-9a-f]{32}$/);
    assert.deepEqual(JSON.parse(a.stdout), { ready: true, id: a.id, name: 'a', port: a.port, httpPort: a.httpPort });
    await Promise.all([awaitAlive(a.addr, 'b'), awaitAlive(b.addr, 'a')]);
    for (const { addr } of [a, b]) {
      const rows = await fetchMembers(addr);
      assert.deepEqual(rows.map(({ name, state }) => `${name} ${state}`).toSorted(), ['a alive', 'b alive']);
    }
    for (const line of a.stderr.trimEnd().split('\n')) assert.equal(typeof JSON.parse(line), 'object', line);
  });

  test('survive the crash of one, report it, and accept its restart with the next generation', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const join = ['--join', `127.0.0.1:${a.port}`];
    const [b, c] = await Promise.all([lab.agent('b', join), lab.agent('c', join)]);
    await Promise.all([awaitAlive(a.addr, 'c'), awaitAlive(b.addr, 'c')]);
    c.kill('SIGKILL');
    assert.equal((await c.waitForExit()).signal, 'SIGKILL');
    for (const { addr } of [a, b]) {
      await awaitEvent(addr, ({ type, member }) => member === 'c' && type === 'member.dead', 'the death of c');
      const row = (await fetchMembers(addr)).find(({ name }) => name === 'c');
      assert.notEqual(row?.state, 'alive');
    }
    assert.deepEqual(lab.unexpectedExits(c), []);
    const back = await lab.agent('c', join);
    assert.equal(back.id, c.id);
    const returned = await awaitEvent(
      a.addr,
      ({ type, member, generation }) => type === 'member.alive' && member === 'c' && generation === 2,
      'c back',
    );
    assert.equal(returned['id'], c.id);
    assert.deepEqual(lab.unexpectedExits(c), []);
  });

  test('leave on SIGTERM with exit code 0 and leave nothing behind', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const b = await lab.agent('b', ['--join', `127.0.0.1:${a.port}`, '--ephemeral']);
    await awaitAlive(a.addr, 'b');
    assert.ok(existsSync(join(lab.folder, 'b')));
    b.kill('SIGTERM');
    assert.deepEqual(await b.waitForExit(), { code: 0, signal: null });
    await awaitEvent(a.addr, ({ type, member }) => type === 'member.left' && member === 'b', 'b left');
    await Promise.all([awaitBindable(b.port), awaitBindable(b.httpPort)]);
    assert.deepEqual(filesIn(lab.folder), ['a']);
    assert.deepEqual(lab.unexpectedExits(b), []);
  });

  test('end with 130 on Ctrl-C, and at once on the second signal', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const join = ['--join', `127.0.0.1:${a.port}`, '--ephemeral'];
    const args = ['agent', '--port', '0', '--http-port', '0', '--profile', 'local', ...join];
    const interrupted = lab.program([...args, '--name', 'b']);
    await interrupted.waitForOutput('stdout', /"ready":true/);
    interrupted.kill('SIGINT');
    assert.deepEqual(await interrupted.waitForExit(), { code: 130, signal: null });
    const impatient = await lab.agent('c', join);
    await awaitAlive(a.addr, 'c');
    impatient.kill('SIGTERM');
    await impatient.waitForOutput('stderr', /SIGTERM/);
    impatient.kill('SIGTERM');
    assert.deepEqual(await impatient.waitForExit(), { code: 1, signal: null });
    assert.deepEqual(filesIn(lab.folder), ['a']);
  });

  test('exit when their parent process is gone', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a', ['--ephemeral']);
    a.child.stdin?.destroy();
    assert.deepEqual(await a.waitForExit(), { code: 1, signal: null });
    assert.deepEqual(filesIn(lab.folder), []);
  });
});

test('an uncaught error ends an agent with a coded log line, and its temporary data is removed', async (context) => {
  const lab = new ProcessLab(context);
  const planted = "process.on('SIGUSR2',()=>{throw new Error('planted')})";
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(planted)}` };
  const a = await lab.agent('a', ['--ephemeral'], env);
  a.kill('SIGUSR2');
  assert.deepEqual(await a.waitForExit(), { code: 1, signal: null });
  const last = JSON.parse(a.stderr.trimEnd().split('\n').at(-1) ?? '') as { message: string; fields: { code: string } };
  assert.deepEqual([last.message, last.fields.code], ['uncaught Error: planted', 'INTERNAL']);
  assert.deepEqual(filesIn(lab.folder), []);
});

describe('an agent is refused', () => {
  test('by other nodes when its secret is wrong, and logs the reason', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const intruder = lab.agentProgram('x', ['--join', `127.0.0.1:${a.port}`], {
      REMUSTER_AUTH_SECRET: 'another-9pWk3RbX6nYd',
    });
    await Promise.all([
      intruder.waitForOutput(
        'stderr',
        /not joined yet: no seed has replied; check the addresses, the secret and the cluster name/,
      ),
      a.waitForOutput('stderr', /"message":"refused"/),
    ]);
    assert.deepEqual(
      (await fetchMembers(a.addr)).map(({ name }) => name),
      ['a'],
    );
    assert.ok(!intruder.stdout.includes('ready'));
    assert.deepEqual(lab.unexpectedExits(), []);
    assert.ok(!`${a.stderr}${intruder.stderr}`.includes('9pWk3RbX6nYd'));
  });

  test('at the start, with exit code 2, when its secret is missing or weak', async (context) => {
    const lab = new ProcessLab(context);
    const off = await lab.run(['agent', '--host', '192.0.2.1'], { REMUSTER_AUTH_SECRET: '' });
    assert.equal(off.code, 2);
    assert.match(off.stderr, /WEAK_SECRET: secret is required when host is not a loopback address/);
    for (const weak of ['too-short', 'passwordpassword']) {
      const { code, stderr, stdout } = await lab.run(['agent', '--port', '0', '--http-port', '0', '--ephemeral'], {
        REMUSTER_AUTH_SECRET: weak,
      });
      assert.equal(code, 2, stderr);
      assert.match(stderr, /WEAK_SECRET/);
      assert.ok(!`${stdout}${stderr}`.includes(weak));
    }
    assert.deepEqual(filesIn(lab.folder), []);
  });

  test('at the start with all invalid options at once', async (context) => {
    const lab = new ProcessLab(context);
    const { code, stderr } = await lab.run(['agent', '--port', '99999', '--roles', 'king'], {
      REMUSTER_PROBE_INTERVAL: 'x',
    });
    assert.equal(code, 2);
    for (const wrong of ['port must be', 'roles must be', 'probeIntervalMs must be'])
      assert.ok(stderr.includes(wrong), wrong);
  });

  test('when its port is taken or its data directory is in use', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const port = await lab.run(['agent', '--name', 'b', '--port', String(a.port), '--http-port', '0', '--ephemeral']);
    assert.notEqual(port.code, 0);
    assert.match(port.stderr, /error [A-Z_]+: /);
    const data = await lab.run([
      'agent',
      '--name',
      'b',
      '--port',
      '0',
      '--http-port',
      '0',
      '--data',
      join(lab.folder, 'a'),
    ]);
    assert.notEqual(data.code, 0);
    assert.match(data.stderr, /error [A-Z_]+: /);
    assert.deepEqual(
      lab.unexpectedExits().filter((line) => line.includes(`pid ${a.pid}`)),
      [],
    );
  });

  test('when it would remove a directory with other files', async (context) => {
    const lab = new ProcessLab(context);
    const folder = join(lab.folder, 'precious');
    mkdirSync(folder);
    writeFileSync(join(folder, 'file'), '');
    const { code, stderr } = await lab.run(['agent', '--ephemeral', '--data', folder]);
    assert.equal(code, 2);
    assert.match(stderr, /not empty/);
    assert.ok(existsSync(join(folder, 'file')));
  });
});
