import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Program, ProgramEvents, RunnerLimits, RunningProgram } from '../../base/ports.ts';
import { realWorld, utf8Text } from '../../../test/simulation/conformance/harness.ts';
import { describeRunners } from '../../../test/simulation/conformance/runners.ts';
import { type OpenRunners, openRunners } from './runners.ts';

/** Runners that have exited when the test ends. */
function testRunners(t: TestContext): OpenRunners {
  const runners = openRunners();
  const exits: Promise<void>[] = [];
  const running: RunningProgram[] = [];
  t.after(async () => {
    for (const program of running) program.kill();
    await Promise.all(exits);
  });
  const start = (spec: Parameters<typeof runners.start>[0], events: ProgramEvents): RunningProgram => {
    const exited = Promise.withResolvers<void>();
    const program = runners.start(spec, {
      message: (body) => events.message(body),
      exited: (reason) => {
        exited.resolve();
        events.exited(reason);
      },
    });
    running.push(program);
    exits.push(exited.promise);
    return program;
  };
  return { isolation: runners.isolation, start };
}

describeRunners('child processes', (t) => ({ ...realWorld, runners: testRunners(t) }));

const limits: RunnerLimits = { memoryBytesMax: 256 * 2 ** 20, lifetimeMsMax: 20_000, network: false };

/** A program with these statements in its `main(channel)`; `send` sends a value as JSON. */
function programOf(statements: string): Program {
  const code = `
    export async function main(channel) {
      const send = (value) => channel.send(new TextEncoder().encode(JSON.stringify(value)));
      ${statements}
    }`;
  const moduleUrl = `data:text/javascript,${encodeURIComponent(code)}`;
  return { moduleUrl, main: () => assert.fail('runs in its own process') };
}

type Run = { readonly running: RunningProgram; readonly message: Promise<unknown>; readonly exited: Promise<string> };

function run(t: TestContext, statements: string, changed: Partial<RunnerLimits> = {}): Run {
  const message = Promise.withResolvers<unknown>();
  const exited = Promise.withResolvers<string>();
  const running = testRunners(t).start(
    { name: 'test', program: programOf(statements), data: new Uint8Array(0), limits: { ...limits, ...changed } },
    { message: (body) => message.resolve(JSON.parse(utf8Text(body) ?? '')), exited: exited.resolve },
  );
  return { running, message: message.promise, exited: exited.promise };
}

describe('the parent of a runner survives', { timeout: 60_000 }, () => {
  it('an endless loop', async (t) => {
    assert.match(await run(t, 'for (;;);', { lifetimeMsMax: 700 }).exited, /^lifetime: still running after 700 ms/);
  });

  it('process.exit', async (t) => {
    assert.match(await run(t, 'process.exit(7);').exited, /code 7/);
  });

  it('process.abort', async (t) => {
    assert.match(await run(t, 'process.abort();').exited, /SIGABRT/);
  });

  it('a heap bomb', async (t) => {
    const bomb = 'const kept = []; for (;;) kept.push(new Array(1000).fill(Math.random()));';
    assert.match(await run(t, bomb, { memoryBytesMax: 128 * 2 ** 20 }).exited, /^memory: /);
  });

  it('a bomb of buffers outside the heap', { skip: process.platform !== 'linux' }, async (t) => {
    const bomb = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(8_000_000, 1)), 1);';
    assert.match(await run(t, bomb, { memoryBytesMax: 128 * 2 ** 20 }).exited, /^memory: it uses \d+ MiB of 128 MiB/);
  });

  it('late errors and rejected promises', async (t) => {
    const late = "setTimeout(() => { throw new Error('too late') }, 20);";
    assert.equal(await run(t, late).exited, 'error: too late');
    assert.equal(await run(t, "void Promise.reject(new Error('not handled'));").exited, 'error: not handled');
    assert.match(await run(t, "process.removeAllListeners(); throw new Error('unhandled');").exited, /unhandled/);
  });

  it('a flood of output', async (t) => {
    const flood = "for (;;) console.log('x'.repeat(10_000));";
    assert.match(await run(t, flood, { lifetimeMsMax: 1_000 }).exited, /^(lifetime|memory): /);
  });

  it('malformed frames and messages that are too large', async (t) => {
    const garbage = "process.getBuiltinModule('node:fs').writeSync(3, Buffer.alloc(64, 0xff));";
    assert.match(await run(t, garbage).exited, /^protocol: a frame of \d+ bytes was announced/);
    assert.match(await run(t, 'channel.send(new Uint8Array(17_000_000));').exited, /^error: .*at most 16777216 bytes/);
  });
});

/** Evaluates each expression and sends the code of its error, or 'done'. */
function attempts(expressions: Readonly<Record<string, string>>): string {
  const list = Object.entries(expressions).map(([name, code]) => `[${JSON.stringify(name)}, async () => ${code}]`);
  return `
    const load = (name) => process.getBuiltinModule('node:' + name);
    const outcomes = {};
    for (const [name, attempt] of [${list.join(', ')}]) {
      try { await attempt(); outcomes[name] = 'done'; } catch (error) { outcomes[name] = error.code ?? error.message; }
    }
    send(outcomes);`;
}

describe('a runner is denied', { timeout: 60_000 }, () => {
  it('files, also those of the package and through other modules', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-runners-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    chmodSync(folder, 0o777);
    const escaped = JSON.stringify(join(folder, 'escaped'));
    const own = JSON.stringify(fileURLToPath(import.meta.url));
    const outcomes = await run(
      t,
      attempts({
        passwd: "load('fs').readFileSync('/etc/passwd')",
        own: `load('fs').readFileSync(${own})`,
        environ: "load('fs').readFileSync('/proc/self/environ')",
        write: `load('fs').writeFileSync(${escaped}, 'x')`,
        report: `process.report.writeReport(${escaped})`,
        addOn: "process.dlopen({ exports: {} }, '/tmp/x.node')",
      }),
    ).message;
    const denied = 'ERR_ACCESS_DENIED';
    assert.deepEqual(outcomes, {
      passwd: denied,
      own: denied,
      environ: denied,
      write: denied,
      report: denied,
      addOn: 'ERR_DLOPEN_DISABLED',
    });
    const sqlite = attempts({ sqlite: `new (load('sqlite').DatabaseSync)(${escaped})` });
    assert.notDeepEqual(await run(t, sqlite).message, { sqlite: 'done' });
    assert.deepEqual(readdirSync(folder), []);
  });

  it('shells, threads, signals and the inspector', async (t) => {
    const outcomes = await run(
      t,
      attempts({
        shell: "load('child_process').execSync('id')",
        execve: "process.execve('/bin/sh', ['sh'])",
        thread: "new (load('worker_threads').Worker)('1', { eval: true })",
        kill: 'process.kill(process.ppid, 0)',
        binding: "process.binding('fs')",
        inspector: "load('inspector').open(0)",
      }),
    ).message;
    const denied = 'ERR_ACCESS_DENIED';
    assert.deepEqual(outcomes, {
      shell: denied,
      execve: denied,
      thread: denied,
      kill: 'FORBIDDEN',
      binding: denied,
      inspector: denied,
    });
  });

  it('the environment and arguments of its parent, and the rights of root', async (t) => {
    process.env['REMUSTER_AUTH_SECRET'] = 'a secret in the environment';
    t.after(() => delete process.env['REMUSTER_AUTH_SECRET']);
    const program = 'send([Object.keys(process.env), process.argv, process.execArgv, process.getuid()]);';
    const [environment, args, execArgs, userId] = (await run(t, program).message) as unknown[];
    assert.deepEqual([environment, args, execArgs], [[], [], []]);
    assert.notEqual(userId, 0);
  });

  it('the network, unless it is allowed', { skip: openRunners().isolation === 'weak' }, async (t) => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.end();
    });
    t.after(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const connect = (host: string) => `new Promise((resolve, reject) => {
      load('net').connect(${port}, ${JSON.stringify(host)}).on('connect', resolve).on('error', reject);
    })`;
    const tries = attempts({
      address: connect('127.0.0.1'),
      listen: "new Promise((a, b) => load('net').createServer().listen(0).on('listening', a).on('error', b))",
      udp: "new Promise((a, b) => load('dgram').createSocket('udp4').on('listening', a).on('error', b).bind(0))",
    });
    const denied = 'ERR_ACCESS_DENIED';
    assert.deepEqual(await run(t, tries).message, { address: denied, listen: denied, udp: denied });
    assert.equal(connections, 0);
    const allowed = run(t, tries, { network: true });
    assert.deepEqual(await allowed.message, { address: 'done', listen: 'done', udp: 'done' });
    assert.equal(connections, 1);
  });
});

describe('a runner and its parent', { timeout: 60_000 }, () => {
  it('the parent refuses impossible limits', (t) => {
    assert.throws(() => run(t, '', { memoryBytesMax: 1_000 }), { code: 'BAD_ARGUMENT' });
    assert.throws(() => run(t, '', { lifetimeMsMax: Number.NaN }), { code: 'BAD_ARGUMENT' });
  });

  for (const [name, loop] of [
    ['in an endless loop', 'for (;;);'],
    ['that is idle', ''],
  ] as const) {
    it(`a runner ${name} ends when its parent is killed with SIGKILL`, async (t) => {
      const program = programOf(`send(process.pid); setTimeout(() => { ${loop} }, 50);`);
      const { parent, pid } = await parentOf(t, program, {});
      assert.ok(isAlive(pid));
      await setTimeout(200);
      parent.kill('SIGKILL');
      await untilDead(pid);
    });
  }

  it('a runner ends when its parent is stopped for too long', { skip: process.platform === 'win32' }, async (t) => {
    const program = programOf('send(process.pid); setInterval(() => undefined, 1_000);');
    const { parent, pid } = await parentOf(t, program, { parentStallMsMax: 1_000 });
    parent.kill('SIGSTOP');
    await untilDead(pid);
  });
});

/** A zombie counts as dead. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return false;
  }
}

/** A process that starts a runner with this program, and the process id that the runner sends first. */
async function parentOf(
  t: TestContext,
  program: Program,
  changed: Partial<RunnerLimits>,
): Promise<{ readonly parent: ChildProcess; readonly pid: number }> {
  const parentCode = `
    const { openRunners } = await import(${JSON.stringify(new URL('./runners.ts', import.meta.url).href)});
    const limits = ${JSON.stringify({ ...limits, lifetimeMsMax: 600_000, ...changed })};
    openRunners().start(
      { name: 'test', program: { moduleUrl: ${JSON.stringify(program.moduleUrl)} }, data: new Uint8Array(0), limits },
      { message: (body) => console.log(new TextDecoder().decode(body)), exited: console.error },
    );`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', parentCode], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => parent.kill('SIGKILL'));
  const [chunk] = (await once(parent.stdout, 'data')) as [Buffer];
  const pid = Number(chunk.toString());
  t.after(() => {
    if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  });
  return { parent, pid };
}

async function untilDead(pid: number): Promise<void> {
  const deadlineMs = performance.now() + 30_000;
  while (isAlive(pid)) {
    assert.ok(performance.now() < deadlineMs, 'the runner survived its parent');
    await setTimeout(20);
  }
}
