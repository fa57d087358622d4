/** What is kept over a restart, and what becomes of damaged entries. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { failure, success } from '../../base/errors.ts';
import type { Store, StoreEntry, StoreWrite } from '../../base/ports.ts';
import { type MembershipHints, knownMembersMax, readHints, incarnationWrite, knownMembersWrite } from './hints.ts';

function recalled(writes: readonly StoreWrite[] | 'broken'): MembershipHints & { readonly failed: boolean } {
  const read: Store['read'] = (_range, done) =>
    done(writes === 'broken' ? failure('STORE_FAILED') : success(writes as readonly StoreEntry[]));
  let found: (MembershipHints & { readonly failed: boolean }) | undefined;
  readHints({ read } as Store, (memory, failed) => (found = { ...memory, failed }));
  return found ?? assert.fail('it always ends');
}

const text = (key: string, value: string): StoreWrite => ({ key, value: new TextEncoder().encode(value) });

it('reads back what was written', () => {
  const known = [{ host: '10.0.0.1', port: 7_400 }];
  const memory = recalled([incarnationWrite(7), knownMembersWrite(known)]);
  assert.deepEqual(memory, { incarnation: 7, known, failed: false });
});

it('keeps a bounded number of members', () => {
  const many = Array.from({ length: 1_000 }, (_, n) => ({ host: 'h', port: n + 1 }));
  assert.equal(recalled([knownMembersWrite(many)]).known.length, knownMembersMax);
});

it('passes over what is damaged, and a store that fails has forgotten everything', () => {
  assert.deepEqual(recalled('broken'), { incarnation: 0, known: [], failed: true });
  for (const damaged of ['-1', 'x', '', '99999999999']) {
    assert.equal(recalled([text('membership/incarnation', damaged)]).incarnation, 0, damaged);
  }
  for (const damaged of ['', '{', '7', '[7, null, {"host": 1}, {"host": "h", "port": 0}]']) {
    assert.deepEqual(recalled([text('membership/known', damaged)]).known, [], damaged);
  }
});
