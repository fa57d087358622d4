/**
 * Owns the stored form of a schedule: what to submit, when, and the last firing. Decodes unreadable values to
 * undefined.
 */
export type ScheduleRecord = {
  readonly name: string;
  readonly submitter: string;
  readonly cron: string;
  /** JSON of the request that made it. */
  readonly words: string;
  /** The latest firing that was decided, by the wall clock; before the first one when it was made. */
  readonly firedWallMs: number;
  readonly lastJob: string | undefined;
};

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodeSchedule(record: ScheduleRecord): Uint8Array {
  return encoder.encode(JSON.stringify(record));
}

export function decodeSchedule(value: Uint8Array): ScheduleRecord | undefined {
  try {
    const read = JSON.parse(decoder.decode(value)) as Partial<ScheduleRecord> | null;
    const { name, submitter, cron, words, firedWallMs, lastJob } = read ?? {};
    const areTexts = [name, submitter, cron, words].every((text) => typeof text === 'string');
    if (!areTexts || typeof firedWallMs !== 'number') return undefined;
    return { name, submitter, cron, words, firedWallMs, lastJob } as ScheduleRecord;
  } catch {
    return undefined;
  }
}
