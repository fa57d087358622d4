import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../../base/errors.ts';
import { nextCronTime, parseCron } from './cron.ts';

function next(text: string, after: string): string {
  const at = nextCronTime(parseCron(text), Date.parse(after));
  assert.ok(at !== undefined);
  return new Date(at).toISOString().slice(0, 16);
}

test('the next time of a cron expression is the first match after a time', () => {
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
    // Both kinds of day are restricted: either matches.
    ['0 0 13 * fri', '2026-01-01T00:00:00Z', '2026-01-02T00:00'],
    ['0 0 13 * fri', '2026-01-09T00:00:00Z', '2026-01-13T00:00'],
    // February has no day 31 that could be this Wednesday.
    ['0 0 1 * wed', '2027-02-26T12:00:00Z', '2027-03-01T00:00'],
    ['0 0 1 * mon', '2026-02-27T12:00:00Z', '2026-03-01T00:00'],
    ['0 3 31 * mon', '2027-04-28T12:00:00Z', '2027-05-03T03:00'],
    // With a field that starts with a star both must match, as in crontab(5).
    ['0 0 */2 * fri', '2026-01-01T00:00:00Z', '2026-01-09T00:00'],
    ['0 0 13 * */2', '2026-01-01T00:00:00Z', '2026-01-13T00:00'],
    ['59 23 31 dec *', '2026-12-31T23:58:00Z', '2026-12-31T23:59'],
    ['10/20 * * * *', '2026-01-01T00:31:00Z', '2026-01-01T00:50'],
  ];
  for (const [text, after, expected] of cases) assert.equal(next(text, after), expected, `${text} after ${after}`);
});

test('an invalid expression, and one that never matches, is BAD_ARGUMENT', () => {
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

test('the error of an invalid expression names the wrong part and the allowed range', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['* * * *', /five fields/],
    ['@daily', /five fields/],
    ['2026-01-01T00:00:00', /five fields/],
    ['5* * * * *', /"5\*": 0 to 59/],
    ['* 24 * * *', /"24": 0 to 23/],
    ['0 0 0 * *', /"0": 1 to 31/],
    ['0 0 L * *', /"L": 1 to 31/],
    ['0 0 * janfeb *', /"janfeb": 1 to 12/],
    ['0 0 * * fri#2', /"fri#2": 0 to 7/],
    ['0 0 * * 0-sun/0', /cannot read 0-sun\/0/],
    ['0 0 * * fri-mon', /fri-mon: it ends before it begins/],
    ['0 0 31 apr,jun *', /"0 0 31 apr,jun \*" never matches/],
  ];
  for (const [text, message] of cases)
    assert.throws(
      () => parseCron(text),
      (error) => isRemusterError(error, 'BAD_ARGUMENT') && message.test(error.message),
      text,
    );
});

/** Each next time is computed from the one before, in a process whose clocks change by an hour on that day. */
test('cron times are in UTC: a change of the local clock skips no time and repeats none', (context) => {
  const zone = process.env['TZ'];
  context.after(() => {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  });
  const gap = '2026-03-08T07:00:00Z';
  const overlap = '2026-11-01T06:00:00Z';
  const cases: readonly (readonly [string, string, readonly string[]])[] = [
    ['*/30 * * * *', gap, ['2026-03-08T07:30', '2026-03-08T08:00', '2026-03-08T08:30']],
    ['30 2 * * *', gap, ['2026-03-09T02:30', '2026-03-10T02:30']],
    ['0 0 8-9 3 *', '2026-03-07T12:00:00Z', ['2026-03-08T00:00', '2026-03-09T00:00', '2027-03-08T00:00']],
    ['*/30 * * * *', overlap, ['2026-11-01T06:30', '2026-11-01T07:00', '2026-11-01T07:30']],
    ['30 1 * * *', overlap, ['2026-11-02T01:30', '2026-11-03T01:30']],
    ['0 0 1 nov *', '2026-10-31T12:00:00Z', ['2026-11-01T00:00', '2027-11-01T00:00']],
    ['0 0 * * sun', '2026-10-31T12:00:00Z', ['2026-11-01T00:00', '2026-11-08T00:00']],
  ];
  for (const local of ['UTC', 'America/New_York', 'Europe/Berlin', 'Pacific/Auckland']) {
    process.env['TZ'] = local;
    for (const [text, from, expected] of cases) {
      let after = from;
      for (const time of expected) {
        assert.equal(next(text, after), time, `${text} after ${after} in ${local}`);
        after = `${time}:00Z`;
      }
    }
  }
});
