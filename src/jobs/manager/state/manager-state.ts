/**
 * State shared by the parts of the leading job manager during one step: stores, current time, pending effects, next
 * fence. Fences only grow.
 */
import { CompactingSet } from '../../../base/collections/compacting-map.ts';
import type { Fence } from '../../../base/fence.ts';
import type { Random } from '../../../base/random.ts';
import { fenceParts } from '../../../base/fence.ts';
import type { IncidentRecord } from '../../records/job-record.ts';
import { incidentsMax } from '../../records/job-record.ts';
import type { ManagerEffect } from './manager-io.ts';
import type { JobStore } from './job-store.ts';
import { truncateText } from '../submission/field-checks.ts';
import type { CommitBatcher } from './commit-batcher.ts';
import type { RunQueue } from './run-queue.ts';
import type { JobEvent, JobManagerOptions } from './manager-ports.ts';
import type { ManagedJob, ManagedWorkflow } from '../model/managed-job.ts';
import type { RequestCache } from '../submission/request-cache.ts';
import type { WorkerTable } from '../model/worker-table.ts';
import type { WorkerSelector } from './worker-selector.ts';

const eventsPerSecondMax = 500;

export class ManagerState {
  readonly options: JobManagerOptions;
  readonly jobs: JobStore;
  readonly workers: WorkerTable;
  readonly selector: WorkerSelector;
  readonly runQueue: RunQueue;
  readonly commits: CommitBatcher;
  readonly requests: RequestCache;
  readonly random: Random;
  readonly #wallMs: () => number;
  /** Effects of the current step. */
  effects: ManagerEffect[] = [];
  nowMs = 0;
  /** The manager clock is `nowMs` plus this offset. */
  clockOffsetMs = 0;
  term = 0;
  #fence = 0n;
  /** Jobs whose status may be recorded with a later commit. */
  readonly deferredStatus = new CompactingSet<ManagedJob>();
  #eventsSecond = 0;
  #events = 0;

  constructor(
    parts: Pick<
      ManagerState,
      'options' | 'jobs' | 'workers' | 'selector' | 'runQueue' | 'commits' | 'requests' | 'random'
    >,
    wallMs: () => number,
  ) {
    this.options = parts.options;
    this.jobs = parts.jobs;
    this.workers = parts.workers;
    this.selector = parts.selector;
    this.runQueue = parts.runQueue;
    this.commits = parts.commits;
    this.requests = parts.requests;
    this.random = parts.random;
    this.#wallMs = wallMs;
  }

  get wallMs(): number {
    return Math.max(0, Math.floor(this.#wallMs()));
  }

  /** The manager clock: time that all leaders count together, for deadlines that outlive a leader. */
  get managerClockMs(): number {
    return Math.max(0, Math.floor(this.nowMs + this.clockOffsetMs));
  }

  becomeLeader(fence: Fence): void {
    this.#fence = fence;
    const { term, index } = fenceParts(fence);
    // A registry without terms numbers its leaders by revisions.
    this.term = term > 0 ? term : index % 2 ** 32;
  }

  /** Above every earlier fence of this leader, and above `last`. */
  nextFence(last: bigint | undefined): bigint {
    this.#fence += 1n;
    return last !== undefined && last >= this.#fence ? last + 1n : this.#fence;
  }

  addIncident(job: ManagedJob, type: IncidentRecord['type'], node: string, effect: string): void {
    if (job.incidents.length < incidentsMax)
      job.incidents.push({ wallMs: this.wallMs, type, node, effect: truncateText(effect, 160) });
    job.hasUnpublishedChange = true;
  }

  /** Events are limited per second, to protect their consumers. */
  get canEmit(): boolean {
    return this.#events < eventsPerSecondMax || Math.floor(this.nowMs / 1_000) !== this.#eventsSecond;
  }

  emit(event: JobEvent): void {
    const second = Math.floor(this.nowMs / 1_000);
    if (second !== this.#eventsSecond) [this.#eventsSecond, this.#events] = [second, 0];
    this.#events += 1;
    if (this.#events <= eventsPerSecondMax) this.effects.push({ kind: 'emit', event });
  }

  /** The counts of the workflow may have changed. */
  markProgress(workflow: ManagedWorkflow): void {
    workflow.job.hasUnpublishedChange = true;
  }
}
