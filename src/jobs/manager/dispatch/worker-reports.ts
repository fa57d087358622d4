/**
 * Applies unit reports of workers. Only the current attempt counts; an end is taken once and acknowledged after its
 * commit.
 */
import type { JobMessageOf, UnitReport } from '../../../messages/jobs.ts';
import { isTerminalStatus } from '../../job-types.ts';
import { jobKeys } from '../../job-keys.ts';
import { jobLimits } from '../../limits.ts';
import { inlineResultBytesMax } from '../../records/job-record.ts';
import type { JobLifecycle } from './job-lifecycle.ts';
import type { Dispatcher } from './dispatcher.ts';
import {
  type ManagedJob,
  type ActiveAssignment,
  type ManagedUnit,
  type UnitResult,
  countedAttempts,
  isWorkflowEnded,
  findUnit,
} from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import type { WorkerSession } from '../model/worker-table.ts';
import { addSummary } from '../api/job-report.ts';
import { keptFailures } from '../model/kept-failures.ts';
import { retainOutput } from '../model/workflow-values.ts';

type Name = JobMessageOf<'reportUnitsAck'>['acknowledged'][number];

/** Errors of the code itself, or of what was asked: another worker would only repeat them. */
const finalCodes: ReadonlySet<string> = new Set([
  'WORKFLOW_FAILED',
  'WORKFLOW_TIMEOUT',
  'BUNDLE_INVALID',
  'TOO_LARGE',
  'BAD_ARGUMENT',
  'FORBIDDEN',
]);

/** Of ends that are being written in parts, all together; more have to wait. */
const storingBytesMax = 64_000_000;

export class WorkerReports {
  readonly #office: ManagerState;
  readonly #giving: Dispatcher;
  readonly #flow: JobLifecycle;
  #storingBytes = 0;

  constructor(office: ManagerState, giving: Dispatcher, flow: JobLifecycle) {
    this.#office = office;
    this.#giving = giving;
    this.#flow = flow;
  }

  clear(): void {
    this.#storingBytes = 0;
  }

  /** Calls back when all ends in it are recorded. */
  applyReports(
    seat: WorkerSession,
    news: readonly UnitReport[],
    done: (answer: JobMessageOf<'reportUnitsAck'>) => void,
  ): void {
    const acknowledged: Name[] = [];
    const stop: Name[] = [];
    let waits = 1;
    const recorded = (): void => {
      waits -= 1;
      if (waits === 0) done({ kind: 'reportUnitsAck', acknowledged, stop });
    };
    for (const item of news) {
      const { job, workflow, unit, attempt, fence, status } = item;
      const name = { job, workflow, unit, attempt, fence };
      const isEnd = status !== 'started' && status !== 'progress';
      const known = this.#office.jobs.get(job);
      const found = known?.workflows[workflow];
      const place = found === undefined ? undefined : findUnit(found, unit);
      const run = place?.assignment;
      const isPresent = run !== undefined && run.worker === seat && isSame(run, item);
      if (isPresent && isEnd) {
        waits += 1;
        if (this.#ended(run, item, recorded)) acknowledged.push(name);
        else waits -= 1;
      } else if (isPresent) {
        this.#progress(run, item);
        if (run.stopping !== undefined) stop.push(name);
      } else if (!isEnd) stop.push(name);
      else if (place?.state !== 'storing') {
        // Told again, or of an attempt that nobody waits for: what is known of it has to be recorded all the same.
        acknowledged.push(name);
        if (known !== undefined) {
          waits += 1;
          this.#office.commits.onceJobCommitted(known, recorded);
        }
      }
    }
    recorded();
  }

  /** That attempt was lost with its worker, or ended without an end that counts. */
  assignmentLost(run: ActiveAssignment, why: string): void {
    const { unit, attempt, worker } = run;
    const { workflow } = unit;
    this.#letGo(run);
    attempt.outcome = run.stopping === undefined ? 'lost' : 'cancelled';
    if (run.stopping !== undefined) return this.#stopped(unit);
    const { completed, failed } = unit.liveProgress ?? { completed: 0, failed: 0 };
    const counted = countedAttempts(unit);
    const effect = `${placeOf(unit)} ${nextOf(unit, counted)}; ${completed + failed} ${itemWord(unit)} of the lost attempt are not counted`;
    this.#office.addIncident(workflow.job, 'worker.lost', worker.name, effect);
    this.#tell(run);
    this.#office.commits.markJob(workflow.job);
    this.#flow.retryUnit(unit, 'RUNNER_KILLED', `${worker.name}: ${why}`, counted);
  }

  /** Nobody can do anything with it, or this worker cannot. */
  assignmentFailed(run: ActiveAssignment, code: string, why: string): void {
    if (run.stopping !== undefined) return this.assignmentStopped(run);
    this.#letGo(run);
    run.attempt.outcome = 'failed';
    this.#tell(run);
    this.#office.commits.markUnit(run.unit);
    if (finalCodes.has(code)) this.#flow.failUnit(run.unit, code, why);
    else this.#failedThere(run, code, why);
  }

  /** A run that was to end runs no longer. */
  assignmentStopped(run: ActiveAssignment): void {
    this.#letGo(run);
    if (run.attempt.outcome === 'running') run.attempt.outcome = 'cancelled';
    this.#stopped(run.unit);
  }

  #stopped(unit: ManagedUnit): void {
    const { workflow } = unit;
    if (unit.state === 'assigned' || unit.state === 'running') unit.state = 'cancelled';
    unit.liveProgress = undefined;
    // Of a job that is over nothing is written any more.
    if (!isTerminalStatus(workflow.job.status)) this.#office.commits.markUnit(unit);
    this.#flow.afterUnitStopped(workflow);
  }

  /** The core is free, and the unit has no attempt. */
  #letGo(run: ActiveAssignment): void {
    const { unit, worker } = run;
    worker.assignments.delete(run);
    if (unit.assignment !== run) return;
    unit.assignment = undefined;
    unit.workflow.active -= 1;
  }

  #progress(run: ActiveAssignment, { status, completed, failed, summary }: UnitReport): void {
    if (run.stopping !== undefined) return;
    this.#giving.markAccepted(run);
    const { unit } = run;
    if (status !== 'progress' || unit.state !== 'running') return;
    // Counts of one attempt only grow: what is lower was overtaken on its way.
    const { liveProgress: before } = unit;
    if (before !== undefined && completed + failed < before.completed + before.failed) return;
    unit.liveProgress = { completed, failed, summary: summary ?? before?.summary };
    this.#office.markProgress(unit.workflow);
  }

  /** False: not now, it will be told again. */
  #ended(run: ActiveAssignment, item: UnitReport, recorded: () => void): boolean {
    const { unit, attempt } = run;
    const { workflow } = unit;
    const { job } = workflow;
    const { commits } = this.#office;
    if (run.stopping !== undefined) {
      this.assignmentStopped(run);
      commits.onceJobCommitted(job, recorded);
      return true;
    }
    if (item.status === 'completed') return this.#completed(run, item, recorded);
    this.#letGo(run);
    // What may run once at most and has begun did not come back unharmed.
    const isHarmed = unit.workflow.facts.maxRetries === 0 && item.durationMs !== undefined;
    const isReturned = item.status === 'returned' && !isHarmed;
    attempt.outcome = isReturned ? 'returned' : item.status === 'failed' ? 'failed' : 'cancelled';
    this.#tell(run);
    commits.markUnit(unit);
    if (isReturned) this.#flow.retryUnit(unit, 'DRAINED', '', 0);
    else this.#notDone(run, item);
    commits.onceUnitCommitted(unit, recorded);
    return true;
  }

  #notDone(run: ActiveAssignment, { status, code, message: why }: UnitReport): void {
    const { unit } = run;
    const text = why ?? '';
    if (status === 'failed' && code !== undefined && finalCodes.has(code)) return this.#flow.failUnit(unit, code, text);
    const cause = status === 'failed' ? 'RUNNER_KILLED' : status === 'returned' ? 'DRAINED' : 'CANCELLED';
    this.#failedThere(run, code ?? cause, text);
  }

  /** Another worker may do better. */
  #failedThere({ unit, worker }: ActiveAssignment, code: string, why: string): void {
    const { workflow } = unit;
    const type = code === 'RUNNER_KILLED' ? 'runner.killed' : 'unit.retried';
    const counted = countedAttempts(unit);
    const effect = `${placeOf(unit)} ${nextOf(unit, counted)}: ${code} ${why}`;
    this.#office.addIncident(workflow.job, type, worker.name, effect);
    this.#office.commits.markJob(workflow.job);
    this.#flow.retryUnit(unit, code, why, counted);
  }

  #completed(run: ActiveAssignment, item: UnitReport, recorded: () => void): boolean {
    const { unit } = run;
    const { job } = unit.workflow;
    const { summary, output, completed, failed, durationMs } = item;
    const failures = keptFailures(unit.workflow, item);
    const apartBytes = apartOf(summary) + apartOf(output) + apartOf(failures?.bytes);
    if (apartBytes > 0 && this.#storingBytes + apartBytes > storingBytesMax) return false;
    this.#letGo(run);
    unit.workflow.failuresListed += failures?.count ?? 0;
    unit.workflow.failureSample ??= failures?.sample;
    if (unit.phase === 'whole' || unit.phase === 'work')
      this.#giving.recordDuration(job.request.bundle, durationMs ?? 0);
    const end: UnitResult = {
      completed,
      failed,
      durationMs: durationMs ?? 0,
      summary: apartOf(summary) === 0 ? summary : undefined,
      output: apartOf(output) === 0 ? output : undefined,
      failures: apartOf(failures?.bytes) === 0 ? failures?.bytes : undefined,
      summaryBytes: summary?.length ?? 0,
      outputBytes: output?.length ?? 0,
      failuresBytes: failures?.bytes.length,
    };
    if (apartBytes === 0) {
      this.#settle(run, end, item, recorded);
      return true;
    }
    unit.state = 'storing';
    if (!this.#office.jobs.reserveOutOfLine(job, apartBytes)) {
      run.attempt.outcome = 'failed';
      this.#flow.failUnit(
        unit,
        'TOO_LARGE',
        'there is no room for what it gave: results of other jobs fill the registry',
      );
      this.#office.commits.onceUnitCommitted(unit, recorded);
      return true;
    }
    this.#storingBytes += apartBytes;
    this.#completing(job);
    this.#store(unit, { summary, output, failures: failures?.bytes }, () => {
      this.#storingBytes -= apartBytes;
      if (unit.state !== 'storing') return recorded();
      this.#settle(run, end, item, recorded);
    });
    return true;
  }

  /** Its parts first; the record that names them after they are there. */
  #store(
    unit: ManagedUnit,
    { summary, output, failures }: Pick<UnitReport, 'summary' | 'output' | 'failures'>,
    stored: () => void,
  ): void {
    const { workflow, number } = unit;
    const { id } = workflow.job;
    let waits = 1;
    const written = (): void => {
      waits -= 1;
      if (waits === 0) stored();
    };
    for (const [kind, bytes] of [['s', summary] as const, ['o', output] as const, ['f', failures] as const]) {
      if (bytes === undefined || apartOf(bytes) === 0) continue;
      for (let part = 0; part * jobLimits.partBytesMax < bytes.length; part++) {
        waits += 1;
        const from = part * jobLimits.partBytesMax;
        const slice = bytes.subarray(from, from + jobLimits.partBytesMax);
        this.#office.commits.put(jobKeys.result(id, workflow.index, number, kind, part), slice, written);
      }
    }
    written();
  }

  #settle(run: ActiveAssignment, end: UnitResult, item: UnitReport, recorded: () => void): void {
    const { unit, attempt } = run;
    const { workflow } = unit;
    const { job } = workflow;
    const { commits } = this.#office;
    unit.liveProgress = undefined;
    if (isTerminalStatus(job.status) || job.status === 'CANCELLING' || isWorkflowEnded(workflow) || isBroken(unit)) {
      // It came too late to count.
      attempt.outcome = 'cancelled';
      unit.state = 'cancelled';
      commits.onceJobCommitted(job, recorded);
      return this.#flow.afterUnitStopped(workflow);
    }
    attempt.outcome = 'completed';
    unit.state = 'done';
    unit.end = end;
    retainOutput(workflow, unit, item.output);
    if (workflow.watched !== undefined) addSummary(workflow.watched, item.summary);
    workflow.outputBytes += end.outputBytes;
    this.#tell(run);
    commits.markUnit(unit);
    if (item.found === true && workflow.facts.batch?.firstOnly === true) this.#flow.markFound(unit);
    if (end.failed > 0) this.#flow.stopOnFailure(workflow);
    const { jobResultBytesMax } = this.#office.options;
    if (workflow.outputBytes > jobResultBytesMax)
      this.#flow.fail(
        workflow,
        'TOO_LARGE',
        `its results are more than ${jobResultBytesMax} bytes (jobResultBytesMax)`,
      );
    this.#flow.unitCompleted(unit);
    if (!isWorkflowEnded(workflow) && workflow.waiting.length > 0) this.#office.runQueue.add(workflow);
    commits.onceUnitCommitted(unit, recorded);
  }

  /** All that is left of the job is being written. */
  #completing(job: ManagedJob): void {
    for (const workflow of job.workflows) {
      if (isWorkflowEnded(workflow)) continue;
      if (workflow.phase === 'none' || workflow.phase === 'plan' || workflow.active > 0 || workflow.waiting.length > 0)
        return;
      if (workflow.phase === 'work' && workflow.facts.hasTeardown) return;
    }
    if (job.status !== 'DISPATCHING' && job.status !== 'RUNNING') return;
    job.status = 'COMPLETING';
    this.#office.commits.markJob(job);
  }

  #tell({ unit, attempt }: ActiveAssignment): void {
    // An attempt that went well is in the record of the job; what went wrong is worth an event.
    if (attempt.outcome === 'completed') return;
    const { workflow } = unit;
    this.#office.emit({
      ...{ kind: 'workflow.attempt', job: workflow.job.id, workflow: workflow.facts.name, unit: unit.number },
      ...{ attempt: attempt.attempt, worker: attempt.name, outcome: attempt.outcome },
    });
  }
}

/** Larger ones lie apart from the record of the unit. */
function apartOf(bytes: Uint8Array | undefined): number {
  return bytes === undefined || bytes.length <= inlineResultBytesMax ? 0 : bytes.length;
}

function isSame({ attempt }: ActiveAssignment, item: UnitReport): boolean {
  return attempt.attempt === item.attempt && attempt.fence === item.fence;
}

function isBroken({ workflow, phase }: ManagedUnit): boolean {
  return phase !== 'finish' && (workflow.errorCode !== undefined || workflow.foundUnit !== undefined);
}

function placeOf({ number, phase, workflow }: ManagedUnit): string {
  const isPart = phase === 'work' || phase === 'whole';
  return `${isPart ? `unit ${number}` : `the ${phase}`} of ${workflow.facts.name}`;
}

function nextOf({ workflow }: ManagedUnit, counted: number): string {
  return counted > workflow.facts.maxRetries ? 'is not tried again' : 'begins anew elsewhere';
}

function itemWord({ workflow }: ManagedUnit): string {
  return workflow.facts.load === undefined ? 'items' : 'iterations';
}
