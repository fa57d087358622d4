/** Conformance of Threads and Runners: data, order of messages, and one end, last, with a reason. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Program, ProgramEvents, RunningProgram, Threads } from '../../../src/base/ports.ts';
import { type OpenHarness, type TestWorld, suiteOptions, utf8Text, utf8 } from './harness.ts';
import { main } from './test-program.ts';

export type StartProgram = (
  spec: { readonly name: string; readonly program: Program; readonly data: Uint8Array },
  events: ProgramEvents,
) => RunningProgram;

export type ProgramHarness = TestWorld & { readonly start: StartProgram };
export type ThreadsHarness = TestWorld & { readonly threads: Threads };

/** Where io/ finds the program: beside this file, as TypeScript or as built JavaScript. */
const moduleUrl = import.meta.url.replace(/threads\.([jt]s)$/, 'test-program.$1');
const testProgram: Program = { moduleUrl, main };

/** One started program, everything it said, and its end. */
export type StartedProgram = {
  readonly running: RunningProgram;
  readonly heard: string[];
  /** The next messages, as many as asked for. */
  readonly hears: (count: number) => Promise<void>;
  readonly exited: Promise<string>;
};

export function startTestProgram({ start, settle }: ProgramHarness, behaviour: string): StartedProgram {
  const heard: string[] = [];
  let wanted: { count: number; resolve: () => void } | undefined;
  let isOver = false;
  let tellExit: (reason: string) => void;
  const exited = new Promise<string>((resolve) => {
    tellExit = resolve;
  });
  const running = start(
    { name: behaviour, program: testProgram, data: utf8.encode(behaviour) },
    {
      message: (body) => {
        assert.ok(!isOver, 'a message came after the end');
        heard.push(utf8Text(body) ?? '');
        if (wanted !== undefined && heard.length >= wanted.count) wanted.resolve();
      },
      exited: (reason) => {
        assert.ok(!isOver, 'the end was told twice');
        isOver = true;
        tellExit(reason);
      },
    },
  );
  const hears = async (count: number): Promise<void> => {
    if (heard.length < count) await settle(new Promise<void>((resolve) => (wanted = { count, resolve })));
  };
  return { running, heard, hears, exited };
}

export function describeThreads(name: string, open: OpenHarness<ThreadsHarness>): void {
  describe(`${name} is Threads`, suiteOptions, () => {
    describeProgramPort(async (t) => {
      const { threads, settle } = await open(t);
      return { settle, start: (spec, events) => threads.start(spec, events) };
    });
  });
}

export function describeProgramPort(open: OpenHarness<ProgramHarness>): void {
  describeConversation(open);
  describeEnd(open);
}

function describeConversation(open: OpenHarness<ProgramHarness>): void {
  it('carries messages in order both ways, also those sent before the program listens', async (t) => {
    const harness = await open(t);
    const { running, heard, hears } = startTestProgram(harness, 'echo');
    for (let i = 0; i < 200; i++) running.send(utf8.encode(`${i}`));
    assert.deepEqual(heard, [], 'answered before start and send returned');
    await hears(200);
    assert.deepEqual(
      heard,
      Array.from({ length: 200 }, (_, i) => `${i}`),
    );
    running.kill();
  });

  it('hears what the program says unasked', async (t) => {
    const harness = await open(t);
    const { running, heard, hears } = startTestProgram(harness, 'talk');
    running.send(utf8.encode('you'));
    await hears(101);
    assert.deepEqual(heard, [...Array.from({ length: 100 }, (_, i) => `${i}`), 'heard you']);
    running.kill();
  });

  it('carries empty and large messages', async (t) => {
    const harness = await open(t);
    const { running, heard, hears } = startTestProgram(harness, 'echo');
    running.send(new Uint8Array(0));
    running.send(new Uint8Array(2_000_000).fill(0x61));
    running.send(utf8.encode('end'));
    await hears(3);
    assert.deepEqual(
      heard.map((line) => line.length),
      [0, 2_000_000, 3],
    );
    running.kill();
  });

  it('shares no bytes between the two sides', async (t) => {
    const harness = await open(t);
    const echo = startTestProgram(harness, 'echo');
    const mine = utf8.encode('..before..');
    echo.running.send(mine.subarray(2, 8));
    mine.fill(0x78);
    await echo.hears(1);
    assert.deepEqual(echo.heard, ['before']);
    const reuse = startTestProgram(harness, 'reuse');
    await reuse.hears(1);
    assert.deepEqual(reuse.heard, ['first']);
    echo.running.kill();
    reuse.running.kill();
  });

  it('gives the program a clock', async (t) => {
    const harness = await open(t);
    const { running, heard, hears } = startTestProgram(harness, 'clock');
    await hears(1);
    assert.deepEqual(heard, ['true']);
    running.kill();
  });
}

function describeEnd(open: OpenHarness<ProgramHarness>): void {
  for (const [behaviour, message] of [
    ['throw', /broken at once/],
    ['throwLate', /broken later/],
  ] as const) {
    it(`tells the end of a program that fails (${behaviour}) after its last words`, async (t) => {
      const harness = await open(t);
      const { running, heard, exited } = startTestProgram(harness, behaviour);
      assert.match(await harness.settle(exited), message);
      assert.deepEqual(heard, ['last words']);
      running.send(utf8.encode('too late'));
      running.kill();
    });
  }

  it('tells the end of a program that a message breaks', async (t) => {
    const harness = await open(t);
    const { running, exited } = startTestProgram(harness, 'throwOnMessage');
    running.send(utf8.encode('mischief'));
    assert.match(await harness.settle(exited), /broken by mischief/);
  });

  it('tells the end when killed, once, after kill has returned', async (t) => {
    const harness = await open(t);
    const { running, exited } = startTestProgram(harness, 'quiet');
    let told = false;
    const ended = exited.then((reason) => {
      told = true;
      return reason;
    });
    running.kill();
    running.kill();
    assert.equal(told, false);
    assert.match(await harness.settle(ended), /killed/);
    running.kill();
    running.send(utf8.encode('too late'));
  });

  it('lives until it is killed, also when its main has returned', async (t) => {
    const harness = await open(t);
    const quiet = startTestProgram(harness, 'quiet');
    const other = startTestProgram(harness, 'clock');
    await other.hears(1);
    const state = await harness.settle(Promise.race([quiet.exited, Promise.resolve('still running')]));
    assert.equal(state, 'still running');
    quiet.running.kill();
    other.running.kill();
    await harness.settle(Promise.all([quiet.exited, other.exited]));
  });

  it('keeps programs apart', async (t) => {
    const harness = await open(t);
    const broken = startTestProgram(harness, 'throw');
    const healthy = startTestProgram(harness, 'echo');
    await harness.settle(broken.exited);
    healthy.running.send(utf8.encode('still here'));
    await healthy.hears(1);
    assert.deepEqual(healthy.heard, ['still here']);
    healthy.running.kill();
  });
}
