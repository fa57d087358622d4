import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Address } from '../base/ports.ts';
import { Doors } from './doors.ts';

test('the list is the same one until something has changed', () => {
  let nowMs = 0;
  const members: Address[] = [{ host: '10.0.0.1', port: 7400 }];
  const doors = new Doors({ nowMs: () => nowMs, wallMs: () => 0, schedule: () => () => undefined });
  assert.deepEqual(doors.list(), []);
  doors.watch(() => members, [{ host: '127.0.0.1', port: 8400 }]);
  const first = doors.list();
  assert.deepEqual(first, [...members, { host: '127.0.0.1', port: 8400 }]);
  nowMs += 5_000;
  assert.equal(doors.list(), first);
  members.push({ host: '10.0.0.2', port: 7400 });
  assert.equal(doors.list(), first, 'it does not look all the time');
  nowMs += 5_000;
  assert.equal(doors.list().length, 3);
});
