/**
 * The stored form of a schedule: what to submit, when, and the last firing. Decodes an unreadable value to undefined.
 */
export type ScheduleRecord = {
  readonly name: string;
  readonly submitter: string;
  readonly cron: string;
  /** The request to submit: JSON. */
  readonly requestJson: string;
  /** Last firing, wall clock; before the first firing the creation of the schedule. */
  readonly firedWallMs: number;
  readonly lastJob: string | undefined;
};

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

/** The stored field of `requestJson` is `words`. */
export function encodeSchedule({
  name,
  submitter,
  cron,
  requestJson,
  firedWallMs,
  lastJob,
}: ScheduleRecord): Uint8Array {
  return encoder.encode(JSON.stringify({ name, submitter, cron, words: requestJson, firedWallMs, lastJob }));
}

export function decodeSchedule(value: Uint8Array): ScheduleRecord | undefined {
  try {
    const read = JSON.parse(decoder.decode(value)) as (Partial<ScheduleRecord> & { readonly words?: string }) | null;
    const { name, submitter, cron, words: requestJson, firedWallMs, lastJob } = read ?? {};
    const areTexts = [name, submitter, cron, requestJson].every((text) => typeof text === 'string');
    if (!areTexts || typeof firedWallMs !== 'number') return undefined;
    return { name, submitter, cron, requestJson, firedWallMs, lastJob } as ScheduleRecord;
  } catch {
    return undefined;
  }
}
