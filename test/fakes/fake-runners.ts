/**
 * A fake Runners port on virtual time. A fake runner speaks the runner protocol; the code of a bundle is one word, its
 * behaviour.
 */
import type { ProgramEvents, Runners, RunningProgram } from '../../src/base/ports.ts';
import type { Timeline } from '../../src/simulation/engine/timeline.ts';
import { runnerEventCodec, runnerCommandCodec } from '../../src/jobs/runner-protocol.ts';
import { type UnitSpec, decodeUnitSpec } from '../../src/jobs/unit-spec.ts';

/** What a fake runner does with a unit. */
export type FakeRunnerBehaviour =
  /** Completes after 5 ms. */
  | 'quick'
  /** Completes after 5 ms and reports that its code still runs. */
  | 'taintsRunner'
  /** Ends only when it is asked to stop. */
  | 'runsUntilStopped'
  /** Never ends, also when it is asked to stop. */
  | 'ignoresStop'
  /** Its child exits after 5 ms. */
  | 'dies'
  | 'fails'
  /** Sends an invalid message. */
  | 'sendsGarbage'
  /** Reports the start of a run that does not exist. */
  | 'namesUnknownRun'
  /** Reports progress every 10 ms and completes after a second. */
  | 'reportsProgress';

const encoder = new TextEncoder();

/** Fake runner processes; with `failing` they exit before they are ready. */
export class FakeRunners implements Runners {
  readonly #timeline: Timeline;
  readonly #codes: ReadonlyMap<string, string>;
  alive = 0;
  started = 0;
  failing = false;
  /** How many further runs a busy runner queues. */
  prefetch: number | undefined;
  /** How often the code of each job started. */
  readonly startsByJob = new Map<string, number>();
  /** The same by job and attempt number. */
  readonly startsByAttempt = new Map<string, number>();
  /** Runs that were queued in a busy runner before they started. */
  prefetchedStarts = 0;
  /** Units that run now. */
  busy = 0;
  busyMax = 0;
  codeSent = 0;

  constructor(timeline: Timeline, codes: ReadonlyMap<string, string>) {
    this.#timeline = timeline;
    this.#codes = codes;
  }

  start(_spec: unknown, events: ProgramEvents): RunningProgram {
    this.alive += 1;
    this.started += 1;
    const child = { hasExited: false, isBusy: false };
    const after = (delayMs: number, run: () => void): void => {
      this.#timeline.after(delayMs, () => {
        if (!child.hasExited) run();
      });
    };
    const idle = (): void => {
      if (child.isBusy) this.busy -= 1;
      child.isBusy = false;
    };
    const exit = (reason: string): void => {
      if (child.hasExited) return;
      after(1, () => {
        child.hasExited = true;
        idle();
        this.alive -= 1;
        events.exited(reason);
      });
    };
    const send = (event: Parameters<typeof runnerEventCodec.encode>[0]): void => {
      if (event.kind === 'ended' && event.runId === run) idle();
      const body = runnerEventCodec.encode(event);
      after(0.1, () => events.message(body));
    };
    if (this.failing) exit('cannot start');
    else after(20, () => events.message(runnerEventCodec.encode({ kind: 'ready', prefetch: this.prefetch })));
    let behaviour = '';
    let run = 0;
    const end = (outcome: 'completed' | 'failed' | 'cancelled', code?: string): void => {
      const output = outcome === 'completed' ? encoder.encode('"done"') : undefined;
      const done = { completed: outcome === 'completed' ? 1 : 0, failed: 0, summary: undefined, output };
      const tainted = behaviour === 'taintsRunner' ? true : undefined;
      const message = code === undefined ? undefined : 'why';
      send({
        kind: 'ended',
        runId: run,
        outcome,
        ...done,
        code,
        message,
        found: undefined,
        tainted,
        failures: undefined,
      });
      const next = queue.shift();
      if (next !== undefined) start(next, true);
    };
    const progress = (count: number): void => {
      if (count === 100) return end('completed');
      send({ kind: 'progress', runId: run, completed: count, failed: 0, summary: undefined });
      after(10, () => progress(count + 1));
    };
    const queue: { readonly run: number; readonly spec: UnitSpec; readonly attempt: number }[] = [];
    const start = ({ run: number, spec, attempt }: (typeof queue)[number], isPrefetched = false): void => {
      run = number;
      const { behaviour: own } = JSON.parse(spec.facts) as { behaviour?: string };
      behaviour = own ?? this.#codes.get(spec.bundle) ?? '';
      const key = `${spec.job} ${attempt}`;
      this.startsByAttempt.set(key, (this.startsByAttempt.get(key) ?? 0) + 1);
      if (isPrefetched) this.prefetchedStarts += 1;
      this.startsByJob.set(spec.job, (this.startsByJob.get(spec.job) ?? 0) + 1);
      child.isBusy = true;
      this.busy += 1;
      this.busyMax = Math.max(this.busy, this.busyMax);
      send({ kind: 'started', runId: run });
      if (behaviour === 'quick' || behaviour === 'taintsRunner') after(5, () => end('completed'));
      else if (behaviour === 'fails') after(5, () => end('failed', 'WORKFLOW_FAILED'));
      else if (behaviour === 'dies') after(5, () => exit('signal: killed by the test'));
      else if (behaviour === 'sendsGarbage') after(5, () => events.message(new Uint8Array([9, 9, 9, 9])));
      else if (behaviour === 'namesUnknownRun') after(5, () => send({ kind: 'started', runId: run + 7 }));
      else if (behaviour === 'reportsProgress') after(10, () => progress(1));
    };
    return {
      send: (body) => {
        const command = runnerCommandCodec.decode(body);
        const delayMs = behaviour === '' ? 25 : 0.1;
        if (command.kind === 'run') {
          if (command.code !== undefined) this.codeSent += 1;
          const next = { run: command.runId, spec: decodeUnitSpec(command.spec), attempt: command.attempt ?? 0 };
          if (child.isBusy && this.prefetch === undefined) throw new Error('the runner got two runs at a time');
          after(delayMs, () => (child.isBusy ? queue.push(next) : start(next)));
        } else {
          after(delayMs, () => {
            const at = queue.findIndex((next) => next.run === command.runId);
            const nothing = {
              summary: undefined,
              output: undefined,
              code: undefined,
              message: undefined,
              found: undefined,
              tainted: undefined,
              failures: undefined,
            };
            const ended = {
              kind: 'ended',
              runId: command.runId,
              outcome: 'cancelled',
              completed: 0,
              failed: 0,
              ...nothing,
            } as const;
            if (at >= 0 && behaviour !== 'ignoresStop') {
              queue.splice(at, 1);
              send(ended);
            } else if (command.runId === run && behaviour === 'runsUntilStopped' && child.isBusy) end('cancelled');
          });
        }
      },
      kill: () => exit('killed'),
    };
  }
}
