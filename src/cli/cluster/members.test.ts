/** Notices about members that returned after their registration expired. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { returnNotices } from './members.ts';

test('a live node that was drained by a late return is listed with the command that activates it', () => {
  const late = { registration: 'drained', registrationReason: 'stale_restart' } as const;
  const rows = [
    { name: 'w1', state: 'alive', ...late },
    { name: 'w2', state: 'dead', ...late },
    { name: 'w3', state: 'left', ...late },
    { name: 'w4', state: 'alive', registration: 'drained', registrationReason: 'drain_complete' },
    { name: 'w5', state: 'alive', registration: 'active', registrationReason: 'stale_restart' },
  ] as const;
  const [notice, ...others] = returnNotices(rows);
  assert.match(
    notice ?? '',
    /^w1 returned after its registration expired and is drained: remuster node activate w1 \(with --rejoin auto/,
  );
  assert.deepEqual(others, []);
});
