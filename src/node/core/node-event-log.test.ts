import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { NodeEventLog } from './node-event-log.ts';

const clock = { nowMs: () => 0, wallMs: () => 0, schedule: () => () => {} };

function logOf(generation = 1): NodeEventLog {
  return new NodeEventLog({ clock, node: 'a', generation, eventsMax: 3, readersMax: 1 });
}

function numbers(events: readonly { seq: number }[]): number[] {
  return events.map((event) => event.seq);
}

test('the event log keeps the latest events and numbers them without gaps', () => {
  const log = logOf();
  for (const type of ['one', 'two', 'three', 'four', 'five']) log.append(type);
  assert.deepEqual(numbers(log.since(0)), [3, 4, 5]);
  assert.deepEqual(numbers(log.since(4)), [5]);
  assert.deepEqual(numbers(log.since(0, 2)), [3, 4]);
  assert.deepEqual(log.since(5), []);
  assert.deepEqual(log.since(4), [{ seq: 5, time: '1970-01-01T00:00:00.000Z', node: 'a', type: 'five' }]);
});

test('a reader that resumes after a restart misses nothing', () => {
  const before = logOf(1);
  before.append('one');
  const after = logOf(2);
  after.append('two');
  assert.deepEqual(
    after.since(before.lastSeq).map((event) => event.type),
    ['two'],
  );
});

test('readers of events follow until they stop, and their number is bounded', () => {
  const log = logOf();
  const seen: string[] = [];
  const stop = log.follow((event) => seen.push(event.type));
  assert.throws(
    () => log.follow(() => {}),
    (error) => isRemusterError(error, 'CAPACITY'),
  );
  log.append('one');
  stop();
  log.append('two');
  assert.deepEqual(seen, ['one']);
  log.follow(() => {})();
});
