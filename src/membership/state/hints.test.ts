/** What membership keeps over a restart, and how it reads damaged rows. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { failure, success } from '../../base/errors.ts';
import type { Store, StoreEntry, StoreWrite } from '../../base/ports.ts';
import { type MembershipHints, knownMembersMax, readHints, incarnationWrite, knownMembersWrite } from './hints.ts';

function readBack(writes: readonly StoreWrite[] | 'broken'): MembershipHints & { readonly failed: boolean } {
  const read: Store['read'] = (_range, done) =>
    done(writes === 'broken' ? failure('STORE_FAILED') : success(writes as readonly StoreEntry[]));
  let found: (MembershipHints & { readonly failed: boolean }) | undefined;
  readHints({ read } as Store, (hints, failed) => (found = { ...hints, failed }));
  return found ?? assert.fail('readHints did not call back');
}

const text = (key: string, value: string): StoreWrite => ({ key, value: new TextEncoder().encode(value) });

describe('membership hints', () => {
  it('are read back as they were written', () => {
    const known = [{ host: '10.0.0.1', port: 7_400 }];
    const hints = readBack([incarnationWrite(7), knownMembersWrite(known)]);
    assert.deepEqual(hints, { incarnation: 7, known, failed: false });
  });

  it('hold a bounded number of members', () => {
    const many = Array.from({ length: 1_000 }, (_, n) => ({ host: 'h', port: n + 1 }));
    assert.equal(readBack([knownMembersWrite(many)]).known.length, knownMembersMax);
  });

  it('are empty where a row is damaged or the store fails', () => {
    assert.deepEqual(readBack('broken'), { incarnation: 0, known: [], failed: true });
    for (const damaged of ['-1', 'x', '', '99999999999']) {
      assert.equal(readBack([text('membership/incarnation', damaged)]).incarnation, 0, damaged);
    }
    for (const damaged of ['', '{', '7', '[7, null, {"host": 1}, {"host": "h", "port": 0}]']) {
      assert.deepEqual(readBack([text('membership/known', damaged)]).known, [], damaged);
    }
  });
});
