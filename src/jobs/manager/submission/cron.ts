/**
 * Parses five-field cron expressions in UTC (lists, ranges, steps, English names) and computes the next time. If both
 * kinds of day are restricted, either matches. Owns no clock. Compared with croner (decision 18): it loses the first of
 * March after a short February, misreads `5*` and `janfeb`, and its time zones are not needed in UTC.
 */
import { badArgument } from './field-checks.ts';

export type CronSpec = {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly days: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  readonly weekdays: ReadonlySet<number>;
  readonly eitherDay: boolean;
};

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const minuteMs = 60_000;
const dayMs = 86_400_000;
/** February 29 on a given weekday recurs within 40 years, also over a century without a leap year. */
const daysAheadMax = 15_000;

/** Throws BAD_ARGUMENT for an invalid expression, and for one that never matches. */
export function parseCron(text: string): CronSpec {
  const fields = text.trim().split(/\s+/);
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  if (fields.length !== 5) throw badArgument('cron has five fields: minute, hour, day, month, day of the week');
  const cron = {
    minutes: fieldOf(minute, 0, 59, []),
    hours: fieldOf(hour, 0, 23, []),
    days: fieldOf(day, 1, 31, []),
    months: fieldOf(month, 1, 12, monthNames),
    weekdays: new Set([...fieldOf(weekday, 0, 7, dayNames)].map((one) => one % 7)),
    eitherDay: !day.startsWith('*') && !weekday.startsWith('*'),
  };
  if (nextCronTime(cron, 0) === undefined) throw badArgument(`cron ${JSON.stringify(text)} never matches a date`);
  return cron;
}

/** The first matching time after `afterMs`, wall clock; undefined if there is none. */
export function nextCronTime(cron: CronSpec, afterMs: number): number | undefined {
  const first = (Math.floor(afterMs / minuteMs) + 1) * minuteMs;
  let dayStart = Math.floor(first / dayMs) * dayMs;
  for (let ahead = 0; ahead < daysAheadMax; ahead++, dayStart += dayMs) {
    if (!isDay(cron, dayStart)) continue;
    for (let at = Math.max(first, dayStart); at < dayStart + dayMs; at += minuteMs) {
      const minuteOfDay = (at - dayStart) / minuteMs;
      if (cron.hours.has(Math.floor(minuteOfDay / 60)) && cron.minutes.has(minuteOfDay % 60)) return at;
    }
  }
  return undefined;
}

function isDay(cron: CronSpec, dayStartMs: number): boolean {
  const date = new Date(dayStartMs);
  if (!cron.months.has(date.getUTCMonth() + 1)) return false;
  const isDate = cron.days.has(date.getUTCDate());
  const isWeekday = cron.weekdays.has(date.getUTCDay());
  return cron.eitherDay ? isDate || isWeekday : isDate && isWeekday;
}

function fieldOf(text: string, min: number, max: number, names: readonly string[]): ReadonlySet<number> {
  const out = new Set<number>();
  for (const part of text.split(',')) {
    const [span = '', step = '1', ...more] = part.split('/');
    if (more.length > 0 || !/^\d{1,2}$/.test(step) || Number(step) === 0) throw badArgument(`cron cannot read ${part}`);
    const [from = '', to, ...rest] = span.split('-');
    if (rest.length > 0) throw badArgument(`cron cannot read ${part}`);
    const first = span === '*' ? min : valueOf(from, min, max, names);
    const single = part.includes('/') ? max : first;
    const last = span === '*' ? max : to === undefined ? single : valueOf(to, min, max, names);
    if (last < first) throw badArgument(`cron cannot read ${part}: it ends before it begins`);
    for (let value = first; value <= last; value += Number(step)) out.add(value);
  }
  return out;
}

function valueOf(text: string, min: number, max: number, names: readonly string[]): number {
  const named = names.indexOf(text.toLowerCase());
  const value = named >= 0 ? named + (min === 1 ? 1 : 0) : /^\d{1,2}$/.test(text) ? Number(text) : -1;
  if (value < min || value > max)
    throw badArgument(`cron cannot read ${JSON.stringify(text)}: ${min} to ${max} are allowed`);
  return value;
}
