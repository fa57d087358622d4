/** Observes units from outside: assignments on the wire, running processes, what their code does. Asks no manager. */
import { type Fence, fenceParts } from '../../../../src/base/fence.ts';
import type { Program, Runners, RunningProgram } from '../../../../src/base/ports.ts';
import type { AttemptId, UnitAssignment, JobMessageOf } from '../../../../src/messages/jobs.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import type { UnitRun } from '../../checking/job-observations.ts';
import { planVariable } from './job-plans.ts';
import { simulatedHash } from '../../../../src/simulation/engine/simulated-hash.ts';
import { fakeRunner, type RunnerObserver, type ObservedRun } from './fake-runner.ts';

type OpenRun = { readonly of: UnitRun; readonly boots: number };
type Given = { readonly attempt: number; readonly fence: bigint; readonly node: string; readonly boots: number };
type Unit = { runs: number; sent: number; readonly given: Given[] };
type UnitName = Pick<UnitRun, 'job' | 'workflow' | 'unit'>;

/** What a manager must know for so long before it may be blamed: decisions need time to become messages. */
const knownForMs = 5_000;

export class JobObserver {
  readonly #world: () => SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #coresEach: number;
  readonly #units = new Map<string, Unit>();
  readonly #open = new Set<OpenRun>();
  /** By manager and worker: since when the manager takes it for one that gets nothing, and why. */
  readonly #forbidden = new Map<string, { readonly sinceMs: number; readonly why: string }>();
  #runs = 0;

  constructor(world: () => SimulatedWorld<SimulatedNode>, coresEach: number, observe: WorkloadContext['observe']) {
    this.#world = world;
    this.#coresEach = coresEach;
    this.#observe = observe;
  }

  /** The process of a node is over, and with it all that it had started. */
  nodeStopped(node: string): void {
    for (const open of this.#open) if (open.of.node === node) this.#open.delete(open);
  }

  /** Runners of that node, each with a program that tells what it does. */
  runners(node: string, inner: Runners): Runners {
    return {
      start: (spec, events) => {
        const mine = new Set<OpenRun>();
        const over = (): void => {
          for (const open of mine) this.#open.delete(open);
          mine.clear();
        };
        const program: Program = {
          moduleUrl: spec.program.moduleUrl,
          main: (channel) => fakeRunner(channel, { started: (...told) => this.#began(node, mine, ...told) }),
        };
        const exited = (reason: string): void => {
          over();
          events.exited(reason);
        };
        const running = inner.start({ ...spec, program }, { message: (body) => events.message(body), exited });
        return endsWith(running, over);
      },
    };
  }

  /** A worker has got that from a manager. */
  assigned(node: string, { units }: JobMessageOf<'assignUnits'>): void {
    for (const one of units) {
      const { job, workflow, unit, attempt, fence } = one;
      const known = this.#unit(one);
      const isFirst = !known.given.some((other) => other.attempt === attempt && other.fence === fence);
      if (isFirst) known.given.push({ attempt, fence, node, boots: this.#world().bootCount(node) });
      this.#observe({ kind: 'unitGiven', node, job, workflow, unit, attempt, fence });
    }
  }

  /** A manager sends that to whoever is at that host. */
  sentAssignment(manager: string, host: string, { units, term }: JobMessageOf<'assignUnits'>): void {
    const world = this.#world();
    const node = world.names.find((name) => world.host(name).address === host) ?? host;
    for (const one of units) {
      const { job, workflow, unit, attempt, fence } = one;
      const known = this.#unit(one);
      if (attempt <= known.sent) continue;
      known.sent = attempt;
      // What an earlier leader has decided is sent by the next one, whatever has happened since.
      if (fenceParts(fence as Fence).term !== term) continue;
      const forbidden = this.#whyForbidden(manager, node);
      this.#observe({ kind: 'unitSent', node, job, workflow, unit, forbidden });
    }
  }

  accepted(units: readonly UnitAssignment[], { units: answers }: JobMessageOf<'assignUnitsReply'>): void {
    for (const [at, answer] of answers.entries()) {
      const given = units[at];
      if (given !== undefined && answer.code !== undefined) this.returned(given);
    }
  }

  returned({ job, workflow, unit }: Pick<AttemptId, 'job' | 'workflow' | 'unit'>): void {
    this.#observe({ kind: 'unitReturned', job, workflow, unit });
  }

  /** Looks at what these managers know of workers; called again and again. */
  readWorkerStates(managers: readonly string[]): void {
    const world = this.#world();
    const { nowMs } = world.timeline;
    for (const manager of managers) {
      if (!world.isUp(manager)) continue;
      for (const { name, state, registration } of world.program(manager)?.core?.members() ?? []) {
        const isWell = state === 'alive' || state === 'probe-failed';
        const why = isWell
          ? registration === 'draining' || registration === 'drained'
            ? registration
            : undefined
          : state;
        const key = `${manager}>${name}`;
        if (why === undefined) this.#forbidden.delete(key);
        else if (this.#forbidden.get(key)?.why !== why) this.#forbidden.set(key, { sinceMs: nowMs, why });
      }
    }
  }

  /** Processes that run something of that job now. */
  runningNow(job: string): readonly UnitRun[] {
    return [...this.#open].flatMap(({ of }) => (of.job === job ? [of] : []));
  }

  #began(
    node: string,
    mine: Set<OpenRun>,
    ...[order, bytes, under]: Parameters<RunnerObserver['started']>
  ): ObservedRun {
    const { job, workflow, unit } = order;
    const world = this.#world();
    const known = this.#unit(order);
    const runsBefore = known.runs++;
    const boots = world.bootCount(node);
    const { attempt = 0, fence = -1n } = under;
    const isGiven = known.given.some(
      (one) => one.attempt === attempt && one.fence === fence && one.node === node && one.boots === boots,
    );
    const run = ++this.#runs;
    const of: UnitRun = { run, node, job, workflow, unit, attempt: isGiven ? attempt : 0, fence };
    const alsoRunBy = this.#othersOf(of);
    const open = { of, boots };
    this.#open.add(open);
    mine.add(open);
    const together = [...this.#open].filter((one) => one.of.node === node).length;
    const specHash = simulatedHash(bytes);
    world.log.add(node, `runs ${job}/${workflow}/${unit} attempt ${of.attempt} as run ${run}`);
    const plan = order.env.get(planVariable) ?? '';
    this.#observe({ kind: 'unitBegan', ...of, plan, specHash, alsoRunBy, together, cores: this.#coresEach });
    return {
      ...{ run, runsBefore },
      acted: () => this.#observe({ kind: 'unitActed', ...of, msSinceResume: this.#wokeMsAgo(node) }),
      ended: (how, totals) => {
        this.#open.delete(open);
        this.#observe({ kind: 'unitEnded', ...of, how, totals });
      },
      inconsistent: (why) => this.#observe({ kind: 'unitPuzzled', ...of, why }),
    };
  }

  /** Who stands still runs nothing. */
  #othersOf(of: UnitRun): readonly string[] {
    const world = this.#world();
    return [...this.#open].flatMap(({ of: other }) => {
      const isSame = other.job === of.job && other.workflow === of.workflow && other.unit === of.unit;
      return isSame && world.host(other.node).process?.isStalled === false ? [`run ${other.run} on ${other.node}`] : [];
    });
  }

  #whyForbidden(manager: string, worker: string): string | undefined {
    this.readWorkerStates([manager]);
    const known = this.#forbidden.get(`${manager}>${worker}`);
    if (known === undefined || this.#world().timeline.nowMs - known.sinceMs < knownForMs) return undefined;
    return known.why;
  }

  /** A process that went on a moment ago may do something before it can hear that it must not. */
  #wokeMsAgo(node: string): number {
    const world = this.#world();
    return world.timeline.nowMs - (world.host(node).process?.stalledUntilMs ?? 0);
  }

  #unit({ job, workflow, unit }: UnitName): Unit {
    const key = `${job}/${workflow}/${unit}`;
    const unitKnown = this.#units.get(key) ?? { runs: 0, sent: 0, given: [] };
    this.#units.set(key, unitKnown);
    return unitKnown;
  }
}

function endsWith(running: RunningProgram, over: () => void): RunningProgram {
  return {
    send: (body) => running.send(body),
    kill: () => {
      over();
      running.kill();
    },
  };
}
