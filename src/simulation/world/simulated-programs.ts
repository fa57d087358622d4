/**
 * The Threads and Runners ports without threads or processes: `main` runs on virtual time, in a simulated process that
 * can be killed. Messages are copied.
 */
import { assert } from '../../base/assert.ts';
import type {
  ProgramEndpoint,
  Clock,
  Program,
  ProgramEvents,
  Runners,
  RunningProgram,
  Threads,
} from '../../base/ports.ts';
import type { SimulatedProcess } from '../engine/simulated-process.ts';

type ProgramSpec = { readonly name: string; readonly program: Program; readonly data: Uint8Array };
type ClockFor = (process: SimulatedProcess) => Clock;

export function simulatedThreads(parent: SimulatedProcess, clockFor: ClockFor): Threads {
  return { start: (spec, events) => new SimulatedProgram(parent, clockFor, spec, events).handle };
}

export function simulatedRunners(parent: SimulatedProcess, clockFor: ClockFor): Runners {
  return {
    start(spec, events) {
      const run = new SimulatedProgram(parent, clockFor, spec, events);
      const { lifetimeMsMax } = spec.limits;
      assert(lifetimeMsMax > 0, 'a runner needs a lifetime');
      if (Number.isFinite(lifetimeMsMax))
        run.endAfter(lifetimeMsMax, `killed: its lifetime of ${lifetimeMsMax} ms has ended`);
      return run.handle;
    },
  };
}

const startMs = 1;
const hopMs = 1 / 16;

class SimulatedProgram {
  readonly #parent: SimulatedProcess;
  readonly #process: SimulatedProcess;
  readonly #spec: ProgramSpec;
  readonly #events: ProgramEvents;
  readonly #clock: Clock;
  #receive: ((body: Uint8Array) => void) | undefined;
  #early: Uint8Array[] = [];
  #exited = false;

  constructor(parent: SimulatedProcess, clockFor: ClockFor, spec: ProgramSpec, events: ProgramEvents) {
    this.#parent = parent;
    this.#spec = { ...spec, data: spec.data.slice() };
    this.#events = events;
    this.#process = parent.spawn({ threw: (error) => this.#exit(`threw ${String(error)}`) });
    this.#clock = clockFor(this.#process);
    this.#process.after(startMs, () => this.#main());
  }

  readonly handle: RunningProgram = {
    send: (body) => this.#toProgram(body.slice()),
    kill: () => this.#exit('killed'),
  };

  endAfter(lifetimeMs: number, reason: string): void {
    const cancel = this.#parent.after(lifetimeMs, () => this.#exit(reason));
    this.#process.onExit(cancel);
  }

  #main(): void {
    const channel: ProgramEndpoint = {
      data: this.#spec.data,
      clock: this.#clock,
      send: (body) => this.#toStarter(body.slice()),
      receive: (handler) => {
        this.#receive = handler;
        for (const body of this.#early.splice(0)) this.#process.after(0, () => handler(body));
      },
    };
    this.#spec.program.main(channel);
  }

  #toProgram(body: Uint8Array): void {
    this.#process.after(hopMs, () => {
      if (this.#receive === undefined) this.#early.push(body);
      else this.#receive(body);
    });
  }

  #toStarter(body: Uint8Array): void {
    if (!this.#process.alive) return;
    this.#parent.after(hopMs, () => {
      if (!this.#exited) this.#events.message(body);
    });
  }

  #exit(reason: string): void {
    if (!this.#process.alive) return;
    this.#process.exit();
    this.#parent.after(hopMs, () => {
      this.#exited = true;
      this.#events.exited(reason);
    });
  }
}
