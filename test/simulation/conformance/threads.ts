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

/** The path of the program for io/: beside this file, as TypeScript or as built JavaScript. */
const moduleUrl = import.meta.url.replace(/threads\.([jt]s)$/, 'test-program.$1');
const testProgram: Program = { moduleUrl, main };

/** One started program, the messages it sent, and its end. */
export type StartedProgram = {
  readonly running: RunningProgram;
  readonly received: string[];
  /** Waits until the program has sent `count` messages. */
  readonly receive: (count: number) => Promise<void>;
  readonly exited: Promise<string>;
};

export function startTestProgram({ start, settle }: ProgramHarness, behaviour: string): StartedProgram {
  const received: string[] = [];
  let awaited: { count: number; resolve: () => void } | undefined;
  let hasExited = false;
  let onExit: (reason: string) => void;
  const exited = new Promise<string>((resolve) => {
    onExit = resolve;
  });
  const running = start(
    { name: behaviour, program: testProgram, data: utf8.encode(behaviour) },
    {
      message: (body) => {
        assert.ok(!hasExited, 'a message came after the end');
        received.push(utf8Text(body) ?? '');
        if (awaited !== undefined && received.length >= awaited.count) awaited.resolve();
      },
      exited: (reason) => {
        assert.ok(!hasExited, 'the end was reported twice');
        hasExited = true;
        onExit(reason);
      },
    },
  );
  const receive = async (count: number): Promise<void> => {
    if (received.length < count) await settle(new Promise<void>((resolve) => (awaited = { count, resolve })));
  };
  return { running, received, receive, exited };
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
  it('carries messages in order both ways, also those sent before the program receives', async (t) => {
    const harness = await open(t);
    const { running, received, receive } = startTestProgram(harness, 'echo');
    for (let i = 0; i < 200; i++) running.send(utf8.encode(`${i}`));
    assert.deepEqual(received, [], 'replied before start and send returned');
    await receive(200);
    assert.deepEqual(
      received,
      Array.from({ length: 200 }, (_, i) => `${i}`),
    );
    running.kill();
  });

  it('carries messages that the program sends by itself', async (t) => {
    const harness = await open(t);
    const { running, received, receive } = startTestProgram(harness, 'talk');
    running.send(utf8.encode('you'));
    await receive(101);
    assert.deepEqual(received, [...Array.from({ length: 100 }, (_, i) => `${i}`), 'received you']);
    running.kill();
  });

  it('carries empty and large messages', async (t) => {
    const harness = await open(t);
    const { running, received, receive } = startTestProgram(harness, 'echo');
    running.send(new Uint8Array(0));
    running.send(new Uint8Array(2_000_000).fill(0x61));
    running.send(utf8.encode('end'));
    await receive(3);
    assert.deepEqual(
      received.map((line) => line.length),
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
    await echo.receive(1);
    assert.deepEqual(echo.received, ['before']);
    const reuse = startTestProgram(harness, 'reuse');
    await reuse.receive(1);
    assert.deepEqual(reuse.received, ['first']);
    echo.running.kill();
    reuse.running.kill();
  });

  it('gives the program a clock', async (t) => {
    const harness = await open(t);
    const { running, received, receive } = startTestProgram(harness, 'clock');
    await receive(1);
    assert.deepEqual(received, ['true']);
    running.kill();
  });
}

function describeEnd(open: OpenHarness<ProgramHarness>): void {
  for (const [behaviour, message] of [
    ['throw', /broken at once/],
    ['throwLate', /broken later/],
  ] as const) {
    it(`reports the end of a program that fails (${behaviour}) after its last message`, async (t) => {
      const harness = await open(t);
      const { running, received, exited } = startTestProgram(harness, behaviour);
      assert.match(await harness.settle(exited), message);
      assert.deepEqual(received, ['last message']);
      running.send(utf8.encode('too late'));
      running.kill();
    });
  }

  it('reports the end of a program that throws on a message', async (t) => {
    const harness = await open(t);
    const { running, exited } = startTestProgram(harness, 'throwOnMessage');
    running.send(utf8.encode('poison'));
    assert.match(await harness.settle(exited), /broken by poison/);
  });

  it('reports the end when killed, once, after kill returns', async (t) => {
    const harness = await open(t);
    const { running, exited } = startTestProgram(harness, 'quiet');
    let isReported = false;
    const ended = exited.then((reason) => {
      isReported = true;
      return reason;
    });
    running.kill();
    running.kill();
    assert.equal(isReported, false);
    assert.match(await harness.settle(ended), /killed/);
    running.kill();
    running.send(utf8.encode('too late'));
  });

  it('runs until it is killed, also after its main has returned', async (t) => {
    const harness = await open(t);
    const quiet = startTestProgram(harness, 'quiet');
    const other = startTestProgram(harness, 'clock');
    await other.receive(1);
    const state = await harness.settle(Promise.race([quiet.exited, Promise.resolve('still running')]));
    assert.equal(state, 'still running');
    quiet.running.kill();
    other.running.kill();
    await harness.settle(Promise.all([quiet.exited, other.exited]));
  });

  it('isolates programs from each other', async (t) => {
    const harness = await open(t);
    const broken = startTestProgram(harness, 'throw');
    const healthy = startTestProgram(harness, 'echo');
    await harness.settle(broken.exited);
    healthy.running.send(utf8.encode('still here'));
    await healthy.receive(1);
    assert.deepEqual(healthy.received, ['still here']);
    healthy.running.kill();
  });
}
