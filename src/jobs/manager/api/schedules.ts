/**
 * Owns the cron schedules. A firing and its job commit together, so a time fires at most once. Missed times fire once,
 * late; a firing is skipped while the last job is open.
 */
import { type Done, RemusterError, failure, success } from '../../../base/errors.ts';
import { type JobRequest, isTerminalStatus } from '../../job-types.ts';
import { jobKeys } from '../../job-keys.ts';
import { jobLimits } from '../../limits.ts';
import { type ScheduleRecord, encodeSchedule, decodeSchedule } from '../../records/schedule-record.ts';
import { type CronSpec, nextCronTime, parseCron } from '../submission/cron.ts';
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';

type Schedule = {
  readonly hash: string;
  record: ScheduleRecord;
  readonly cron: CronSpec;
  nextWallMs: number;
  isStored: boolean;
};

export type SchedulePorts = {
  readonly hashOf: (submitter: string, name: string) => string;
  /** Creates the job; undefined if the job store is full. */
  readonly submit: (requestJson: string, submitter: string) => ManagedJob | undefined;
};

export class Schedules {
  readonly #state: ManagerState;
  readonly #ports: SchedulePorts;
  readonly #schedules = new Map<string, Schedule>();

  constructor(state: ManagerState, ports: SchedulePorts) {
    this.#state = state;
    this.#ports = ports;
  }

  restore(values: ReadonlyMap<string, Uint8Array>): void {
    for (const [hash, value] of values) {
      const record = decodeSchedule(value);
      const cron = record === undefined ? undefined : cronOf(record.cron);
      if (record === undefined || cron === undefined) continue;
      const nextWallMs = nextCronTime(cron, record.firedWallMs) ?? Infinity;
      this.#schedules.set(hash, { hash, record, cron, nextWallMs, isStored: true });
    }
  }

  clear(): void {
    this.#schedules.clear();
  }

  get isEmpty(): boolean {
    return this.#schedules.size === 0;
  }

  /** The requests of all schedules, whose bundles are still needed. */
  *requests(): Generator<string> {
    for (const { record } of this.#schedules.values()) yield record.requestJson;
  }

  /** The same name with the same content is the same schedule. */
  add(request: JobRequest, requestJson: string, submitter: string, reply: Done<string>): void {
    const name = request.idempotencyKey as string;
    const hash = this.#ports.hashOf(submitter, name);
    const known = this.#schedules.get(hash);
    if (known !== undefined && known.record.requestJson !== requestJson)
      return reply(
        failure(
          'PRECONDITION',
          `a schedule ${JSON.stringify(name)} with other content exists: delete it first or use another key`,
          'no',
        ),
      );
    if (known === undefined && this.#schedules.size >= jobLimits.schedulesMax)
      throw new RemusterError('CAPACITY', `there are ${jobLimits.schedulesMax} schedules: delete one first`);
    const cron = parseCron(request.cron as string);
    const firedWallMs = this.#state.wallMs;
    const record = { name, submitter, cron: request.cron as string, requestJson, firedWallMs, lastJob: undefined };
    const nextWallMs = nextCronTime(cron, firedWallMs) ?? Infinity;
    const schedule = known ?? { hash, record, cron, nextWallMs, isStored: false };
    this.#schedules.set(hash, schedule);
    this.#store(schedule, () => {
      reply(success(JSON.stringify({ jobId: `schedule:${name}`, status: 'SUBMITTED', isNew: known === undefined })));
    });
  }

  remove(name: string, submitter: string, reply: Done<string>): void {
    const hash = this.#ports.hashOf(submitter, name);
    if (!this.#schedules.delete(hash)) return reply(failure('UNKNOWN_JOB', noScheduleText(name, submitter)));
    this.#state.commits.remove(jobKeys.schedule(hash), () => reply(success(JSON.stringify({ name }))));
  }

  list(): readonly unknown[] {
    const stored = [...this.#schedules.values()].filter(({ isStored }) => isStored);
    return stored.map(({ record, nextWallMs }) => ({
      name: record.name,
      submitter: record.submitter,
      cron: record.cron,
      nextAtMs: Number.isFinite(nextWallMs) ? nextWallMs : null,
      lastJobId: record.lastJob ?? null,
    }));
  }

  tick(): void {
    const { wallMs } = this.#state;
    for (const schedule of this.#schedules.values())
      if (schedule.isStored && schedule.nextWallMs <= wallMs) this.#fire(schedule, wallMs);
  }

  #fire(schedule: Schedule, wallMs: number): void {
    const { record, cron } = schedule;
    const before = record.lastJob === undefined ? undefined : this.#state.jobs.get(record.lastJob);
    const isFree = before === undefined || isTerminalStatus(before.status);
    const job = isFree ? this.#ports.submit(record.requestJson, record.submitter) : undefined;
    schedule.record = { ...record, firedWallMs: wallMs, lastJob: job?.id ?? record.lastJob };
    schedule.nextWallMs = nextCronTime(cron, wallMs) ?? Infinity;
    this.#store(schedule, () => {});
  }

  #store(schedule: Schedule, stored: () => void): void {
    this.#state.commits.put(jobKeys.schedule(schedule.hash), encodeSchedule(schedule.record), () => {
      schedule.isStored = true;
      stored();
    });
  }
}

/** A schedule that this version cannot parse stays stored, so that another version can use it. */
function cronOf(text: string): CronSpec | undefined {
  try {
    return parseCron(text);
  } catch {
    return undefined;
  }
}

function noScheduleText(name: string, submitter: string): string {
  const what = `there is no schedule ${JSON.stringify(name)} of submitter ${JSON.stringify(submitter)}`;
  return `${what}: \`remuster schedule list\` lists all schedules`;
}
