import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../../base/errors.ts';
import { nextCronTime, parseCron } from './cron.ts';

function next(text: string, after: string): string {
  const at = nextCronTime(parseCron(text), Date.parse(after));
  assert.ok(at !== undefined);
  return new Date(at).toISOString().slice(0, 16);
}

test('the next time that fits', () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ['* * * * *', '2026-01-01T00:00:00Z', '2026-01-01T00:01'],
    ['* * * * *', '2026-01-01T00:00:59.999Z', '2026-01-01T00:01'],
    ['*/15 * * * *', '2026-01-01T00:50:00Z', '2026-01-01T01:00'],
    ['5-50/15 * * * *', '2026-01-01T00:21:00Z', '2026-01-01T00:35'],
    ['0 3 * * *', '2026-01-01T03:00:00Z', '2026-01-02T03:00'],
    ['30 4 1,15 * *', '2026-01-01T05:00:00Z', '2026-01-15T04:30'],
    ['0 0 * * mon-fri', '2026-01-02T12:00:00Z', '2026-01-05T00:00'],
    ['0 0 * * 7', '2026-01-01T00:00:00Z', '2026-01-04T00:00'],
    ['0 0 * * Sun', '2026-01-01T00:00:00Z', '2026-01-04T00:00'],
    ['0 0 1 jan *', '2026-01-01T00:00:00Z', '2027-01-01T00:00'],
    ['0 0 29 2 *', '2026-01-01T00:00:00Z', '2028-02-29T00:00'],
    // Both kinds of day: either will do.
    ['0 0 13 * fri', '2026-01-01T00:00:00Z', '2026-01-02T00:00'],
    ['0 0 13 * fri', '2026-01-09T00:00:00Z', '2026-01-13T00:00'],
    ['59 23 31 dec *', '2026-12-31T23:58:00Z', '2026-12-31T23:59'],
    ['10/20 * * * *', '2026-01-01T00:31:00Z', '2026-01-01T00:50'],
  ];
  for (const [text, after, wanted] of cases) assert.equal(next(text, after), wanted, `${text} after ${after}`);
});

test('what is none, or never comes', () => {
  const none = ['', '* * * *', '* * * * * *', '60 * * * *', '* 24 * * *', '* * 0 * *', '* * * 13 *', '* * * * 8'];
  for (const text of [
    ...none,
    '*/0 * * * *',
    '5-1 * * * *',
    'a * * * *',
    '1-2-3 * * * *',
    '1/2/3 * * * *',
    '0 0 31 feb *',
  ])
    assert.throws(
      () => parseCron(text),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
      text,
    );
});
