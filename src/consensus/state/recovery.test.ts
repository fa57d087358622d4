import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { idOf, voterOf } from '../../../test/support/consensus/consensus-cluster.ts';
import { type Outcome, isRemusterError } from '../../base/errors.ts';
import type { Store, StoreWrite } from '../../base/ports.ts';
import { snapshotChunkBytesMax } from '../../messages/consensus.ts';
import { StoreContent } from '../../simulation/engine/store-content.ts';
import { newLogEntry } from './log-entry.ts';
import { type RecoveredState, recoverGroup } from './recovery.ts';
import type { Snapshot } from './snapshot.ts';
import { ChunkedBytesBuilder } from './snapshot.ts';
import {
  logEntryWrites,
  snapshotHeadWrite,
  storageKeys,
  hardStateWrite,
  snapshotPartWrites,
} from './storage-format.ts';

const keys = storageKeys('g');
const members = [voterOf('n1')];
const builder = new ChunkedBytesBuilder(snapshotChunkBytesMax);
builder.add(new Uint8Array(1_200_000).fill(7));
const snapshot: Snapshot = { number: 3, index: 100, term: 2, members, state: builder.finish() };
const parts = snapshotPartWrites(keys, snapshot.number, snapshot.state.chunks);
const entries = Array.from({ length: 150 }, (_, i) =>
  newLogEntry(91 + i, i < 50 ? 2 : 3, 'command', Uint8Array.of(i), undefined),
);

function written(...writes: readonly StoreWrite[]): StoreContent {
  const content = new StoreContent();
  content.write(writes);
  return content;
}

function whole(): StoreContent {
  const head = snapshotHeadWrite(keys, snapshot, { index: 90, term: 2 });
  return written(hardStateWrite(keys, 3, idOf('n2')), head, ...parts, ...logEntryWrites(keys, entries));
}

function read(content: StoreContent): { readonly outcome: Outcome<RecoveredState>; readonly pages: number } {
  let pages = 0;
  let outcome: Outcome<RecoveredState> | undefined;
  const store: Pick<Store, 'read'> = {
    read: (range, done) => {
      pages += 1;
      assert.ok(range.limit <= 64);
      done(content.read(range));
    },
  };
  recoverGroup(store, 'g', (ended) => {
    outcome = ended;
  });
  assert.ok(outcome !== undefined);
  return { outcome, pages };
}

function restored(content: StoreContent): RecoveredState {
  const { outcome } = read(content);
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
  return outcome.value;
}

function assertCorrupt(content: StoreContent): void {
  const { outcome } = read(content);
  assert.ok(!outcome.ok && isRemusterError(outcome.error, 'STORE_CORRUPT'), JSON.stringify(outcome));
}

describe('the stored state of a group', () => {
  test('is read in pages and recovered completely', () => {
    const { outcome, pages } = read(whole());
    assert.ok(outcome.ok && pages >= 3);
    const { fresh, term, vote, base, obsoleteKeys, ...rest } = outcome.value;
    assert.deepEqual([fresh, term, vote, base, obsoleteKeys], [false, 3, idOf('n2'), { index: 90, term: 2 }, []]);
    assert.deepEqual(rest.snapshot, snapshot);
    assert.deepEqual(rest.entries, entries);
  });

  test('is fresh without records, also beside other groups', () => {
    assert.equal(restored(new StoreContent()).fresh, true);
    const others = written(
      hardStateWrite(storageKeys('g2'), 1, undefined),
      hardStateWrite(storageKeys('f'), 1, undefined),
    );
    assert.equal(restored(others).fresh, true);
  });

  test('may contain obsolete keys of an interrupted cleanup', () => {
    const content = whole();
    const old = keys.entry(90);
    const half = keys.part(4, 0);
    content.write([old, half].map((key) => ({ key, value: Uint8Array.of(1) })));
    assert.deepEqual(restored(content).obsoleteKeys.toSorted(), [old, half]);
  });

  test('is rejected with a gap or damage in the log', () => {
    for (const key of [keys.entry(91), keys.entry(150)]) {
      const content = whole();
      content.write([{ key, value: null }]);
      assertCorrupt(content);
    }
    const content = whole();
    content.write([{ key: keys.entry(100), value: Uint8Array.of(9, 9) }]);
    assertCorrupt(content);
    content.write(logEntryWrites(keys, [newLogEntry(100, 1, 'command', new Uint8Array(0), undefined)]));
    assertCorrupt(content);
  });

  test('is rejected with a missing, truncated or changed part', () => {
    const key = keys.part(3, 1);
    for (const value of [null, new Uint8Array(10).fill(7), new Uint8Array(524_288), new Uint8Array(900_000)]) {
      const content = whole();
      content.write([{ key, value }]);
      assertCorrupt(content);
    }
  });

  test('is rejected without a term, with a term below its log, or with a log that ends before its snapshot', () => {
    const content = whole();
    content.write([{ key: keys.meta, value: null }]);
    assertCorrupt(content);
    content.write([hardStateWrite(keys, 2, undefined)]);
    assertCorrupt(content);
    const short = whole();
    short.write(entries.slice(5).map(({ index }) => ({ key: keys.entry(index), value: null })));
    assertCorrupt(short);
    const garbled = whole();
    garbled.write([{ key: keys.head, value: Uint8Array.of(1, 2, 3) }]);
    assertCorrupt(garbled);
  });
});
