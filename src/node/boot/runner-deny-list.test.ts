import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Address } from '../../base/ports.ts';
import { RunnerDenyList } from './runner-deny-list.ts';

test('the list is the same one until something has changed', () => {
  let nowMs = 0;
  const members: Address[] = [{ host: '10.0.0.1', port: 7400 }];
  const doors = new RunnerDenyList({ nowMs: () => nowMs, wallMs: () => 0, schedule: () => () => undefined });
  assert.deepEqual(doors.addresses(), []);
  doors.setSources(() => members, [{ host: '127.0.0.1', port: 8400 }]);
  const first = doors.addresses();
  assert.deepEqual(first, [...members, { host: '127.0.0.1', port: 8400 }]);
  nowMs += 5_000;
  assert.equal(doors.addresses(), first);
  members.push({ host: '10.0.0.2', port: 7400 });
  assert.equal(doors.addresses(), first, 'it does not look all the time');
  nowMs += 5_000;
  assert.equal(doors.addresses().length, 3);
});
