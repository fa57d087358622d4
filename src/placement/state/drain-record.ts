/**
 * The record of a drain: deadline, parallelism, size at start, overdue. It is in the registry, so every next leader
 * continues the drain. The leader measures the deadline; a damaged record reads as the defaults.
 */
import { numberField, recordFieldsOf } from '../../registry/json-record.ts';

export type DrainRecord = {
  readonly deadlineMs: number;
  /** Moves at a time, at most. */
  readonly parallelMax: number;
  /** Replicas on the node when the drain started, owned containers included. */
  readonly total: number;
  readonly overdue: boolean;
};

export const drainDefaults: DrainRecord = { deadlineMs: 60_000, parallelMax: 4, total: 0, overdue: false };
export const drainLimits = { deadlineMsMin: 1_000, deadlineMsMax: 86_400_000, parallelMax: 64 } as const;

const version = 1;
const text = new TextEncoder();

export function encodeDrain(record: DrainRecord): Uint8Array {
  return text.encode(JSON.stringify({ v: version, ...record }));
}

/** An unreadable field gets its default: damage never stops a drain. */
export function readDrain(value: Uint8Array): DrainRecord {
  const fields = recordFieldsOf(value);
  const { deadlineMsMin, deadlineMsMax, parallelMax } = drainLimits;
  return {
    deadlineMs: numberField(fields?.['deadlineMs'], deadlineMsMin, deadlineMsMax) ?? drainDefaults.deadlineMs,
    parallelMax: Math.floor(numberField(fields?.['parallelMax'], 1, parallelMax) ?? drainDefaults.parallelMax),
    total: Math.floor(numberField(fields?.['total'], 0, Number.MAX_SAFE_INTEGER) ?? 0),
    overdue: fields?.['overdue'] === true,
  };
}
