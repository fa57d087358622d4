/**
 * Assigns units to workers, gang-scheduled if a workflow needs several cores at a time. An assignment is recorded
 * before it is sent, and resent until the worker replies.
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

/** A workflow that has waited this long for its cores is not overtaken any more. */
const overtakeMsMax = 5_000;
const skippedMax = 64;
const shortMs = 20;
const quickMs = 2;
const resendMs = 300;
const backoffMs = 250;
const messageBytesMax = 8_000_000;
const specBytesMax = 10_000_000;
const bundlesMax = 256;
/** Refusals that depend on the worker and not on the unit. */
const workerCodes: ReadonlySet<string> = new Set(['CAPACITY', 'DRAINED', 'CANCELLED', 'FENCED', 'NOT_LEADER']);

export class Dispatcher {
  readonly #state: ManagerState;
  readonly #failed: (assignment: ActiveAssignment, code: string, message: string) => void;
  /** Messages without a reply. */
  readonly #sent = new Map<
    number,
    { readonly session: WorkerSession; readonly assignments: readonly ActiveAssignment[] }
  >();
  /** Moving average of the durations of units, by bundle. */
  readonly #durationsMs = new BoundedLru<string, number>(bundlesMax);
  #nextId = 1;

  /** `failed`: the worker cannot run the unit, which counts as an attempt. */
  constructor(state: ManagerState, failed: (assignment: ActiveAssignment, code: string, message: string) => void) {
    this.#state = state;
    this.#failed = failed;
  }

  clear(): void {
    this.#sent.clear();
  }

  recordDuration(bundle: string, durationMs: number): void {
    const before = this.#durationsMs.get(bundle);
    this.#durationsMs.set(bundle, before === undefined ? durationMs : before * 0.9 + durationMs * 0.1);
  }

  /** Assigns as many waiting units as the workers have capacity for. */
  dispatch(): void {
    const { runQueue, selector, nowMs } = this.#state;
    if (runQueue.isEmpty()) return;
    selector.refresh(nowMs);
    if (!selector.hasCapacity()) return;
    runQueue.dispatch((workflow) => this.#offer(workflow), skippedMax);
  }

  /** Why the workflow waits, for display. */
  waitReason(workflow: ManagedWorkflow): string {
    const { selector, nowMs, workers } = this.#state;
    if (workflow.waiting.length === 0) return 'all its units are assigned';
    selector.refresh(nowMs);
    const [total, free] = [selector.totalCores(), selector.freeCores()];
    const needs = this.#needs(workflow, total);
    const freeText = `${free} of ${total} cores are free`;
    if (workers.size === 0) return 'no worker has sent a heartbeat yet';
    if (total === 0) return `none of ${workers.size} workers accepts units now`;
    if (needs > total) return `needs ${needs} cores at a time, and all workers together have ${total}`;
    if (needs > free)
      return needs === 1 ? `waits for a core: ${freeText}` : `needs ${needs} cores at a time: ${freeText}`;
    return 'every worker with a free core failed this unit before, or other workflows are first';
  }

  /** Sends assignments that are now recorded. */
  sendRecorded(assignments: readonly ActiveAssignment[]): void {
    const bySession = new Map<WorkerSession, ActiveAssignment[]>();
    for (const assignment of assignments) {
      if (assignment.unit.assignment !== assignment || assignment.stopping !== undefined) continue;
      const list = bySession.get(assignment.worker);
      if (list === undefined) bySession.set(assignment.worker, [assignment]);
      else list.push(assignment);
    }
    for (const [session, list] of bySession) this.#sendTo(session, list);
  }

  /** Resends the assignments of this worker that it has not accepted. */
  resendUnanswered(session: WorkerSession): void {
    const { nowMs } = this.#state;
    if (session.resendAtMs > nowMs) return;
    session.resendAtMs = Infinity;
    const assignments = [...session.assignments].filter(
      (assignment) => assignment.isRecorded && !assignment.isAccepted && assignment.sentMs <= nowMs - resendMs,
    );
    this.sendRecorded(assignments);
  }

  onAssignReply(id: number, outcome: Outcome<JobMessage>): void {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    if (sent === undefined) return;
    const { session, assignments } = sent;
    const { nowMs } = this.#state;
    if (!outcome.ok || outcome.value.kind !== 'assignUnitsReply' || outcome.value.units.length !== assignments.length) {
      session.resendAtMs = Math.min(session.resendAtMs, nowMs + resendMs);
      return;
    }
    const { units } = outcome.value;
    for (let index = 0; index < units.length; index++) {
      const { code, message } = units[index] as (typeof units)[number];
      const assignment = assignments[index] as ActiveAssignment;
      if (assignment.unit.assignment !== assignment) continue;
      if (code === undefined) this.markAccepted(assignment);
      else this.#onRefused(assignment, code, message ?? '');
    }
  }

  /** The worker reports that it has the attempt. */
  markAccepted(assignment: ActiveAssignment): void {
    assignment.isAccepted = true;
    const { unit } = assignment;
    if (unit.state !== 'assigned') return;
    unit.state = 'running';
    const { workflow } = unit;
    const { job } = workflow;
    if (workflow.status === 'ASSIGNED') workflow.status = 'RUNNING';
    if (job.status === 'DISPATCHING') job.status = 'RUNNING';
    else if (job.status !== 'RUNNING') return;
    job.hasUnpublishedChange = true;
    this.#state.deferredStatus.add(job);
  }

  /** No worker has the unit: it waits again. */
  requeue(unit: ManagedUnit): void {
    const { workflow } = unit;
    unit.state = 'waiting';
    unit.liveProgress = undefined;
    workflow.waiting.push(unit);
    this.#state.runQueue.add(workflow);
    this.#state.commits.markUnit(unit);
  }

  #onRefused(assignment: ActiveAssignment, code: string, message: string): void {
    const { unit, worker, attempt } = assignment;
    const { nowMs } = this.#state;
    worker.backoffUntilMs = nowMs + backoffMs;
    if (code === 'DRAINED') worker.draining = true;
    if (assignment.stopping !== undefined) return;
    if (!workerCodes.has(code)) return this.#failed(assignment, code, message);
    attempt.outcome = 'refused';
    worker.assignments.delete(assignment);
    unit.assignment = undefined;
    unit.workflow.active -= 1;
    this.requeue(unit);
  }

  #needs({ coresToStart, facts }: ManagedWorkflow, total: number): number {
    return facts.batch === undefined ? coresToStart : Math.min(coresToStart, Math.max(1, total));
  }

  #offer(workflow: ManagedWorkflow): 'dispatched' | 'skipped' | 'stop' {
    const { selector, runQueue, nowMs } = this.#state;
    if (!workflow.areUnitsRecorded) return 'skipped';
    const cores = workflow.phase === 'work' ? usableCores(workflow) : 1;
    if (workflow.waiting.length === 0 || workflow.active >= cores) {
      runQueue.delete(workflow);
      return 'skipped';
    }
    const total = selector.totalCores();
    const needs = this.#needs(workflow, total);
    if (needs > 1) {
      if (selector.freeCores() < needs) {
        const isReserved = needs <= total && nowMs >= workflow.readyMs + overtakeMsMax;
        return isReserved ? 'stop' : 'skipped';
      }
    }
    const perCore = needs === 1 ? this.#perCore(workflow) : unitsPerCore.long;
    if (perCore === unitsPerCore.long && selector.freeCores() === 0) return 'skipped';
    let assigned = 0;
    for (; assigned < needs; assigned++) {
      const unit = workflow.waiting.at(-1);
      const session = unit === undefined ? undefined : selector.pick(unit, perCore);
      if (unit === undefined || session === undefined) break;
      workflow.waiting.pop();
      this.#assign(unit, session);
    }
    if (assigned === 0) return 'skipped';
    workflow.coresToStart = 1;
    if (workflow.waiting.length === 0 || workflow.active >= cores) runQueue.delete(workflow);
    return 'dispatched';
  }

  /** Short units may queue at a worker: the shorter, the more. */
  #perCore(workflow: ManagedWorkflow): number {
    if (workflow.phase !== 'whole' && workflow.facts.batch === undefined) return unitsPerCore.long;
    // `peek`: only ends of units keep an entry from eviction.
    const averageMs = this.#durationsMs.peek(workflow.job.request.bundle) ?? Infinity;
    return averageMs <= quickMs ? unitsPerCore.quick : averageMs <= shortMs ? unitsPerCore.short : unitsPerCore.long;
  }

  #assign(unit: ManagedUnit, worker: WorkerSession): void {
    const { commits, nowMs, managerClockMs, wallMs } = this.#state;
    const { workflow } = unit;
    const { job } = workflow;
    unit.attempts = prunedAttempts(unit.attempts);
    const last = unit.attempts.at(-1);
    const attempt: Attempt = {
      worker: worker.id,
      name: worker.name,
      generation: worker.generation,
      attempt: (last?.attempt ?? 0) + 1,
      fence: this.#state.nextFence(last?.fence),
      outcome: 'running',
    };
    const assignment: ActiveAssignment = {
      unit,
      attempt,
      worker,
      isAccepted: false,
      isRecorded: false,
      sentMs: nowMs,
      missedHeartbeats: 0,
      stopping: undefined,
    };
    // A new list without spare capacity: most units have one attempt.
    unit.attempts = unit.attempts.length === 0 ? [attempt] : [...unit.attempts, attempt];
    unit.assignment = assignment;
    unit.state = 'assigned';
    worker.assignments.add(assignment);
    workflow.active += 1;
    if (workflow.status === 'PENDING') {
      workflow.status = 'ASSIGNED';
      workflow.startedMs = managerClockMs;
      workflow.rateSample = { ...workflow.rateSample, atMs: nowMs };
      commits.markJob(job);
    }
    if (job.status === 'QUEUED') {
      job.status = 'DISPATCHING';
      job.startedMs = managerClockMs;
      job.startedWallMs = wallMs;
      commits.markJob(job);
    }
    job.hasUnpublishedChange = true;
    commits.assign(assignment);
  }

  #sendTo(session: WorkerSession, assignments: readonly ActiveAssignment[]): void {
    if (session.address === undefined) {
      session.resendAtMs = Math.min(session.resendAtMs, this.#state.nowMs + resendMs);
      return;
    }
    let units: UnitAssignment[] = [];
    let sent: ActiveAssignment[] = [];
    let size = 0;
    const flush = (): void => {
      if (sent.length > 0) this.#sendMessage(session, units, sent);
      [units, sent, size] = [[], [], 0];
    };
    for (const assignment of assignments) {
      const spec = this.#specOf(assignment);
      if (spec === undefined) continue;
      if (sent.length === jobLimits.unitsInMessageMax || size + spec.length > messageBytesMax) flush();
      assignment.sentMs = this.#state.nowMs;
      units.push(toUnitAssignment(assignment, spec, this.#perCore(assignment.unit.workflow) > 1));
      sent.push(assignment);
      size += spec.length;
    }
    flush();
  }

  /** Undefined if the spec is too large; then the failure is reported. */
  #specOf(assignment: ActiveAssignment): Uint8Array | undefined {
    try {
      const spec = unitSpecBytes(assignment.unit);
      if (spec.length <= specBytesMax) return spec;
    } catch (error) {
      if (!isRemusterError(error)) throw error;
    }
    this.#failed(assignment, 'TOO_LARGE', `its items, data and context have more than ${specBytesMax} bytes`);
    return undefined;
  }

  #sendMessage(
    session: WorkerSession,
    units: readonly UnitAssignment[],
    assignments: readonly ActiveAssignment[],
  ): void {
    const { effects, term } = this.#state;
    const id = this.#nextId++;
    this.#sent.set(id, { session, assignments });
    const message = { kind: 'assignUnits', term, generation: session.generation, units } as const;
    effects.push({ kind: 'assign', id, to: session.address as NonNullable<WorkerSession['address']>, message });
  }
}

function toUnitAssignment({ unit, attempt }: ActiveAssignment, spec: Uint8Array, mayWait: boolean): UnitAssignment {
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
