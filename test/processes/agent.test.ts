/** Agents as real processes: greeting, crashing, coming back, leaving, and being refused. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { alive, bindable, event, filesIn, ProcessLab, members } from '../support/processes/process-lab.ts';

describe('agents', () => {
  test('greet each other and say when they are ready', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const b = await lab.agent('b', ['--join', `127.0.0.1:${a.port}`, '--roles', 'gate', '--dc', 'east']);
    assert.match(a.id, /^[0-9a-f]{32}$/);
    assert.deepEqual(JSON.parse(a.stdout), { ready: true, id: a.id, name: 'a', port: a.port, httpPort: a.httpPort });
    await Promise.all([alive(a.addr, 'b'), alive(b.addr, 'a')]);
    for (const { addr } of [a, b]) {
      const rows = await members(addr);
      assert.deepEqual(rows.map(({ name, state }) => `${name} ${state}`).toSorted(), ['a alive', 'b alive']);
    }
    for (const line of a.stderr.trimEnd().split('\n')) assert.equal(typeof JSON.parse(line), 'object', line);
  });

  test('survive the crash of one, show it, and take it back with the next generation', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const join = ['--join', `127.0.0.1:${a.port}`];
    const [b, c] = await Promise.all([lab.agent('b', join), lab.agent('c', join)]);
    await Promise.all([alive(a.addr, 'c'), alive(b.addr, 'c')]);
    c.kill('SIGKILL');
    assert.equal((await c.waitForExit()).signal, 'SIGKILL');
    for (const { addr } of [a, b]) {
      await event(addr, ({ type, member }) => member === 'c' && type === 'member.dead', 'c missed');
      const row = (await members(addr)).find(({ name }) => name === 'c');
      assert.notEqual(row?.state, 'alive');
    }
    assert.deepEqual(lab.bystandersDown(c), []);
    const back = await lab.agent('c', join);
    assert.equal(back.id, c.id);
    const returned = await event(
      a.addr,
      ({ type, member, generation }) => type === 'member.alive' && member === 'c' && generation === 2,
      'c back',
    );
    assert.equal(returned['id'], c.id);
    assert.deepEqual(lab.bystandersDown(c), []);
  });

  test('leave on SIGTERM with exit code 0 and without a trace', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const b = await lab.agent('b', ['--join', `127.0.0.1:${a.port}`, '--ephemeral']);
    await alive(a.addr, 'b');
    assert.ok(existsSync(join(lab.folder, 'b')));
    b.kill('SIGTERM');
    assert.deepEqual(await b.waitForExit(), { code: 0, signal: null });
    await event(a.addr, ({ type, member }) => type === 'member.left' && member === 'b', 'b left');
    await Promise.all([bindable(b.port), bindable(b.httpPort)]);
    assert.deepEqual(filesIn(lab.folder), ['a']);
    assert.deepEqual(lab.bystandersDown(b), []);
  });

  test('end with 130 on Ctrl-C, and at once on the second signal', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const join = ['--join', `127.0.0.1:${a.port}`, '--ephemeral'];
    const words = ['agent', '--port', '0', '--http-port', '0', '--profile', 'local', ...join];
    const interrupted = lab.program([...words, '--name', 'b']);
    await interrupted.waitForOutput('stdout', /"ready":true/);
    interrupted.kill('SIGINT');
    assert.deepEqual(await interrupted.waitForExit(), { code: 130, signal: null });
    const hurried = await lab.agent('c', join);
    await alive(a.addr, 'c');
    hurried.kill('SIGTERM');
    await hurried.waitForOutput('stderr', /SIGTERM/);
    hurried.kill('SIGTERM');
    assert.deepEqual(await hurried.waitForExit(), { code: 1, signal: null });
    assert.deepEqual(filesIn(lab.folder), ['a']);
  });

  test('end when the process that started them is gone', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a', ['--ephemeral']);
    a.child.stdin?.destroy();
    assert.deepEqual(await a.waitForExit(), { code: 1, signal: null });
    assert.deepEqual(filesIn(lab.folder), []);
  });
});

test('a mistake of ours ends an agent with a coded line, and its temporary data is removed', async (context) => {
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
  test('by the others, when its secret is wrong, and says so', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const stranger = lab.agentProgram('x', ['--join', `127.0.0.1:${a.port}`], {
      REMUSTER_AUTH_SECRET: 'another-9pWk3RbX6nYd',
    });
    await Promise.all([
      stranger.waitForOutput(
        'stderr',
        /not joined yet: no seed has replied; check the addresses, the secret and the cluster name/,
      ),
      a.waitForOutput('stderr', /"message":"refused"/),
    ]);
    assert.deepEqual(
      (await members(a.addr)).map(({ name }) => name),
      ['a'],
    );
    assert.ok(!stranger.stdout.includes('ready'));
    assert.deepEqual(lab.bystandersDown(), []);
    assert.ok(!`${a.stderr}${stranger.stderr}`.includes('9pWk3RbX6nYd'));
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

  test('at the start, with all that is wrong at once', async (context) => {
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
      lab.bystandersDown().filter((line) => line.includes(`pid ${a.pid}`)),
      [],
    );
  });

  test('when it would remove a directory that holds something else', async (context) => {
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
