/**
 * The load that a node reports, under the lease of its registration. In the registry and not in gossip, because a new
 * leader needs all reports at once. Only a significant change is written: a quiet cluster writes none.
 */
import { numberField, recordFieldsOf } from '../../registry/json-record.ts';

export type LoadReport = {
  /** Used share of the machine, 0 to 1. */
  readonly cpu: number;
  readonly memory: number;
  /** Throughput: calls per second. */
  readonly perSecond: number;
  /** Relative to other nodes: a node of capacity 2 carries twice as much as one of capacity 1. */
  readonly capacity: number;
};

const version = 1;
const shareStep = 0.05;
const rateStep = 0.2;
const rateFloor = 10;
const text = new TextEncoder();

export function encodeLoadReport(report: LoadReport): Uint8Array {
  return text.encode(JSON.stringify({ v: version, ...report }));
}

/** Undefined when it is malformed: the node then counts as one without a report. */
export function readLoadReport(value: Uint8Array): LoadReport | undefined {
  const fields = recordFieldsOf(value);
  if (fields === undefined) return undefined;
  const cpu = numberField(fields['cpu'], 0, 1);
  const memory = numberField(fields['memory'], 0, 1);
  const perSecond = numberField(fields['perSecond'], 0, Number.MAX_SAFE_INTEGER);
  const capacity = numberField(fields['capacity'], 0.001, 1_000_000);
  if (cpu === undefined || memory === undefined) return undefined;
  if (perSecond === undefined || capacity === undefined) return undefined;
  return { cpu, memory, perSecond, capacity };
}

/** True for a change that can alter a placement decision. */
export function isSignificantChange(a: LoadReport, b: LoadReport): boolean {
  if (a.capacity !== b.capacity) return true;
  if (Math.abs(a.cpu - b.cpu) >= shareStep || Math.abs(a.memory - b.memory) >= shareStep) return true;
  return Math.abs(a.perSecond - b.perSecond) >= Math.max(rateFloor, rateStep * Math.max(a.perSecond, b.perSecond));
}
