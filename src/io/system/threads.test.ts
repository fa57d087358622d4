import assert from 'node:assert/strict';
import { type TestContext, it } from 'node:test';
import type { Program, ProgramEvents, RunningProgram } from '../../base/ports.ts';
import { realWorld } from '../../../test/simulation/conformance/harness.ts';
import { describeThreads } from '../../../test/simulation/conformance/threads.ts';
import { openThreads } from './threads.ts';

/** Threads that are killed after the test. */
function testThreads(t: TestContext) {
  const threads = openThreads();
  const running: RunningProgram[] = [];
  t.after(() => {
    for (const program of running) program.kill();
  });
  return {
    start: (spec: Parameters<typeof threads.start>[0], events: ProgramEvents): RunningProgram => {
      const program = threads.start(spec, events);
      running.push(program);
      return program;
    },
  };
}

describeThreads('worker threads', (t) => ({ ...realWorld, threads: testThreads(t) }));

/** A program from source text. */
function programOf(code: string): Program {
  const moduleUrl = `data:text/javascript,${encodeURIComponent(code)}`;
  return { moduleUrl, main: () => assert.fail('runs in its own thread') };
}

function exitOf(t: TestContext, program: Program): { exited: Promise<string>; running: RunningProgram } {
  let running: RunningProgram | undefined;
  const exited = new Promise<string>((resolve) => {
    running = testThreads(t).start(
      { name: 'test', program, data: new Uint8Array(0) },
      { message: () => undefined, exited: resolve },
    );
  });
  assert.ok(running !== undefined);
  return { exited, running };
}

it('the exit reason names a module that cannot be imported or has no main', { timeout: 30_000 }, async (t) => {
  const missing = new URL('./no-such-file.ts', import.meta.url).href;
  assert.match(await exitOf(t, { moduleUrl: missing, main: () => undefined }).exited, /Cannot find module/);
  assert.match(await exitOf(t, programOf('export const other = 1;')).exited, /no export `main`/);
});

it('kill ends a thread that never returns to its event loop', { timeout: 30_000 }, async (t) => {
  const { exited, running } = exitOf(t, programOf('export function main() { for (;;); }'));
  setTimeout(() => running.kill(), 200);
  assert.equal(await exited, 'killed');
});

it('the exit reason names a rejected promise and the code of process.exit', { timeout: 30_000 }, async (t) => {
  const rejecting = programOf("export function main() { void Promise.reject(new Error('not handled')); }");
  assert.match(await exitOf(t, rejecting).exited, /not handled/);
  assert.match(await exitOf(t, programOf('export function main() { process.exit(3); }')).exited, /code 3/);
});
