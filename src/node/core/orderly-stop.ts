/**
 * How a node stops in order: it announces the stop, hands over leadership and containers, lets units and calls end, and
 * says goodbye. Until the goodbye it serves everything that it still has. It decides nothing about other nodes: the
 * leader moves the containers.
 *
 *   announce -> leadership -> containers -> units -> calls -> parts -> membership
 */
import type { Outcome } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock, Log, Role } from '../../base/ports.ts';
import type { OwnedContainerChange } from '../../containers/contract.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { ContainerService } from '../containers/container-service.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import type { JobService } from '../jobs/job-service.ts';
import { type StopStep, runStopSequence } from './stop-sequence.ts';

export type OrderlyStopParts = {
  readonly clock: Clock;
  readonly log: Log;
  readonly self: NodeId;
  readonly members: () => readonly MemberView[];
  readonly control: ControlPlane | undefined;
  readonly containers: ContainerService | undefined;
  readonly jobs: JobService | undefined;
  /** From now on this node refuses calls of clients; those under way continue. */
  readonly refuseCalls: () => void;
  /** From now on this node refuses every request. */
  readonly refuseRequests: () => void;
  readonly leaveMembership: (done: () => void) => void;
};

const pollMs = 50;
const announceMsMax = 3_000;
/** Calls that wait for an owner, when all owners are stopping too. */
const lastCallsShare = 0.1;
const namesMax = 10;

export class OrderlyStop {
  readonly #parts: OrderlyStopParts;
  /** Undefined: in flight. The leader moves nothing away from a node whose stop it does not know. */
  #announced: Outcome<void> | undefined;

  constructor(parts: OrderlyStopParts) {
    this.#parts = parts;
  }

  /** `isBroken`: an internal error has stopped the machines, so nothing is handed over. */
  run(totalMs: number, isBroken: boolean, done: () => void): void {
    const { clock, log } = this.#parts;
    const steps = isBroken ? this.#leavingSteps() : [...this.#handoverSteps(totalMs), ...this.#leavingSteps()];
    runStopSequence(clock, totalMs, steps, {
      late: (step, limitMs) =>
        log('warn', 'a shutdown step did not end in time', { step, limitMs: Math.round(limitMs) }),
      ended: done,
    });
  }

  #handoverSteps(totalMs: number): readonly StopStep[] {
    this.#parts.jobs?.refuseUnits();
    return [
      { name: 'announce', share: 0.05, run: (limitMs, done) => this.#announce(limitMs, done) },
      { name: 'leadership', share: 0.05, run: (_limitMs, done) => this.#handOverLeadership(done) },
      { name: 'containers', share: 0.1, run: (limitMs, done) => this.#handOverContainers(limitMs, done) },
      { name: 'units', share: 0.05, run: (limitMs, done) => this.#finishUnits(limitMs, done) },
      { name: 'calls', share: 0.2, run: (limitMs, done) => this.#finishCalls(limitMs, totalMs, done) },
    ];
  }

  #leavingSteps(): readonly StopStep[] {
    const { control, containers, jobs, refuseRequests, leaveMembership } = this.#parts;
    return [
      {
        name: 'jobs',
        share: 0.07,
        run: (_limitMs, done) => {
          refuseRequests();
          if (jobs === undefined) done();
          else jobs.stop(done);
        },
      },
      {
        name: 'hosting',
        share: 0.1,
        run: (_limitMs, done) => (containers === undefined ? done() : containers.stop(done)),
      },
      {
        name: 'control plane',
        share: 0.07,
        run: (_limitMs, done) => (control === undefined ? done() : control.stop(done)),
      },
      // Last: the leader then gives what is left to other nodes, because this node serves nothing any more.
      { name: 'membership', share: 0.07, run: (_limitMs, done) => leaveMembership(done) },
    ];
  }

  #announce(limitMs: number, done: () => void): void {
    const { control } = this.#parts;
    if (control === undefined) return done();
    const timeoutMs = Math.min(limitMs, announceMsMax);
    control.registration.announceStop(timeoutMs, (outcome) => {
      this.#announced = outcome;
    });
    this.#waitUntil(() => this.#announced !== undefined || !this.#canRecord(), timeoutMs, done);
  }

  #handOverLeadership(done: () => void): void {
    const { control } = this.#parts;
    if (control === undefined) done();
    else control.handOverLeadership(done);
  }

  #handOverContainers(limitMs: number, done: () => void): void {
    const isOver = (): boolean => this.#announced?.ok !== true || !this.#hasMovable();
    this.#waitUntil(isOver, limitMs, () => {
      const kept = this.#owned();
      const fields = { ...summaryOf(kept), reason: this.#whyKept() };
      if (kept.length > 0) this.#parts.log('warn', 'containers stay with this node', fields);
      done();
    });
  }

  #whyKept(): string {
    if (this.#announced?.ok !== true) return 'the stop could not be announced to a leader';
    return this.#hasMovable() ? 'they were not handed over in time' : 'no other node that stays has a replica in sync';
  }

  #hasMovable(): boolean {
    const takers = this.#takers();
    return this.#owned().some((change) => isMovable(change, takers));
  }

  /** Units that do not end in time return to the manager in the next step. */
  #finishUnits(limitMs: number, done: () => void): void {
    const { jobs } = this.#parts;
    this.#waitUntil(() => jobs?.worker?.isIdle !== false || !this.#canRecord(), limitMs, done);
  }

  /** Calls of this node's containers, and calls of clients that came through this node. */
  #finishCalls(limitMs: number, totalMs: number, done: () => void): void {
    const { containers, clock, refuseCalls } = this.#parts;
    refuseCalls();
    if (containers === undefined) return done();
    const sinceMs = clock.nowMs();
    const noOwnerIsLeft = (): boolean => this.#isLast() && clock.nowMs() - sinceMs >= lastCallsShare * totalMs;
    containers.finishCalls(limitMs, () => {
      this.#waitUntil(() => containers.calls.open === 0 || noOwnerIsLeft(), limitMs - (clock.nowMs() - sinceMs), done);
    });
  }

  #owned(): readonly OwnedContainerChange[] {
    return this.#parts.containers?.hosting?.owned() ?? [];
  }

  /** All other workers are stopping too, or gone. */
  #isLast(): boolean {
    return this.#takers().size === 0;
  }

  /** Some manager will still be there when a unit ends: without one its end is lost. */
  #canRecord(): boolean {
    return this.#parts.control?.leadership.isLeading() === true || this.#staying('manager').length > 0;
  }

  /** Other workers that may get containers. */
  #takers(): ReadonlyMap<NodeId, MemberView> {
    const { control } = this.#parts;
    const active = this.#staying('worker').filter(
      ({ entry }) => control?.registration.registrationStatusOf(entry.id) === 'active',
    );
    return new Map(active.map((view) => [view.entry.id, view]));
  }

  /** Other nodes of this role that are alive and do not stop, as far as this node knows. */
  #staying(role: Role): readonly MemberView[] {
    const { control, self, members } = this.#parts;
    return members().filter(
      ({ entry: { id, roles } }) => id !== self && roles.includes(role) && control?.isStaying(id) === true,
    );
  }

  #waitUntil(isSo: () => boolean, limitMs: number, done: () => void): void {
    const { clock } = this.#parts;
    const untilMs = clock.nowMs() + limitMs;
    const look = (): void => {
      const leftMs = untilMs - clock.nowMs();
      if (isSo() || leftMs <= 0) done();
      else clock.schedule(Math.min(pollMs, leftMs), look);
    };
    look();
  }
}

/** Its move is under way, or the leader can move it to one of these nodes. */
function isMovable({ record, pool }: OwnedContainerChange, takers: ReadonlyMap<NodeId, MemberView>): boolean {
  if (pool.record.state !== 'active') return false;
  if (record.move?.step === 'handed') return true;
  return record.inSync.some(({ node, generation }) => {
    const view = takers.get(node);
    return view !== undefined && (pool.record.durability !== 'memory' || view.entry.generation === generation);
  });
}

function summaryOf(kept: readonly OwnedContainerChange[]): Readonly<Record<string, unknown>> {
  const names = kept.slice(0, namesMax).map(({ pool, container }) => `${pool.name}/${container}`);
  return { count: kept.length, containers: names };
}
