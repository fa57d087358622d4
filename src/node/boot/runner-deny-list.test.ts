import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Address } from '../../base/ports.ts';
import { RunnerDenyList } from './runner-deny-list.ts';

test('the deny list is the same array until an address has changed', () => {
  let nowMs = 0;
  const members: Address[] = [{ host: '10.0.0.1', port: 7400 }];
  const denyList = new RunnerDenyList({ nowMs: () => nowMs, wallMs: () => 0, schedule: () => () => undefined });
  assert.deepEqual(denyList.addresses(), []);
  denyList.setSources(() => members, [{ host: '127.0.0.1', port: 8400 }]);
  const first = denyList.addresses();
  assert.deepEqual(first, [...members, { host: '127.0.0.1', port: 8400 }]);
  nowMs += 5_000;
  assert.equal(denyList.addresses(), first);
  members.push({ host: '10.0.0.2', port: 7400 });
  assert.equal(denyList.addresses(), first, 'the list is refreshed at most once per interval');
  nowMs += 5_000;
  assert.equal(denyList.addresses().length, 3);
});
