import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import { nodeIdOf } from '../../../test/fakes/fake-consensus-group.ts';
import { type LeaseId, type RegistryTransaction, withPrefix } from '../../base/registry.ts';
import { encodeMessage } from '../../messages/catalogue.ts';
import { registryCommandCodec } from '../../messages/registry-log.ts';
import { concatBytes } from './registry-snapshot.ts';
import { RegistryReplica } from './registry-replica.ts';
import { type RegistryWriteResult, transactionToWire } from '../registry-messages.ts';

const everything = withPrefix('');

type Numbered = {
  readonly client?: number;
  readonly generation?: number;
  readonly counter: number;
  readonly lowestPending?: number;
};

function numbers({ client = 1, generation = 1, counter, lowestPending = counter }: Numbered) {
  return { client: nodeIdOf(client), generation, counter, lowestPending };
}

function writing(key: string, numbered: Numbered, lease?: LeaseId): Uint8Array {
  const transaction: RegistryTransaction = {
    compare: [],
    then: [{ kind: 'put', key, value: new Uint8Array([numbered.counter]), ...(lease && { lease }) }],
    otherwise: [],
  };
  return encodeMessage({ kind: 'registryTransact', ...transactionToWire(transaction), ...numbers(numbered) });
}

/** Applies one command after the other, as the log does. */
class Log {
  replica: RegistryReplica;
  #index = 0;

  constructor(limits?: ConstructorParameters<typeof RegistryReplica>[0]) {
    this.replica = new RegistryReplica(limits);
  }

  apply(command: Uint8Array): RegistryWriteResult {
    this.#index += 1;
    return this.replica.apply({ index: this.#index, term: 1, command });
  }
}

function restoredFrom(bytes: Uint8Array, limits?: ConstructorParameters<typeof RegistryReplica>[0]): RegistryReplica {
  const replica = new RegistryReplica(limits);
  const intake = replica.beginRestore();
  intake.add(bytes);
  intake.finish();
  return replica;
}

function format(result: RegistryWriteResult): string {
  if (result.kind === 'registryError') return result.code;
  return result.kind === 'registryTransactReply' ? `revision ${result.revision}` : result.kind;
}

describe('a registry replica', () => {
  test('refuses malformed commands, and changes nothing', () => {
    const log = new Log();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        assert.equal(log.apply(bytes).kind, 'registryError');
      }),
    );
    const good = writing('a', { counter: 1 });
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.nat(255), (at, byte) => {
        const bad = Uint8Array.from(good);
        bad[at] = byte;
        new Log().apply(bad);
      }),
    );
    assert.equal(format(log.apply(encodeMessage({ kind: 'registryRevokeReply' }))), 'MALFORMED');
    assert.equal(log.replica.keyspace.revision, 0);
  });

  test('executes each numbered write once', () => {
    const log = new Log();
    assert.equal(format(log.apply(writing('a', { counter: 1 }))), 'revision 1');
    assert.equal(format(log.apply(writing('b', { counter: 2, lowestPending: 1 }))), 'revision 2');
    assert.equal(format(log.apply(writing('a', { counter: 1 }))), 'revision 1');
    assert.equal(format(log.apply(writing('c', { counter: 4, lowestPending: 3 }))), 'revision 3');
    assert.equal(format(log.apply(writing('a', { counter: 1 }))), 'REPLAYED');
    assert.equal(format(log.apply(writing('d', { counter: 3, lowestPending: 3 }))), 'revision 4');
    assert.equal(format(log.apply(writing('e', { counter: 5, lowestPending: 6 }))), 'BAD_ARGUMENT');
    assert.equal(format(log.apply(writing('a', { counter: 1, client: 2 }))), 'revision 5');
    assert.equal(format(log.apply(writing('a', { counter: 1, generation: 2 }))), 'revision 6');
    assert.equal(format(log.apply(writing('f', { counter: 9, lowestPending: 3 }))), 'FENCED');
    assert.equal(log.replica.keyspace.revision, 6);
  });

  test('keeps refusals too: a resent write gets the first result even if it would succeed now', () => {
    const log = new Log();
    const held = writing('a', { counter: 1 }, '1' as LeaseId);
    assert.equal(format(log.apply(held)), 'LEASE_EXPIRED');
    const grant = encodeMessage({ kind: 'registryGrant', ttlMs: 1_000, ...numbers({ counter: 2, lowestPending: 1 }) });
    assert.deepEqual(log.apply(grant), { kind: 'registryLeaseReply', lease: '1', ttlMs: 1_000 });
    assert.deepEqual(log.apply(grant), { kind: 'registryLeaseReply', lease: '1', ttlMs: 1_000 });
    assert.equal(format(log.apply(held)), 'LEASE_EXPIRED');
    assert.equal(log.replica.keyspace.leaseCount, 1);
    assert.equal(
      format(log.apply(registryCommandCodec.encode({ kind: 'registryExpireLease', lease: '1' as LeaseId }))),
      'registryRevokeReply',
    );
    assert.equal(log.replica.keyspace.leaseCount, 0);
  });

  test('drops old results and silent clients beyond its limits, but executes no known request twice', () => {
    const log = new Log({ dedup: { clientsMax: 2, resultBytesMax: 3 * 64, spanMax: 5 } });
    for (let counter = 1; counter <= 5; counter++)
      assert.equal(format(log.apply(writing('a', { counter, lowestPending: 1 }))), `revision ${counter}`);
    assert.equal(format(log.apply(writing('a', { counter: 6, lowestPending: 1 }))), 'CAPACITY');
    assert.equal(format(log.apply(writing('a', { counter: 1 }))), 'DEADLINE', 'executed, and the result was dropped');
    assert.equal(format(log.apply(writing('a', { counter: 3, lowestPending: 1 }))), 'revision 3');
    log.apply(writing('a', { counter: 1, client: 2 }));
    log.apply(writing('a', { counter: 6, lowestPending: 6 }));
    log.apply(writing('a', { counter: 1, client: 3 }));
    assert.equal(log.replica.keyspace.revision, 8);
    assert.equal(format(log.apply(writing('a', { counter: 6 }))), 'revision 7', 'client 2 was silent for longer');
  });

  const anyNumbers = fc.record({
    client: fc.constantFrom(1, 2, 3, 4),
    generation: fc.constantFrom(1, 1, 1, 2),
    counter: fc.integer({ min: 1, max: 8 }),
  });
  const anyCommand = fc.oneof(
    fc
      .tuple(fc.constantFrom('a', 'b', 'c'), anyNumbers, fc.nat(3), fc.constantFrom(undefined, '1', '2'))
      .map(([key, { client, generation, counter }, back, lease]) =>
        writing(
          key,
          { client, generation, counter, lowestPending: Math.max(1, counter - back) },
          lease as LeaseId | undefined,
        ),
      ),
    anyNumbers.map((one) => encodeMessage({ kind: 'registryGrant', ttlMs: 1_000, ...numbers(one) })),
    fc
      .constantFrom('1', '2')
      .map((lease) => registryCommandCodec.encode({ kind: 'registryExpireLease', lease: lease as LeaseId })),
    fc.tuple(fc.boolean(), fc.constantFrom(0, 0, 9, 9, 18)).map(([last, offset]) =>
      registryCommandCodec.encode({
        kind: 'registryRestorePart',
        id: 'x',
        offset,
        bytes: new Uint8Array(9),
        last,
        cluster: 'c',
      }),
    ),
  );

  test('is equal to the byte after a restore from a snapshot at any entry', () => {
    const limits = {
      keyspace: { historyChangesMax: 5 },
      dedup: { clientsMax: 3, resultBytesMax: 5 * 64, spanMax: 6 },
    };
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 40 }), fc.nat(40), (commands, at) => {
        const whole = new RegistryReplica(limits);
        let restored = new RegistryReplica(limits);
        for (const [i, command] of commands.entries()) {
          const entry = { index: i + 1, term: 1, command };
          const expected = whole.apply(entry);
          assert.deepEqual(restored.apply(entry), expected);
          if (i !== at) continue;
          restored = restoredFrom(concatBytes([...restored.snapshot()]), limits);
        }
        assert.deepEqual([...restored.snapshot()], [...whole.snapshot()]);
        assert.deepEqual(
          restored.keyspace.changesFrom(everything, whole.keyspace.oldestRevision),
          whole.keyspace.changesFrom(everything, whole.keyspace.oldestRevision),
        );
      }),
      { numRuns: 200 },
    );
  });

  test('takes a snapshot of the current entry, whatever is applied before its parts are read', () => {
    const dedup = { clientsMax: 3, resultBytesMax: 5 * 64, spanMax: 6 };
    const limits = { keyspace: { historyChangesMax: 5 }, dedup };
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 40 }), fc.nat(40), fc.nat(4), (commands, at, between) => {
        const replica = new RegistryReplica(limits);
        let expected = [...replica.snapshot()];
        let parts: Uint8Array[] = [];
        let taking = replica.snapshot()[Symbol.iterator]();
        const take = (count: number): void => {
          for (let i = 0; i < count; i++) {
            const { done, value } = taking.next();
            if (done !== true) parts.push(value);
          }
        };
        for (const [i, command] of commands.entries()) {
          replica.apply({ index: i + 1, term: 1, command });
          if (i > at) take(i % (between + 1));
          if (i !== at) continue;
          expected = [...replica.snapshot()];
          parts = [];
          taking = replica.snapshot()[Symbol.iterator]();
        }
        take(expected.length);
        assert.deepEqual(parts, expected);
      }),
      { numRuns: 200 },
    );
  });

  test('restores a snapshot that is cut anywhere, and changes only at its end', () => {
    const log = new Log();
    for (let i = 1; i <= 20; i++) log.apply(writing(`key ${i}`, { counter: i, lowestPending: 1 }));
    const bytes = concatBytes([...log.replica.snapshot()]);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 6 }), (cuts) => {
        const replica = new RegistryReplica();
        let replacedCount = 0;
        replica.observe({
          changed: () => {},
          granted: () => {},
          ended: () => {},
          replaced: () => (replacedCount += 1),
        });
        const intake = replica.beginRestore();
        const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        for (const [i, from] of places.slice(0, -1).entries()) intake.add(bytes.subarray(from, places[i + 1]));
        assert.deepEqual([replica.keyspace.keyCount, replacedCount], [0, 0]);
        intake.finish();
        assert.deepEqual([replica.keyspace.keyCount, replacedCount], [20, 1]);
        assert.deepEqual([...replica.snapshot()], [...log.replica.snapshot()]);
      }),
      { numRuns: 100 },
    );
    assert.throws(() => restoredFrom(bytes.subarray(0, -1)), { code: 'STORE_CORRUPT' });
    assert.throws(() => restoredFrom(new Uint8Array()), { code: 'STORE_CORRUPT' });
    assert.throws(() => restoredFrom(concatBytes([bytes, bytes])), { code: 'STORE_CORRUPT' });
  });

  test('splits a large state into parts of similar size', () => {
    const keys = 20_000;
    const log = new Log();
    for (let i = 1; i <= keys; i++) log.apply(writing(`/some/rather/long/key/${i}`, { counter: i, lowestPending: i }));
    const parts = [...log.replica.snapshot()];
    assert.ok(parts.length > 8, `${parts.length} parts`);
    for (const { length } of parts) assert.ok(length < 400_000, `${length} bytes`);
    assert.equal(restoredFrom(concatBytes(parts)).keyspace.keyCount, keys);
  });
});
