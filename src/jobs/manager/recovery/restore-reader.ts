/**
 * Lists the requests that restore the job manager, one at a time: a claim of the manager key under the new fence, after
 * which no earlier leader can write, then all job records page by page. Performs none itself.
 */
import { type KeyRange, type RegistryEntry, type RegistryTransaction, onlyKey } from '../../../base/registry.ts';
import { jobKeys, jobRanges, lastKeySegment } from '../../job-keys.ts';
import {
  type JobRecord,
  type JobStateRecord,
  type UnitRecord,
  decodeUnitBlock,
  decodeManagerClock,
  decodeJobRecord,
  decodeJobState,
  joinRecordParts,
} from '../../records/job-record.ts';
import type { ManagedJob, ManagedUnit } from '../model/managed-job.ts';
import type { StoredJob } from './job-restore.ts';

export type RestoreRead =
  | { readonly kind: 'read'; readonly range: KeyRange; readonly limit: number }
  | { readonly kind: 'transact'; readonly transaction: RegistryTransaction };

const pageEntries = 500;

export class RestoreState {
  readonly #fence: Uint8Array;
  readonly #ranges: KeyRange[] = [
    onlyKey(jobKeys.clock),
    jobRanges.jobs,
    jobRanges.states,
    jobRanges.units,
    jobRanges.schedules,
    jobRanges.bundleMarkers,
  ];
  #claimed = false;
  #seenRevision: number | undefined;
  #from: string | undefined;
  readonly #jobs = new Map<string, JobRecord>();
  readonly #states = new Map<string, JobStateRecord>();
  readonly #blocks = new Map<string, { readonly workflow: number; readonly units: readonly UnitRecord[] }[]>();
  readonly schedules = new Map<string, Uint8Array>();
  readonly bundles = new Map<string, Uint8Array>();
  clockMs = 0;

  constructor(fence: Uint8Array) {
    this.#fence = fence;
  }

  /** Undefined when everything is read. */
  next(): RestoreRead | undefined {
    if (this.#seenRevision === undefined) return { kind: 'read', range: onlyKey(jobKeys.manager), limit: 1 };
    if (!this.#claimed) return { kind: 'transact', transaction: this.#claim(this.#seenRevision) };
    const range = this.#ranges[0];
    if (range === undefined) return undefined;
    return { kind: 'read', range: { from: this.#from ?? range.from, to: range.to }, limit: pageEntries };
  }

  claimed(): void {
    this.#claimed = true;
  }

  read(entries: readonly RegistryEntry[], more: boolean): void {
    if (this.#seenRevision === undefined) {
      this.#seenRevision = entries[0]?.modRevision ?? 0;
      return;
    }
    for (const entry of entries) this.#decode(entry);
    const last = entries.at(-1);
    if (more && last !== undefined) {
      this.#from = `${last.key}\0`;
      return;
    }
    this.#from = undefined;
    this.#ranges.shift();
  }

  /** In the order of submission. */
  *recorded(): Generator<StoredJob> {
    for (const [id, job] of this.#jobs)
      yield { id, job, state: this.#states.get(id), blocks: this.#blocks.get(id) ?? [] };
  }

  #claim(seenRevision: number): RegistryTransaction {
    return {
      compare: [{ key: jobKeys.manager, target: 'modRevision', is: 'equal', than: seenRevision }],
      then: [{ kind: 'put', key: jobKeys.manager, value: this.#fence }],
      otherwise: [],
    };
  }

  /** A record that this version cannot decode is skipped and stays stored, so that another version can use it. */
  #decode({ key, value }: RegistryEntry): void {
    const segment = lastKeySegment(key);
    if (key === jobKeys.clock) this.clockMs = decodeManagerClock(value) ?? 0;
    else if (key.startsWith(jobRanges.jobs.from)) setIfDefined(this.#jobs, segment, decodeJobRecord(value));
    else if (key.startsWith(jobRanges.states.from)) setIfDefined(this.#states, segment, decodeJobState(value));
    else if (key.startsWith(jobRanges.schedules.from)) this.schedules.set(segment, value);
    else if (key.startsWith(jobRanges.bundleMarkers.from)) this.bundles.set(segment, value);
    else this.#decodeBlock(key, value);
  }

  #decodeBlock(key: string, value: Uint8Array): void {
    const [id = '', workflow = ''] = key.slice(jobRanges.units.from.length).split('/');
    const units = decodeUnitBlock(value);
    if (units === undefined) return;
    const blocks = this.#blocks.get(id);
    const block = { workflow: Number(workflow), units };
    if (blocks === undefined) this.#blocks.set(id, [block]);
    else blocks.push(block);
  }
}

/** Lists the reads of outputs that are stored out of line, one unit after the other. */
export class RestoreOutputs {
  readonly #missing: ManagedUnit[];
  #parts: Uint8Array[] = [];
  #from: string | undefined;

  constructor(jobs: readonly ManagedJob[], missing: (job: ManagedJob) => readonly ManagedUnit[]) {
    this.#missing = jobs.flatMap(missing);
  }

  next(): RestoreRead | undefined {
    const [unit] = this.#missing;
    if (unit === undefined) return undefined;
    const range = jobRanges.resultOf(unit.workflow.job.id, unit.workflow.index, unit.number, 'o');
    return { kind: 'read', range: { from: this.#from ?? range.from, to: range.to }, limit: pageEntries };
  }

  read(entries: readonly RegistryEntry[], more: boolean): void {
    const last = entries.at(-1);
    for (const { value } of entries) this.#parts.push(value);
    if (more && last !== undefined) {
      this.#from = `${last.key}\0`;
      return;
    }
    const unit = this.#missing.shift();
    if (unit !== undefined) unit.output = joinRecordParts(this.#parts, unit.end?.outputBytes ?? 0);
    this.#parts = [];
    this.#from = undefined;
  }
}

function setIfDefined<T>(map: Map<string, T>, key: string, value: T | undefined): void {
  if (value !== undefined) map.set(key, value);
}
