/**
 * Hostile code, each kind in a real runner of a real worker: it is contained, its end is reported with a code, its core
 * is free again, and the process of the worker (this one) is unharmed.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, chmodSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { wireFormat } from '../../src/base/format-versions.ts';
import { decodeFailures } from '../../src/jobs/report/item-failures.ts';
import type { UnitReport } from '../../src/messages/jobs.ts';
import { HostileWorker } from '../support/processes/hostile-worker.ts';

const text = new TextDecoder();
/** The port of a member, to which no runner may connect. */
const memberPort = createServer((socket) => socket.destroy());
/** Any other server. */
const target = createServer((socket) => socket.end());
let memberConnections = 0;
memberPort.on('connection', () => {
  memberConnections += 1;
});

let hostile: HostileWorker;

before(async () => {
  await once(memberPort.listen(0, '127.0.0.1'), 'listening');
  await once(target.listen(0, '127.0.0.1'), 'listening');
  hostile = new HostileWorker(3, [{ host: '127.0.0.1', port: portOf(memberPort) }]);
});

after(async () => {
  assert.equal((await hostile.run("return 'still here';")).status, 'completed');
  assert.deepEqual(hostile.worker.coreCounts(), { total: 3, free: 3 });
  await hostile.stop();
  assert.equal(hostile.worker.aliveRunners(), 0);
  assert.deepEqual(hostile.errors, []);
  assert.equal(memberConnections, 0);
  memberPort.close();
  target.close();
});

function portOf(server: typeof memberPort): number {
  return (server.address() as AddressInfo).port;
}

function outputOf(report: UnitReport): unknown {
  assert.equal(report.status, 'completed', report.message ?? '');
  return (JSON.parse(text.decode(report.output)) as unknown[])[0];
}

/** Code that evaluates each expression and returns the code of its error, or 'done'. */
function attempts(expressions: Readonly<Record<string, string>>): string {
  const list = Object.entries(expressions).map(([name, code]) => `[${JSON.stringify(name)}, async () => ${code}]`);
  return `
    const outcomes = {};
    for (const [name, attempt] of [${list.join(', ')}]) {
      try { await attempt(); outcomes[name] = 'done'; } catch (error) { outcomes[name] = error.code ?? error.message; }
    }
    return outcomes;`;
}

function assertKilled(report: UnitReport, message: RegExp): void {
  assert.equal(report.status, 'failed');
  assert.equal(report.code, 'RUNNER_KILLED', report.message ?? '');
  assert.match(report.message ?? '', message);
}

const connect = (port: string | number, host: string): string => `new Promise((resolve, reject) => {
  load('net').connect(${port}, '${host}').on('connect', resolve).on('error', reject);
})`;

describe('a worker contains', { timeout: 200_000, concurrency: 3 }, () => {
  for (const [name, loop] of [
    ['an endless loop', 'for (;;);'],
    ['a flood of microtasks', 'const again = () => Promise.resolve().then(again); await again();'],
    ['code that closes its channel to the node', "for (const fd of [3, 4]) load('fs').closeSync(fd); for (;;);"],
  ] as const) {
    it(name, async () => {
      const { status, code } = await hostile.run(loop, { timeoutMs: 1_000 });
      assert.equal(status, 'failed');
      assert.ok(code === 'WORKFLOW_TIMEOUT' || code === 'RUNNER_KILLED', `${code}`);
    });
  }

  it('a heap bomb', async () => {
    const bomb = 'const kept = []; for (;;) kept.push(new Array(1000).fill(Math.random()));';
    assertKilled(await hostile.run(bomb, { memoryMb: 128 }), /^memory: /);
  });

  it('a bomb of buffers outside the heap', { skip: process.platform !== 'linux' }, async () => {
    const bomb = 'const kept = []; for (;;) { kept.push(Buffer.alloc(4_000_000, 1)); await ctx.sleep(2); }';
    assertKilled(await hostile.run(bomb, { memoryMb: 160 }), /^memory: /);
  });

  it('process.exit', async () => {
    assertKilled(await hostile.run('process.exit(7);'), /code 7/);
  });

  it('process.abort', async () => {
    assertKilled(await hostile.run('process.abort();'), /SIGABRT/);
  });

  it('signals, to its parent and to itself', async () => {
    const outcomes = outputOf(
      await hostile.run(
        attempts({ parent: "process.kill(process.ppid, 'SIGKILL')", all: "process.kill(-1, 'SIGKILL')" }),
      ),
    );
    assert.deepEqual(outcomes, { parent: 'FORBIDDEN', all: 'FORBIDDEN' });
  });

  it('errors after its end', async () => {
    const late = `
      setTimeout(() => { throw new Error('too late'); }, 1);
      void Promise.reject(new Error('unhandled'));
      setImmediate(() => process.emit('uncaughtException', new Error('made up')));
      return 'over';`;
    assert.equal(outputOf(await hostile.run(late)), 'over');
    assert.equal(outputOf(await hostile.run(late)), 'over');
  });

  it('tampered prototypes', async () => {
    const tampering = `
      for (const type of [Object, Array, Map, Set, Promise, Uint8Array, String, Function]) {
        for (const name of Object.getOwnPropertyNames(type.prototype)) {
          if (name === 'constructor') continue;
          try { type.prototype[name] = () => { throw new Error('tampered'); }; } catch {}
        }
      }
      return 'tampered';`;
    const { status, code } = await hostile.run(tampering, { timeoutMs: 2_000 });
    assert.ok(status === 'completed' || code !== undefined);
  });

  it('a flood of log lines', async () => {
    const flood = `
      for (let i = 0; i < 20_000; i++) { ctx.log('x'.repeat(1_000)); console.log('y'.repeat(1_000)); }
      return 'flooded';`;
    const { status, code } = await hostile.run(flood, { timeoutMs: 5_000 });
    assert.ok(status === 'completed' || code === 'RUNNER_KILLED' || code === 'WORKFLOW_TIMEOUT', `${code}`);
  });

  it('too many timers', async () => {
    const flood = 'for (;;) { for (let i = 0; i < 10_000; i++) setTimeout(() => undefined, 1e6); await ctx.sleep(0); }';
    const { status, code } = await hostile.run(flood, { memoryMb: 128, timeoutMs: 20_000 });
    assert.equal(status, 'failed');
    assert.ok(code === 'RUNNER_KILLED' || code === 'WORKFLOW_TIMEOUT', `${code}`);
  });

  it('too many open sockets', async () => {
    const flood = `
      const open = [];
      for (let i = 0; i < 40_000; i++) {
        const socket = load('dgram').createSocket('udp4');
        open.push(socket);
        const code = await new Promise((resolve) => {
          socket.on('error', (error) => resolve(error.code)).bind(0, '127.0.0.1', () => resolve(undefined));
        });
        if (code !== undefined) return code;
      }`;
    const { status, code } = await hostile.run(flood, { network: true, memoryMb: 256, timeoutMs: 20_000 });
    assert.ok(status === 'completed' || code === 'RUNNER_KILLED' || code === 'WORKFLOW_TIMEOUT', `${code}`);
  });

  it('results that are too large, circular, or not JSON', async () => {
    const large = await hostile.run("return 'x'.repeat(50_000_000);");
    assert.deepEqual([large.status, large.code], ['failed', 'TOO_LARGE']);
    assert.match(large.message ?? '', /bytes|large/i);
    for (const [result, message] of [
      ['(() => { const a = []; a.push(a); return a; })()', /circular/i],
      ['10n', /bigint/i],
    ] as const) {
      const { completed, failed, failures } = await hostile.run(`return ${result};`);
      assert.deepEqual([completed, failed], [0, 1], 'the item fails, not its unit');
      assert.match(decodeFailures(failures ?? new Uint8Array())?.items[0]?.error.message ?? '', message);
    }
  });

  it('output that forges the runner protocol', async () => {
    const frame = (kind: number, body: readonly number[]): string =>
      `Buffer.from([0, 0, 0, ${body.length}, ${[kind, ...body].join(', ')}])`;
    // An invalid message; a message about a run that does not exist (tag 11, run 99); a frame kind that only a node
    // sends.
    for (const forged of [frame(2, [9, 9, 9, 9]), frame(2, [wireFormat, 0, 11, 4, 99]), frame(1, [0, 0, 0, 0])]) {
      const report = await hostile.run(`load('fs').writeSync(3, ${forged}); await new Promise(() => undefined);`);
      assertKilled(report, /^protocol: /);
    }
    const printed = `process.stdout.write(${frame(2, [wireFormat, 0, 13, 4, 1])}); return 'printed';`;
    assert.equal(outputOf(await hostile.run(printed)), 'printed');
  });
});

describe('a worker denies', { timeout: 200_000, concurrency: 3 }, () => {
  it('the environment, the files of the system and writing', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-hostile-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    chmodSync(folder, 0o777);
    const escaped = JSON.stringify(join(folder, 'escaped'));
    const denied = 'ERR_ACCESS_DENIED';
    const outcomes = outputOf(
      await hostile.run(
        attempts({
          environ: "load('fs').readFileSync('/proc/self/environ')",
          parent: "load('fs').readFileSync('/proc/' + process.ppid + '/environ')",
          passwd: "load('fs').readFileSync('/etc/passwd')",
          write: `load('fs').writeFileSync(${escaped}, 'x')`,
        }),
      ),
    );
    assert.deepEqual(outcomes, { environ: denied, parent: denied, passwd: denied, write: denied });
    assert.deepEqual(outputOf(await hostile.run('return Object.keys(process.env);')), []);
    assert.deepEqual(readdirSync(folder), []);
  });

  it('shells, threads and the inspector', async () => {
    const denied = 'ERR_ACCESS_DENIED';
    const outcomes = outputOf(
      await hostile.run(
        attempts({
          shell: "load('child_process').execSync('id')",
          spawn: "load('child_process').spawnSync('sh', ['-c', 'id'])",
          thread: "new (load('worker_threads').Worker)('1', { eval: true })",
          inspector: "load('inspector').open(0)",
          binding: "process.binding('tcp_wrap')",
        }),
      ),
    );
    assert.deepEqual(outcomes, { shell: denied, spawn: denied, thread: denied, inspector: denied, binding: denied });
  });

  it('a network that the workflow did not request', async (t) => {
    if (hostile.isolation === 'weak') return t.skip('this Node cannot deny the network');
    const checks = attempts({
      target: connect(portOf(target), '127.0.0.1'),
      http: "ctx.http.get('http://127.0.0.1:1/')",
    });
    assert.deepEqual(outputOf(await hostile.run(checks)), { target: 'ERR_ACCESS_DENIED', http: 'FORBIDDEN' });
    return undefined;
  });

  it('the ports of members, in every spelling, and link-local addresses', async () => {
    const port = portOf(memberPort);
    // Builtins that the guard may use are broken during its check, and repaired for the rest of the test.
    const [tampering, repair] = [
      `const [iterate, get, exec] = [Array.prototype[Symbol.iterator], Map.prototype.get, RegExp.prototype.exec];
       Array.prototype[Symbol.iterator] = Map.prototype.get = RegExp.prototype.exec = () => { throw 'tampered'; };`,
      `Array.prototype[Symbol.iterator] = iterate; Map.prototype.get = get; RegExp.prototype.exec = exec;`,
    ];
    const checks = attempts({
      target: connect(portOf(target), '127.0.0.1'),
      member: connect(port, '127.0.0.1'),
      name: connect(port, 'localhost'),
      any: connect(port, '0.0.0.0'),
      mapped: connect(port, '::ffff:127.0.0.1'),
      hexadecimal: connect(port, '::ffff:7f00:1'),
      fetch: `fetch('http://127.0.0.1:${port}/').catch((error) => { throw error.cause; })`,
      datagram: `new Promise((resolve, reject) => {
        load('dgram').createSocket('udp4').send('x', ${port}, '127.0.0.1', (error) => error ? reject(error) : resolve());
      })`,
      link: connect(80, '169.254.169.254'),
      file: `new Promise((a, b) => load('net').connect('/run/some.sock').on('connect', a).on('error', b))`,
      names: `load('dns').setServers(['127.0.0.1:${port}'])`,
      native: `(() => {
        const socket = new (load('net').Socket)();
        socket.on('error', () => undefined).connect(${portOf(target)}, '127.0.0.1');
        const handle = Object.getPrototypeOf(socket._handle);
        try { handle.connect = () => 0; } catch {}
        try { delete handle.connect; } catch {}
        ${tampering}
        let reads = 0;
        const shifty = { toString: () => reads++ === 0 ? '127.0.0.2' : '127.0.0.1' };
        const code = new handle.constructor(0).connect({}, shifty, ${port});
        ${repair}
        throw { code: code === -13 ? 'EACCES' : code };
      })()`,
    });
    const denied = 'EACCES';
    assert.deepEqual(outputOf(await hostile.run(checks, { network: true })), {
      ...{ target: 'done', member: denied, name: denied, any: denied, mapped: denied, hexadecimal: denied },
      ...{ fetch: denied, datagram: denied, link: denied, file: denied, names: 'ERR_DNS_SET_SERVERS_FAILED' },
      native: denied,
    });
  });
});
