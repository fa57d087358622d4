/** Observes units from outside: assignments on the wire, running processes, effects of their code. Changes nothing. */
import { type Fence, fenceParts } from '../../../../src/base/fence.ts';
import type { Program, Runners, RunningProgram } from '../../../../src/base/ports.ts';
import type { AttemptId, UnitAssignment, JobMessageOf } from '../../../../src/messages/jobs.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import type { UnitRun } from '../../checking/job-observations.ts';
import { planVariable } from './job-plans.ts';
import { simulatedHash } from '../../../../src/simulation/engine/simulated-hash.ts';
import { fakeRunner, type RunnerObserver, type ObservedRun } from '../../../fakes/fake-runner.ts';

type OpenRun = { readonly of: UnitRun; readonly boots: number };
type Assigned = { readonly attempt: number; readonly fence: bigint; readonly node: string; readonly boots: number };
type Unit = { runs: number; sent: number; readonly assigned: Assigned[] };
type UnitName = Pick<UnitRun, 'job' | 'workflow' | 'unit'>;

/**
 * A manager must have known a state for so long before a property relies on it: decisions take time to become
 * messages.
 */
const knownForMs = 5_000;

export class JobObserver {
  readonly #world: () => SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #coresEach: number;
  readonly #units = new Map<string, Unit>();
  readonly #open = new Set<OpenRun>();
  /** By manager and worker: since when, and why, the worker must get nothing from that manager. */
  readonly #forbidden = new Map<string, { readonly sinceMs: number; readonly reason: string }>();
  #runs = 0;

  constructor(world: () => SimulatedWorld<SimulatedNode>, coresEach: number, observe: WorkloadContext['observe']) {
    this.#world = world;
    this.#coresEach = coresEach;
    this.#observe = observe;
  }

  /** The process of a node ended, and with it every unit that it ran. */
  nodeStopped(node: string): void {
    for (const open of this.#open) if (open.of.node === node) this.#open.delete(open);
  }

  /** The runners port of that node, with a fake runner that reports what it does. */
  runners(node: string, inner: Runners): Runners {
    return {
      start: (spec, events) => {
        const mine = new Set<OpenRun>();
        const endAll = (): void => {
          for (const open of mine) this.#open.delete(open);
          mine.clear();
        };
        const program: Program = {
          moduleUrl: spec.program.moduleUrl,
          main: (channel) => fakeRunner(channel, { started: (...run) => this.#onStarted(node, mine, ...run) }),
        };
        const exited = (reason: string): void => {
          endAll();
          events.exited(reason);
        };
        const running = inner.start({ ...spec, program }, { message: (body) => events.message(body), exited });
        return withKillHook(running, endAll);
      },
    };
  }

  /** A worker received assignments from a manager. */
  assigned(node: string, { units }: JobMessageOf<'assignUnits'>): void {
    for (const one of units) {
      const { job, workflow, unit, attempt, fence } = one;
      const known = this.#unit(one);
      const isFirst = !known.assigned.some((other) => other.attempt === attempt && other.fence === fence);
      if (isFirst) known.assigned.push({ attempt, fence, node, boots: this.#world().bootCount(node) });
      this.#observe({ kind: 'unitAssigned', node, job, workflow, unit, attempt, fence });
    }
  }

  /** A manager sends assignments to the worker at that host. */
  sentAssignment(manager: string, host: string, { units, term }: JobMessageOf<'assignUnits'>): void {
    const world = this.#world();
    const node = world.names.find((name) => world.host(name).address === host) ?? host;
    for (const one of units) {
      const { job, workflow, unit, attempt, fence } = one;
      const known = this.#unit(one);
      if (attempt <= known.sent) continue;
      known.sent = attempt;
      // A leader resends the decisions of its predecessor, also if the state of the worker has changed since.
      if (fenceParts(fence as Fence).term !== term) continue;
      const forbidden = this.#forbiddenReason(manager, node);
      this.#observe({ kind: 'unitSent', node, job, workflow, unit, forbidden });
    }
  }

  accepted(units: readonly UnitAssignment[], { units: replies }: JobMessageOf<'assignUnitsReply'>): void {
    for (const [at, reply] of replies.entries()) {
      const unit = units[at];
      if (unit !== undefined && reply.code !== undefined) this.returned(unit);
    }
  }

  returned({ job, workflow, unit }: Pick<AttemptId, 'job' | 'workflow' | 'unit'>): void {
    this.#observe({ kind: 'unitReturned', job, workflow, unit });
  }

  /** Reads the worker states of these managers; called periodically. */
  readWorkerStates(managers: readonly string[]): void {
    const world = this.#world();
    const { nowMs } = world.timeline;
    for (const manager of managers) {
      if (!world.isUp(manager)) continue;
      for (const { name, state, registration } of world.program(manager)?.core?.members() ?? []) {
        const isAlive = state === 'alive' || state === 'probe-failed';
        const reason = isAlive
          ? registration === 'draining' || registration === 'drained'
            ? registration
            : undefined
          : state;
        const key = `${manager}>${name}`;
        if (reason === undefined) this.#forbidden.delete(key);
        else if (this.#forbidden.get(key)?.reason !== reason) this.#forbidden.set(key, { sinceMs: nowMs, reason });
      }
    }
  }

  /** The units of that job that run now. */
  runningNow(job: string): readonly UnitRun[] {
    return [...this.#open].flatMap(({ of }) => (of.job === job ? [of] : []));
  }

  #onStarted(
    node: string,
    mine: Set<OpenRun>,
    ...[spec, bytes, attemptId]: Parameters<RunnerObserver['started']>
  ): ObservedRun {
    const { job, workflow, unit } = spec;
    const world = this.#world();
    const known = this.#unit(spec);
    const runsBefore = known.runs++;
    const boots = world.bootCount(node);
    const { attempt = 0, fence = -1n } = attemptId;
    const isAssigned = known.assigned.some(
      (one) => one.attempt === attempt && one.fence === fence && one.node === node && one.boots === boots,
    );
    const run = ++this.#runs;
    const of: UnitRun = { run, node, job, workflow, unit, attempt: isAssigned ? attempt : 0, fence };
    const alsoRunBy = this.#othersOf(of);
    const open = { of, boots };
    this.#open.add(open);
    mine.add(open);
    const together = [...this.#open].filter((one) => one.of.node === node).length;
    const specHash = simulatedHash(bytes);
    world.log.add(node, `runs ${job}/${workflow}/${unit} attempt ${of.attempt} as run ${run}`);
    const plan = spec.env.get(planVariable) ?? '';
    this.#observe({ kind: 'unitStarted', ...of, plan, specHash, alsoRunBy, together, cores: this.#coresEach });
    return {
      ...{ run, runsBefore },
      acted: () => this.#observe({ kind: 'unitActed', ...of, msSinceResume: this.#msSinceResume(node) }),
      ended: (outcome, totals) => {
        this.#open.delete(open);
        this.#observe({ kind: 'unitEnded', ...of, outcome, totals });
      },
      inconsistent: (message) => this.#observe({ kind: 'unitInconsistent', ...of, message }),
    };
  }

  /** A paused process runs nothing. */
  #othersOf(of: UnitRun): readonly string[] {
    const world = this.#world();
    return [...this.#open].flatMap(({ of: other }) => {
      const isSame = other.job === of.job && other.workflow === of.workflow && other.unit === of.unit;
      return isSame && world.host(other.node).process?.isPaused === false ? [`run ${other.run} on ${other.node}`] : [];
    });
  }

  #forbiddenReason(manager: string, worker: string): string | undefined {
    this.readWorkerStates([manager]);
    const known = this.#forbidden.get(`${manager}>${worker}`);
    if (known === undefined || this.#world().timeline.nowMs - known.sinceMs < knownForMs) return undefined;
    return known.reason;
  }

  /** A process that has just resumed may act before it receives the command to stop. */
  #msSinceResume(node: string): number {
    const world = this.#world();
    return world.timeline.nowMs - (world.host(node).process?.pausedUntilMs ?? 0);
  }

  #unit({ job, workflow, unit }: UnitName): Unit {
    const key = `${job}/${workflow}/${unit}`;
    const known = this.#units.get(key) ?? { runs: 0, sent: 0, assigned: [] };
    this.#units.set(key, known);
    return known;
  }
}

function withKillHook(running: RunningProgram, onKill: () => void): RunningProgram {
  return {
    send: (body) => running.send(body),
    kill: () => {
      onKill();
      running.kill();
    },
  };
}
