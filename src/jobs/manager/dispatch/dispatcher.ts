/**
 * Assigns units to workers, gang-scheduled where a workflow needs several cores. Records an assignment first, sends it
 * after, resends until answered.
 */
import { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import { type Outcome, isRemusterError } from '../../../base/errors.ts';
import type { UnitAssignment, JobMessage } from '../../../messages/jobs.ts';
import type { Attempt, ActiveAssignment, ManagedUnit, ManagedWorkflow } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import { unitSpecBytes } from './unit-spec-builder.ts';
import { prunedAttempts } from '../model/record-conversion.ts';
import type { WorkerSession } from '../model/worker-table.ts';
import { unitsPerCore } from '../state/worker-selector.ts';
import { usableCores } from '../model/unit-split.ts';
import { jobLimits } from '../../limits.ts';

/** A workflow that waits for so long is not passed by others any more. */
const patienceMs = 5_000;
const passedMax = 64;
const shortMs = 20;
const quickMs = 2;
const resendMs = 300;
const restMs = 250;
const messageBytesMax = 8_000_000;
const orderBytesMax = 10_000_000;
const codesMax = 256;
/** Refusals that say nothing about the unit. */
const harmless: ReadonlySet<string> = new Set(['CAPACITY', 'DRAINED', 'CANCELLED', 'FENCED', 'NOT_LEADER']);

export class Dispatcher {
  readonly #office: ManagerState;
  readonly #broken: (run: ActiveAssignment, code: string, why: string) => void;
  /** Messages to workers that are under way. */
  readonly #sent = new Map<number, { readonly seat: WorkerSession; readonly runs: readonly ActiveAssignment[] }>();
  /** By bundle: how long its units took of late. */
  readonly #paces = new BoundedLru<string, number>(codesMax);
  #nextId = 1;

  /** `broken`: a worker can do nothing with what it got, which counts as an attempt. */
  constructor(office: ManagerState, broken: (run: ActiveAssignment, code: string, why: string) => void) {
    this.#office = office;
    this.#broken = broken;
  }

  clear(): void {
    this.#sent.clear();
  }

  recordDuration(bundle: string, tookMs: number): void {
    const before = this.#paces.get(bundle);
    this.#paces.set(bundle, before === undefined ? tookMs : before * 0.9 + tookMs * 0.1);
  }

  /** As many as there is room for. */
  dispatch(): void {
    const { runQueue, selection, nowMs } = this.#office;
    if (runQueue.isEmpty()) return;
    selection.refresh(nowMs);
    if (!selection.hasCapacity()) return;
    runQueue.dispatch((workflow) => this.#offer(workflow), passedMax);
  }

  /** Why it waits; for people. */
  waitReason(workflow: ManagedWorkflow): string {
    const { selection, nowMs, workers } = this.#office;
    if (workflow.waiting.length === 0) return 'all of it is given';
    selection.refresh(nowMs);
    const [total, free] = [selection.totalCores(), selection.freeCores()];
    const needs = this.#needs(workflow, total);
    const of = `${free} of ${total} cores are free`;
    if (workers.size === 0) return 'no worker has reported yet';
    if (total === 0) return `none of ${workers.size} workers may take anything now`;
    if (needs > total) return `needs ${needs} cores at one time, and all workers together have ${total}`;
    if (needs > free) return needs === 1 ? `waits for a core: ${of}` : `needs ${needs} cores at one time: ${of}`;
    return 'every worker with a free core failed this unit before, or others are first';
  }

  /** They are recorded: send them. */
  sendRecorded(runs: readonly ActiveAssignment[]): void {
    const bySeat = new Map<WorkerSession, ActiveAssignment[]>();
    for (const run of runs) {
      if (run.unit.assignment !== run || run.stopping !== undefined) continue;
      const list = bySeat.get(run.worker);
      if (list === undefined) bySeat.set(run.worker, [run]);
      else list.push(run);
    }
    for (const [seat, list] of bySeat) this.#sendTo(seat, list);
  }

  /** What was not answered, to whoever may still have it. */
  resendUnanswered(seat: WorkerSession): void {
    const { nowMs } = this.#office;
    if (seat.resendAtMs > nowMs) return;
    seat.resendAtMs = Infinity;
    const runs = [...seat.assignments].filter(
      (run) => run.isRecorded && !run.isTaken && run.sentMs <= nowMs - resendMs,
    );
    this.sendRecorded(runs);
  }

  onAssignReply(id: number, outcome: Outcome<JobMessage>): void {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    if (sent === undefined) return;
    const { seat, runs } = sent;
    const { nowMs } = this.#office;
    if (!outcome.ok || outcome.value.kind !== 'assignUnitsReply' || outcome.value.units.length !== runs.length) {
      seat.resendAtMs = Math.min(seat.resendAtMs, nowMs + resendMs);
      return;
    }
    const { units } = outcome.value;
    for (let index = 0; index < units.length; index++) {
      const { code, message: why } = units[index] as (typeof units)[number];
      const run = runs[index] as ActiveAssignment;
      if (run.unit.assignment !== run) continue;
      if (code === undefined) this.markAccepted(run);
      else this.#refused(run, code, why ?? '');
    }
  }

  /** The worker has it. */
  markAccepted(run: ActiveAssignment): void {
    run.isTaken = true;
    const { unit } = run;
    if (unit.state !== 'assigned') return;
    unit.state = 'running';
    const { workflow } = unit;
    const { job } = workflow;
    if (workflow.status === 'ASSIGNED') workflow.status = 'RUNNING';
    if (job.status === 'DISPATCHING') job.status = 'RUNNING';
    else if (job.status !== 'RUNNING') return;
    job.hasUnpublishedChange = true;
    this.#office.deferredStatus.add(job);
  }

  /** Nobody has it any more, and it goes on waiting. */
  requeue(unit: ManagedUnit): void {
    const { workflow } = unit;
    unit.state = 'waiting';
    unit.liveProgress = undefined;
    workflow.waiting.push(unit);
    this.#office.runQueue.add(workflow);
    this.#office.commits.markUnit(unit);
  }

  #refused(run: ActiveAssignment, code: string, why: string): void {
    const { unit, worker, attempt } = run;
    const { nowMs } = this.#office;
    worker.backoffUntilMs = nowMs + restMs;
    if (code === 'DRAINED') worker.draining = true;
    if (run.stopping !== undefined) return;
    if (!harmless.has(code)) return this.#broken(run, code, why);
    attempt.outcome = 'refused';
    worker.assignments.delete(run);
    unit.assignment = undefined;
    unit.workflow.active -= 1;
    this.requeue(unit);
  }

  #needs({ coresToStart, facts }: ManagedWorkflow, total: number): number {
    return facts.batch === undefined ? coresToStart : Math.min(coresToStart, Math.max(1, total));
  }

  #offer(workflow: ManagedWorkflow): 'taken' | 'passed' | 'stop' {
    const { selection, runQueue, nowMs } = this.#office;
    if (!workflow.areUnitsRecorded) return 'passed';
    const cores = workflow.phase === 'work' ? usableCores(workflow) : 1;
    if (workflow.waiting.length === 0 || workflow.active >= cores) {
      runQueue.delete(workflow);
      return 'passed';
    }
    const total = selection.totalCores();
    const needs = this.#needs(workflow, total);
    if (needs > 1) {
      if (selection.freeCores() < needs) {
        const isReserved = needs <= total && nowMs >= workflow.readyMs + patienceMs;
        return isReserved ? 'stop' : 'passed';
      }
    }
    const perCore = needs === 1 ? this.#perCore(workflow) : unitsPerCore.long;
    if (perCore === unitsPerCore.long && selection.freeCores() === 0) return 'passed';
    let given = 0;
    for (; given < needs; given++) {
      const unit = workflow.waiting.at(-1);
      const seat = unit === undefined ? undefined : selection.pick(unit, perCore);
      if (unit === undefined || seat === undefined) break;
      workflow.waiting.pop();
      this.#give(unit, seat);
    }
    if (given === 0) return 'passed';
    workflow.coresToStart = 1;
    if (workflow.waiting.length === 0 || workflow.active >= cores) runQueue.delete(workflow);
    return 'taken';
  }

  /** What is over in a moment may wait at a worker, the shorter the more of it. */
  #perCore(workflow: ManagedWorkflow): number {
    if (workflow.phase !== 'whole' && workflow.facts.batch === undefined) return unitsPerCore.long;
    // Noted by each unit that ends: a look need not keep it alive.
    const paceMs = this.#paces.peek(workflow.job.request.bundle) ?? Infinity;
    return paceMs <= quickMs ? unitsPerCore.quick : paceMs <= shortMs ? unitsPerCore.short : unitsPerCore.long;
  }

  #give(unit: ManagedUnit, worker: WorkerSession): void {
    const { commits, nowMs, managerClockMs, wallMs } = this.#office;
    const { workflow } = unit;
    const { job } = workflow;
    unit.attempts = prunedAttempts(unit.attempts);
    const last = unit.attempts.at(-1);
    const attempt: Attempt = {
      worker: worker.id,
      name: worker.name,
      generation: worker.generation,
      attempt: (last?.attempt ?? 0) + 1,
      fence: this.#office.nextFence(last?.fence),
      outcome: 'running',
    };
    const run: ActiveAssignment = {
      unit,
      attempt,
      worker,
      isTaken: false,
      isRecorded: false,
      sentMs: nowMs,
      missedHeartbeats: 0,
      stopping: undefined,
    };
    // No list with room for more than one: most stay the only ones.
    unit.attempts = unit.attempts.length === 0 ? [attempt] : [...unit.attempts, attempt];
    unit.assignment = run;
    unit.state = 'assigned';
    worker.assignments.add(run);
    workflow.active += 1;
    if (workflow.status === 'PENDING') {
      workflow.status = 'ASSIGNED';
      workflow.startedMs = managerClockMs;
      workflow.pace = { ...workflow.pace, atMs: nowMs };
      commits.markJob(job);
    }
    if (job.status === 'QUEUED') {
      job.status = 'DISPATCHING';
      job.startedMs = managerClockMs;
      job.startedWallMs = wallMs;
      commits.markJob(job);
    }
    job.hasUnpublishedChange = true;
    commits.assign(run);
  }

  #sendTo(seat: WorkerSession, runs: readonly ActiveAssignment[]): void {
    if (seat.address === undefined) {
      seat.resendAtMs = Math.min(seat.resendAtMs, this.#office.nowMs + resendMs);
      return;
    }
    let units: UnitAssignment[] = [];
    let sent: ActiveAssignment[] = [];
    let size = 0;
    const flush = (): void => {
      if (sent.length > 0) this.#message(seat, units, sent);
      [units, sent, size] = [[], [], 0];
    };
    for (const run of runs) {
      const order = this.#orderOf(run);
      if (order === undefined) continue;
      if (sent.length === jobLimits.unitsInMessageMax || size + order.length > messageBytesMax) flush();
      run.sentMs = this.#office.nowMs;
      units.push(givenUnit(run, order, this.#perCore(run.unit.workflow) > 1));
      sent.push(run);
      size += order.length;
    }
    flush();
  }

  /** Undefined: nobody could be sent it, and that was said. */
  #orderOf(run: ActiveAssignment): Uint8Array | undefined {
    try {
      const order = unitSpecBytes(run.unit);
      if (order.length <= orderBytesMax) return order;
    } catch (error) {
      if (!isRemusterError(error)) throw error;
    }
    this.#broken(run, 'TOO_LARGE', 'its items, its data and its context are too large to be sent');
    return undefined;
  }

  #message(seat: WorkerSession, units: readonly UnitAssignment[], runs: readonly ActiveAssignment[]): void {
    const { effects, term } = this.#office;
    const id = this.#nextId++;
    this.#sent.set(id, { seat, runs });
    const message = { kind: 'assignUnits', term, generation: seat.generation, units } as const;
    effects.push({ kind: 'give', id, to: seat.address as NonNullable<WorkerSession['address']>, message });
  }
}

function givenUnit({ unit, attempt }: ActiveAssignment, spec: Uint8Array, mayWait: boolean): UnitAssignment {
  const { workflow, number } = unit;
  return {
    job: workflow.job.id,
    workflow: workflow.index,
    unit: number,
    attempt: attempt.attempt,
    fence: attempt.fence,
    spec,
    mayWait,
  };
}

export function assignedAttemptId({ unit, attempt }: ActiveAssignment): Omit<UnitAssignment, 'spec' | 'mayWait'> {
  const { workflow, number } = unit;
  return {
    ...{ job: workflow.job.id, workflow: workflow.index, unit: number },
    ...{ attempt: attempt.attempt, fence: attempt.fence },
  };
}
