/**
 * How a job goes from its beginning to its end: which workflow begins when, what follows on the end of a unit, what a
 * failure, a timeout, a cancellation or an early success does to the rest. States only go forward, and after the end
 * nothing changes. It neither chooses workers nor talks to them.
 */
import { isRemusterError } from '../../base/errors.ts';
import { type JobStatus, isOver } from '../job-words.ts';
import { cut } from './checking.ts';
import type { Giving } from './giving.ts';
import { type Job, type Run, type StopWhy, type Unit, type Workflow, isEnded, unitsOf } from './model.ts';
import type { Office } from './office.ts';
import type { Stopping } from './stopping.ts';
import { beginPhase, firstPhase, presentUnits } from './units.ts';
import { readPlan, valueOf } from './values.ts';

const whyMax = 1_000;

export class Flow {
  readonly #office: Office;
  readonly #giving: Giving;
  readonly #stopping: Stopping;
  readonly #ended: (job: Job) => void;

  /** `ended` is told when the end of a job is recorded. */
  constructor(office: Office, giving: Giving, stopping: Stopping, ended: (job: Job) => void) {
    this.#office = office;
    this.#giving = giving;
    this.#stopping = stopping;
    this.#ended = ended;
  }

  /** It waits for workers from now on. */
  begin(job: Job): void {
    const { nowMs, ledger, options } = this.#office;
    job.status = 'QUEUED';
    job.deadlineMs = nowMs + (job.request.timeoutMs ?? options.jobTimeoutMs);
    ledger.touch(job);
    for (const workflow of job.workflows) this.ready(workflow);
  }

  /** Begins a workflow if everything before it is completed. */
  ready(workflow: Workflow): void {
    const { facts, job } = workflow;
    if (workflow.phase !== 'none' || isEnded(workflow)) return;
    if (facts.after.length === 0) return this.#beginPhase(workflow, firstPhase(workflow));
    const before = job.workflows.filter((one) => facts.after.includes(one.facts.name));
    if (before.some(({ status }) => status === 'FAILED' || status === 'CANCELLED')) {
      workflow.status = 'CANCELLED';
      this.#office.ledger.touch(job);
      return this.#afterWorkflow(workflow);
    }
    if (before.every(({ status }) => status === 'COMPLETED')) this.#beginPhase(workflow, firstPhase(workflow));
  }

  /** A unit is done, and its end is about to be recorded. */
  unitDone(unit: Unit): void {
    const { workflow } = unit;
    this.#office.progressed(workflow);
    if (unit.phase === 'plan') return this.#planned(workflow, unit);
    if (unit.phase === 'finish') return this.#conclude(workflow);
    workflow.done += 1;
    this.settle(workflow);
  }

  /** Something of it has ended: is there a next phase, or the end? */
  settle(workflow: Workflow): void {
    if (isEnded(workflow) || workflow.phase === 'none' || workflow.phase === 'finish') return;
    const isBroken = workflow.code !== undefined || workflow.found !== undefined;
    const isDone = isBroken ? workflow.active === 0 : isWorkDone(workflow);
    if (!isDone || isOver(workflow.job.status)) return;
    workflow.value = workflow.code === undefined ? valueOf(workflow) : undefined;
    // Without its setup there is nothing to tear down, `whole` has done so itself, and late is late.
    const isLate = workflow.code === 'WORKFLOW_TIMEOUT';
    if (workflow.facts.hasTeardown && workflow.phase === 'work' && !isLate) this.#beginPhase(workflow, 'finish');
    else this.#conclude(workflow);
  }

  /** It has what the whole workflow was looking for. */
  found(unit: Unit): void {
    const { workflow } = unit;
    if (workflow.found !== undefined || workflow.code !== undefined) return;
    workflow.found = unit.number;
    this.#endUnits(workflow, 'superseded');
  }

  fail(workflow: Workflow, code: string, why: string): void {
    // It has failed before: perhaps this was the last that it waited for.
    if (workflow.code !== undefined || isEnded(workflow)) return this.settle(workflow);
    workflow.code = cut(code, 40);
    workflow.why = cut(why, whyMax);
    this.#office.ledger.touch(workflow.job);
    this.#endUnits(workflow, code === 'WORKFLOW_TIMEOUT' ? 'timeout' : 'superseded');
    this.settle(workflow);
  }

  /** Its attempt is over without an end that counts. Another one, unless there were enough. */
  retry(unit: Unit, code: string, why: string, counted: number): void {
    const { workflow } = unit;
    const { job, facts } = workflow;
    if (isOver(job.status) || job.status === 'CANCELLING' || workflow.code !== undefined || isEnded(workflow)) {
      unit.state = 'cancelled';
      this.#office.ledger.touchUnit(unit);
      return this.afterStop(workflow);
    }
    if (counted <= facts.maxRetries) return this.#giving.putBack(unit);
    unit.state = 'failed';
    this.#office.ledger.touchUnit(unit);
    const text = `unit ${unit.number} of ${facts.name} was tried ${counted} times; the last time: ${code} ${why}`;
    if (unit.phase === 'finish') this.#finishFailed(unit, text);
    else this.fail(workflow, facts.maxRetries === 0 ? code : 'RETRIES_EXHAUSTED', text);
  }

  /** Its own code failed: no other worker would do better. */
  failed(unit: Unit, code: string, why: string): void {
    unit.state = 'failed';
    this.#office.ledger.touchUnit(unit);
    if (unit.phase === 'finish') this.#finishFailed(unit, `${code} ${why}`);
    else this.fail(unit.workflow, code, why);
  }

  /** A run that was to end has ended. */
  afterStop(workflow: Workflow): void {
    const { job } = workflow;
    if (job.status === 'CANCELLING') this.#cancelled(job);
    else this.settle(workflow);
  }

  /** From any state; when it is recorded, workers are told. */
  cancel(job: Job): void {
    if (isOver(job.status) || job.status === 'CANCELLING') return;
    job.status = 'CANCELLING';
    job.deadlineMs = this.#office.nowMs + 3 * this.#office.options.jobLeaseMs;
    for (const workflow of job.workflows) if (!isEnded(workflow)) this.#endUnits(workflow, 'cancelled');
    this.#cancelled(job);
  }

  /** Its time is over, in whatever state it is. */
  expire(job: Job): void {
    if (isOver(job.status)) return;
    const { request, status } = job;
    const timeoutMs = request.timeoutMs ?? this.#office.options.jobTimeoutMs;
    const wasCancelled = status === 'CANCELLING';
    for (const workflow of job.workflows) {
      if (isEnded(workflow)) continue;
      this.#endUnits(workflow, wasCancelled ? 'cancelled' : 'timeout');
      const isCut = !wasCancelled && workflow.status !== 'PENDING';
      workflow.status = isCut ? 'FAILED' : 'CANCELLED';
      if (isCut) [workflow.code, workflow.why] = ['WORKFLOW_TIMEOUT', `the job had ${timeoutMs} ms`];
    }
    if (!wasCancelled) {
      job.code = 'WORKFLOW_TIMEOUT';
      job.why = `the job was not over after ${timeoutMs} ms; it was ${status}`;
    }
    this.#end(job, wasCancelled ? 'CANCELLED' : 'TIMEOUT');
  }

  expireWorkflow(workflow: Workflow): void {
    const { facts } = workflow;
    if (workflow.phase === 'finish') {
      // Its work is done or failed already; only its last step takes too long.
      this.#office.incident(workflow.job, 'unit.failed', '', `the teardown of ${facts.name} took too long`);
      this.#endUnits(workflow, 'timeout');
      return this.#conclude(workflow);
    }
    this.fail(workflow, 'WORKFLOW_TIMEOUT', `${facts.name} was not over after ${facts.timeoutMs} ms`);
  }

  /** After a change of the leader: whatever was about to follow. */
  resume(job: Job): void {
    if (isOver(job.status)) return;
    if (job.status === 'CANCELLING') {
      // Its own time may be over before whoever runs it has surely stopped.
      job.deadlineMs = this.#office.nowMs + 3 * this.#office.options.jobLeaseMs;
      for (const workflow of job.workflows) if (!isEnded(workflow)) this.#endUnits(workflow, 'cancelled');
      return this.#cancelled(job);
    }
    for (const workflow of job.workflows) {
      if (isEnded(workflow)) continue;
      if (workflow.phase === 'none') this.ready(workflow);
      else if (workflow.code !== undefined || workflow.found !== undefined) this.#resumeEnding(workflow);
      else if (workflow.phase === 'plan' && workflow.plan?.state === 'done') this.#planned(workflow, workflow.plan);
      else if (workflow.waiting.length > 0) this.#office.line.add(workflow);
      this.settle(workflow);
    }
    this.#checkEnd(job);
  }

  #resumeEnding(workflow: Workflow): void {
    if (workflow.phase === 'finish') {
      if (workflow.waiting.length > 0) this.#office.line.add(workflow);
    } else this.#endUnits(workflow, 'superseded');
  }

  #beginPhase(workflow: Workflow, phase: 'whole' | 'plan' | 'work' | 'finish'): void {
    const { ledger, line, nowMs } = this.#office;
    beginPhase(workflow, phase);
    workflow.readyMs = nowMs;
    ledger.touch(workflow.job);
    if (presentUnits(workflow).length === 0) return this.settle(workflow);
    line.add(workflow);
    if (workflow.job.isInline || phase !== 'work') return;
    // Its units lie in blocks, which say nothing before it is recorded that there are units.
    workflow.isMade = false;
    ledger.touchAnd(workflow.job, () => {
      workflow.isMade = true;
    });
  }

  #planned(workflow: Workflow, unit: Unit): void {
    try {
      const { data, list, count } = readPlan(unit.output);
      workflow.planned = { data, list };
      if (workflow.facts.batch !== undefined && workflow.facts.batch.items === undefined) {
        if (count === undefined)
          return this.fail(workflow, 'WORKFLOW_FAILED', 'the plan did not say which items there are');
        workflow.items = count;
      }
    } catch (error) {
      const code = isRemusterError(error) ? error.code : 'INTERNAL';
      return this.fail(workflow, code, error instanceof Error ? error.message : '');
    } finally {
      unit.output = undefined;
    }
    this.#beginPhase(workflow, 'work');
  }

  /** Nothing of it is worked on from now on. */
  #endUnits(workflow: Workflow, why: StopWhy): void {
    this.#office.line.delete(workflow);
    workflow.waiting = [];
    const runs: Run[] = [];
    for (const unit of unitsOf(workflow)) {
      if (unit.state === 'waiting') unit.state = 'cancelled';
      if (unit.run !== undefined) {
        unit.run.stopping ??= why;
        runs.push(unit.run);
      }
    }
    const { job } = workflow;
    this.#office.ledger.touchAnd(job, () => {
      for (const run of runs) if (run.seat.runs.has(run)) this.#stopping.stop(run, why);
    });
  }

  #finishFailed(unit: Unit, text: string): void {
    const { workflow } = unit;
    const node = unit.attempts.at(-1)?.name ?? '';
    this.#office.incident(workflow.job, 'unit.failed', node, `the teardown of ${workflow.facts.name} failed: ${text}`);
    this.#conclude(workflow);
  }

  #conclude(workflow: Workflow): void {
    if (isEnded(workflow) || isOver(workflow.job.status) || workflow.job.status === 'CANCELLING') return;
    workflow.status = workflow.code === undefined ? 'COMPLETED' : 'FAILED';
    this.#office.line.delete(workflow);
    workflow.planned = undefined;
    this.#office.ledger.touch(workflow.job);
    this.#afterWorkflow(workflow);
  }

  #afterWorkflow(workflow: Workflow): void {
    const { job } = workflow;
    for (const next of job.workflows) if (next.facts.after.includes(workflow.facts.name)) this.ready(next);
    this.#checkEnd(job);
  }

  #checkEnd(job: Job): void {
    if (isOver(job.status) || job.status === 'CANCELLING' || !job.workflows.every(isEnded)) return;
    const failed = job.workflows.find(({ status }) => status === 'FAILED');
    if (failed === undefined) return this.#end(job, 'COMPLETED');
    job.code = failed.code;
    job.why = cut(`${failed.facts.name}: ${failed.why ?? ''}`, whyMax);
    this.#end(job, failed.code === 'WORKFLOW_TIMEOUT' ? 'TIMEOUT' : 'FAILED');
  }

  #cancelled(job: Job): void {
    for (const workflow of job.workflows) for (const unit of unitsOf(workflow)) if (unit.run !== undefined) return;
    for (const workflow of job.workflows) if (!isEnded(workflow)) workflow.status = 'CANCELLED';
    this.#end(job, 'CANCELLED');
  }

  #end(job: Job, status: JobStatus): void {
    const { managerMs, wallMs, ledger, soft } = this.#office;
    job.status = status;
    job.endedMs = managerMs;
    job.endedWallMs = wallMs;
    job.isChanged = true;
    soft.delete(job);
    for (const workflow of job.workflows) {
      workflow.waiting = [];
      workflow.planned = undefined;
      workflow.value = undefined;
      if (workflow.plan !== undefined) this.#endOf(workflow.plan);
      for (const unit of workflow.units) this.#endOf(unit);
      if (workflow.finish !== undefined) this.#endOf(workflow.finish);
    }
    ledger.touchAnd(job, () => this.#ended(job));
  }

  /** What still runs is being ended, and nothing that is shown of it will change. */
  #endOf(unit: Unit): void {
    unit.live = unit.output = undefined;
    const last = unit.attempts.at(-1);
    if (last?.outcome !== 'running') return;
    last.outcome = 'cancelled';
    unit.state = 'cancelled';
    this.#office.ledger.touchUnit(unit);
  }
}

function isWorkDone(workflow: Workflow): boolean {
  if (workflow.phase === 'work' || workflow.phase === 'whole') return workflow.done === workflow.units.length;
  return false;
}
