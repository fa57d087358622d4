/**
 * Gives units to workers: who is next, to whom, and how many at a time. A workflow begins its work when it can have all
 * the cores it wants at one time; smaller ones may pass it, but not for ever. What is given is recorded first and sent
 * after that, again and again until the worker has answered or its lease is over.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Outcome, isRemusterError } from '../../base/errors.ts';
import type { UnitAssignment, JobMessage } from '../../messages/jobs.ts';
import type { Attempt, Run, Unit, Workflow } from './model.ts';
import type { Office } from './office.ts';
import { orderBytes } from './orders-of-units.ts';
import { keptAttempts } from './recording.ts';
import type { Seat } from './seats.ts';
import { unitsPerCore } from './selection.ts';
import { coresOf } from './units.ts';
import { jobLimits } from '../limits.ts';

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

export class Giving {
  readonly #office: Office;
  readonly #broken: (run: Run, code: string, why: string) => void;
  /** Messages to workers that are under way. */
  readonly #sent = new Map<number, { readonly seat: Seat; readonly runs: readonly Run[] }>();
  /** By bundle: how long its units took of late. */
  readonly #paces = new BoundedLru<string, number>(codesMax);
  #nextId = 1;

  /** `broken`: a worker can do nothing with what it got, which counts as an attempt. */
  constructor(office: Office, broken: (run: Run, code: string, why: string) => void) {
    this.#office = office;
    this.#broken = broken;
  }

  clear(): void {
    this.#sent.clear();
  }

  took(bundle: string, tookMs: number): void {
    const before = this.#paces.get(bundle);
    this.#paces.set(bundle, before === undefined ? tookMs : before * 0.9 + tookMs * 0.1);
  }

  /** As many as there is room for. */
  pass(): void {
    const { line, selection, nowMs } = this.#office;
    if (line.isEmpty()) return;
    selection.begin(nowMs);
    if (!selection.hasRoom()) return;
    line.offer((workflow) => this.#offer(workflow), passedMax);
  }

  /** Why it waits; for people. */
  reason(workflow: Workflow): string {
    const { selection, nowMs, seats } = this.#office;
    if (workflow.waiting.length === 0) return 'all of it is given';
    selection.begin(nowMs);
    const [total, free] = [selection.totalCores(), selection.freeCores()];
    const needs = this.#needs(workflow, total);
    const of = `${free} of ${total} cores are free`;
    if (seats.size === 0) return 'no worker has reported yet';
    if (total === 0) return `none of ${seats.size} workers may take anything now`;
    if (needs > total) return `needs ${needs} cores at one time, and all workers together have ${total}`;
    if (needs > free) return needs === 1 ? `waits for a core: ${of}` : `needs ${needs} cores at one time: ${of}`;
    return 'every worker with a free core failed this unit before, or others are first';
  }

  /** They are recorded: send them. */
  send(runs: readonly Run[]): void {
    const bySeat = new Map<Seat, Run[]>();
    for (const run of runs) {
      if (run.unit.run !== run || run.stopping !== undefined) continue;
      const list = bySeat.get(run.seat);
      if (list === undefined) bySeat.set(run.seat, [run]);
      else list.push(run);
    }
    for (const [seat, list] of bySeat) this.#sendTo(seat, list);
  }

  /** What was not answered, to whoever may still have it. */
  resend(seat: Seat): void {
    const { nowMs } = this.#office;
    if (seat.resendAtMs > nowMs) return;
    seat.resendAtMs = Infinity;
    const runs = [...seat.runs].filter((run) => run.isRecorded && !run.isTaken && run.sentMs <= nowMs - resendMs);
    this.send(runs);
  }

  answered(id: number, outcome: Outcome<JobMessage>): void {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    if (sent === undefined) return;
    const { seat, runs } = sent;
    const { nowMs } = this.#office;
    if (!outcome.ok || outcome.value.kind !== 'unitsTaken' || outcome.value.units.length !== runs.length) {
      seat.resendAtMs = Math.min(seat.resendAtMs, nowMs + resendMs);
      return;
    }
    const { units } = outcome.value;
    for (let index = 0; index < units.length; index++) {
      const { code, why } = units[index] as (typeof units)[number];
      const run = runs[index] as Run;
      if (run.unit.run !== run) continue;
      if (code === undefined) this.taken(run);
      else this.#refused(run, code, why ?? '');
    }
  }

  /** The worker has it. */
  taken(run: Run): void {
    run.isTaken = true;
    const { unit } = run;
    if (unit.state !== 'given') return;
    unit.state = 'running';
    const { workflow } = unit;
    const { job } = workflow;
    if (workflow.status === 'ASSIGNED') workflow.status = 'RUNNING';
    if (job.status === 'DISPATCHING') job.status = 'RUNNING';
    else if (job.status !== 'RUNNING') return;
    job.isChanged = true;
    this.#office.soft.add(job);
  }

  /** Nobody has it any more, and it goes on waiting. */
  putBack(unit: Unit): void {
    const { workflow } = unit;
    unit.state = 'waiting';
    unit.live = undefined;
    workflow.waiting.push(unit);
    this.#office.line.add(workflow);
    this.#office.ledger.touchUnit(unit);
  }

  #refused(run: Run, code: string, why: string): void {
    const { unit, seat, attempt } = run;
    const { nowMs } = this.#office;
    seat.restUntilMs = nowMs + restMs;
    if (code === 'DRAINED') seat.draining = true;
    if (run.stopping !== undefined) return;
    if (!harmless.has(code)) return this.#broken(run, code, why);
    attempt.outcome = 'refused';
    seat.runs.delete(run);
    unit.run = undefined;
    unit.workflow.active -= 1;
    this.putBack(unit);
  }

  #needs({ needs, facts }: Workflow, total: number): number {
    return facts.batch === undefined ? needs : Math.min(needs, Math.max(1, total));
  }

  #offer(workflow: Workflow): 'taken' | 'passed' | 'stop' {
    const { selection, line, nowMs } = this.#office;
    if (!workflow.isMade) return 'passed';
    const cores = workflow.phase === 'work' ? coresOf(workflow) : 1;
    if (workflow.waiting.length === 0 || workflow.active >= cores) {
      line.delete(workflow);
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
    workflow.needs = 1;
    if (workflow.waiting.length === 0 || workflow.active >= cores) line.delete(workflow);
    return 'taken';
  }

  /** What is over in a moment may wait at a worker, the shorter the more of it. */
  #perCore(workflow: Workflow): number {
    if (workflow.phase !== 'whole' && workflow.facts.batch === undefined) return unitsPerCore.long;
    // Noted by each unit that ends: a look need not keep it alive.
    const paceMs = this.#paces.peek(workflow.job.request.bundle) ?? Infinity;
    return paceMs <= quickMs ? unitsPerCore.quick : paceMs <= shortMs ? unitsPerCore.short : unitsPerCore.long;
  }

  #give(unit: Unit, seat: Seat): void {
    const { ledger, nowMs, managerMs, wallMs } = this.#office;
    const { workflow } = unit;
    const { job } = workflow;
    unit.attempts = keptAttempts(unit.attempts);
    const last = unit.attempts.at(-1);
    const attempt: Attempt = {
      worker: seat.id,
      name: seat.name,
      generation: seat.generation,
      attempt: (last?.attempt ?? 0) + 1,
      fence: this.#office.nextFence(last?.fence),
      outcome: 'running',
    };
    const run: Run = {
      unit,
      attempt,
      seat,
      isTaken: false,
      isRecorded: false,
      sentMs: nowMs,
      missed: 0,
      stopping: undefined,
    };
    // No list with room for more than one: most stay the only ones.
    unit.attempts = unit.attempts.length === 0 ? [attempt] : [...unit.attempts, attempt];
    unit.run = run;
    unit.state = 'given';
    seat.runs.add(run);
    workflow.active += 1;
    if (workflow.status === 'PENDING') {
      workflow.status = 'ASSIGNED';
      workflow.startedMs = managerMs;
      ledger.touch(job);
    }
    if (job.status === 'QUEUED') {
      job.status = 'DISPATCHING';
      job.startedMs = managerMs;
      job.startedWallMs = wallMs;
      ledger.touch(job);
    }
    job.isChanged = true;
    ledger.give(run);
  }

  #sendTo(seat: Seat, runs: readonly Run[]): void {
    if (seat.address === undefined) {
      seat.resendAtMs = Math.min(seat.resendAtMs, this.#office.nowMs + resendMs);
      return;
    }
    let units: UnitAssignment[] = [];
    let sent: Run[] = [];
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
  #orderOf(run: Run): Uint8Array | undefined {
    try {
      const order = orderBytes(run.unit);
      if (order.length <= orderBytesMax) return order;
    } catch (error) {
      if (!isRemusterError(error)) throw error;
    }
    this.#broken(run, 'TOO_LARGE', 'its items, its data and its context are too large to be sent');
    return undefined;
  }

  #message(seat: Seat, units: readonly UnitAssignment[], runs: readonly Run[]): void {
    const { out, term } = this.#office;
    const id = this.#nextId++;
    this.#sent.set(id, { seat, runs });
    const message = { kind: 'giveUnits', term, generation: seat.generation, units } as const;
    out.push({ kind: 'give', id, to: seat.address as NonNullable<Seat['address']>, message });
  }
}

function givenUnit({ unit, attempt }: Run, spec: Uint8Array, mayWait: boolean): UnitAssignment {
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

export function attemptNameOf({ unit, attempt }: Run): Omit<UnitAssignment, 'spec' | 'mayWait'> {
  const { workflow, number } = unit;
  return {
    ...{ job: workflow.job.id, workflow: workflow.index, unit: number },
    ...{ attempt: attempt.attempt, fence: attempt.fence },
  };
}
