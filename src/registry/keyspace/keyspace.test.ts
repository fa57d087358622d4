import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import {
  type KeyRange,
  type LeaseId,
  type RegistryEntry,
  type RegistryOp,
  type RegistryTransaction,
  onlyKey,
  registryLimits,
  withPrefix,
} from '../../base/registry.ts';
import { Keyspace } from './keyspace.ts';
import { OrderedMap } from '../../base/collections/ordered-map.ts';

const everything: KeyRange = { from: '', to: '\u{10ffff}' };

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function puts(...keys: readonly string[]): RegistryTransaction {
  return { compare: [], then: keys.map((key) => ({ kind: 'put', key, value: bytes(key) })), otherwise: [] };
}

function only(op: RegistryOp): RegistryTransaction {
  return { compare: [], then: [op], otherwise: [] };
}

function codeOf(outcome: ReturnType<Keyspace['transact']>): string | undefined {
  return outcome.ok ? undefined : outcome.error.code;
}

/** Characters around every border at which UTF-16 and UTF-8 could disagree. */
const anyKey = fc
  .array(
    fc.constantFrom('a', 'b', '/', '\x7f', '\u00e9', '\u07ff', '\u0800', '\ud7ff', '\ue000', '\uffff', '\u{10000}'),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  .map((characters) => characters.join(''));

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

describe('the order of keys', () => {
  test('is that of their UTF-8 bytes, whatever is added and taken away', () => {
    const step = fc.record({ key: anyKey, add: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), anyKey, anyKey, (steps, from, to) => {
        const map = new OrderedMap<string>();
        const model = new Set<string>();
        for (const { key, add } of steps) {
          if (add) map.set(key, key);
          else map.delete(key);
          if (add) model.add(key);
          else model.delete(key);
        }
        const sorted = [...model].toSorted(byBytes);
        assert.deepEqual([...map.values()], sorted);
        const found: string[] = [];
        map.visit(from, to, (key) => found.push(key) > 0);
        const isWithin = (key: string): boolean => byBytes(key, from) >= 0 && byBytes(key, to) < 0;
        assert.deepEqual(found, sorted.filter(isWithin));
        assert.deepEqual(map.takeRange(from, to), found);
        const rest = sorted.filter((key) => !isWithin(key));
        assert.deepEqual([...map.values()], rest);
        assert.equal(map.size, rest.length);
        for (const key of found) assert.equal(map.get(key), undefined);
      }),
    );
  });

  test('holds over many runs, in ascending, descending and mixed order', () => {
    for (const order of [(i: number) => i, (i: number) => 5_000 - i, (i: number) => (i * 1_237) % 5_003]) {
      const map = new OrderedMap<number>();
      const numbers = Array.from({ length: 5_000 }, (_, i) => order(i));
      for (const n of numbers) map.set(String(n).padStart(5, '0'), n);
      for (const n of numbers) if (n % 3 !== 0) map.delete(String(n).padStart(5, '0'));
      const rest = numbers.filter((n) => n % 3 === 0).toSorted((a, b) => a - b);
      assert.deepEqual([...map.values()], rest);
      assert.equal(map.size, rest.length);
      const found: number[] = [];
      map.visit('01000', '01100', (n) => found.push(n) < 10);
      assert.deepEqual(found, rest.filter((n) => n >= 1_000).slice(0, 10));
      const isTaken = (n: number): boolean => n >= 600 && n < 4_000;
      assert.deepEqual(map.takeRange('00600', '04000'), rest.filter(isTaken));
      for (const n of [700, 3_999, 601]) map.set(String(n).padStart(5, '0'), n);
      const others = [...rest.filter((n) => !isTaken(n)), 601, 700, 3_999].toSorted((a, b) => a - b);
      assert.deepEqual([...map.values()], others);
      assert.deepEqual(map.takeRange('', '~'), others);
      assert.equal(map.size, 0);
      map.set('00007', 7);
      assert.deepEqual([...map.values()], [7]);
    }
  });
});

/** The specification in its simplest form: one list that is copied for each change. */
class Model {
  entries: RegistryEntry[] = [];
  revision = 0;
  leases = new Set<LeaseId>();

  transact({ compare, then, otherwise }: RegistryTransaction): { succeeded: boolean; results: unknown[] } | undefined {
    const succeeded = compare.every((one) => {
      const entry = this.entries.find(({ key }) => key === one.key);
      if (one.target === 'value') {
        const equal = entry !== undefined && Buffer.compare(entry.value, one.than) === 0;
        return equal === (one.is === 'equal');
      }
      const value = entry === undefined ? 0 : entry[one.target];
      return {
        equal: value === one.than,
        notEqual: value !== one.than,
        less: value < one.than,
        greater: value > one.than,
      }[one.is];
    });
    const ops = succeeded ? then : otherwise;
    if (ops.some((op) => op.kind === 'put' && op.lease !== undefined && !this.leases.has(op.lease))) return undefined;
    const before = JSON.stringify(this.entries);
    const results = ops.map((op) => this.#one(op));
    if (JSON.stringify(this.entries) !== before || ops.some(({ kind }) => kind === 'put')) this.revision += 1;
    return { succeeded, results };
  }

  revoke(lease: LeaseId): void {
    this.leases.delete(lease);
    const rest = this.entries.filter((entry) => entry.lease !== lease);
    if (rest.length < this.entries.length) this.revision += 1;
    this.entries = rest;
  }

  #one(op: RegistryOp): unknown {
    if (op.kind === 'put') return this.#put(op);
    const within = this.#within(op.range);
    if (op.kind === 'read') return { kind: 'read', entries: within.slice(0, op.limit), more: within.length > op.limit };
    this.entries = this.entries.filter((entry) => !within.includes(entry));
    return { kind: 'delete', deleted: within.length };
  }

  #put({ key, value, lease }: RegistryOp & { kind: 'put' }): unknown {
    const former = this.entries.find((entry) => entry.key === key);
    const modRevision = this.revision + 1;
    const createRevision = former?.createRevision ?? modRevision;
    const entry = { key, value, createRevision, modRevision, version: (former?.version ?? 0) + 1, lease };
    this.entries = [...this.entries.filter((other) => other !== former), entry];
    return { kind: 'put' };
  }

  #within({ from, to }: KeyRange): RegistryEntry[] {
    return this.entries
      .filter(({ key }) => byBytes(key, from) >= 0 && byBytes(key, to) < 0)
      .toSorted((a, b) => byBytes(a.key, b.key));
  }

  all(): RegistryEntry[] {
    return this.#within(everything);
  }
}

const fewKeys = fc.constantFrom('a', 'ab', 'b', 'c', 'c\u{10000}', 'c\uffff');
const fewValues = fc.constantFrom('', 'x', 'yy').map(bytes);
const fewLeases = fc.option(fc.constantFrom('1', '2', '3') as fc.Arbitrary<LeaseId>, { nil: undefined });
const anyRange = fc.tuple(fewKeys, fewKeys).map(([from, to]) => ({ from, to }));
const anyPut = fc
  .record({ key: fewKeys, value: fewValues, lease: fewLeases })
  .map(({ key, value, lease }): RegistryOp =>
    lease === undefined ? { kind: 'put', key, value } : { kind: 'put', key, value, lease },
  );
const anyOp = fc.oneof(
  anyPut,
  anyRange.map((range): RegistryOp => ({ kind: 'delete', range })),
  fc
    .record({ range: anyRange, limit: fc.integer({ min: 1, max: 3 }) })
    .map((read): RegistryOp => ({ kind: 'read', range: read.range, limit: read.limit })),
);
const anyCompare = fc.oneof(
  fc.record({
    key: fewKeys,
    target: fc.constantFrom('version', 'createRevision', 'modRevision'),
    is: fc.constantFrom('equal', 'less', 'greater', 'notEqual'),
    than: fc.nat(5),
  }),
  fc.record({ key: fewKeys, target: fc.constant('value'), is: fc.constantFrom('equal', 'notEqual'), than: fewValues }),
);
const anyTransaction = fc.record({
  compare: fc.array(anyCompare, { maxLength: 2 }),
  then: fc.array(anyOp, { maxLength: 3 }),
  otherwise: fc.array(anyOp, { maxLength: 3 }),
}) as fc.Arbitrary<RegistryTransaction>;
const anyCommand = fc.oneof(
  { weight: 8, arbitrary: anyTransaction.map((transaction) => ({ kind: 'transact', transaction }) as const) },
  { weight: 1, arbitrary: fc.constant({ kind: 'grant' } as const) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('1', '2', '3').map((id) => ({ kind: 'revoke', lease: id as LeaseId }) as const),
  },
);

describe('a key space', () => {
  test('does what a naive model does, and its history leads to the same state', () => {
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 40 }), (commands) => {
        const keyspace = new Keyspace();
        const model = new Model();
        for (const command of commands) {
          if (command.kind === 'grant') {
            const granted = keyspace.grant(1_000);
            if (granted.ok) model.leases.add(granted.value.lease);
          } else if (command.kind === 'revoke') {
            keyspace.revoke(command.lease);
            model.revoke(command.lease);
          } else {
            compareTransaction(keyspace, model, command.transaction);
          }
          assert.equal(keyspace.revision, model.revision);
          assert.deepEqual(keyspace.range(everything, 100).entries, model.all());
        }
        assert.deepEqual(replayed(keyspace), model.all());
        const copy = new Keyspace();
        copy.load(keyspace.snapshot());
        assert.deepEqual(copy.range(everything, 100), keyspace.range(everything, 100));
        assert.equal(copy.sizeBytes, keyspace.sizeBytes);
        assert.deepEqual(copy.changesFrom(everything, 1), keyspace.changesFrom(everything, 1));
      }),
      { numRuns: 300 },
    );
  });
});

function compareTransaction(keyspace: Keyspace, model: Model, transaction: RegistryTransaction): void {
  const outcome = keyspace.transact(transaction);
  if (!outcome.ok && outcome.error.code === 'BAD_ARGUMENT') {
    assert.match(outcome.error.message, /twice/);
    return;
  }
  const expected = model.transact(transaction);
  if (outcome.ok) {
    const { succeeded, results, revision } = outcome.value;
    assert.deepEqual({ succeeded, results }, expected);
    assert.equal(revision, model.revision);
  } else {
    assert.equal(outcome.error.code, 'LEASE_EXPIRED');
    assert.equal(expected, undefined);
  }
}

/** The entries of a client that only watched. */
function replayed(keyspace: Keyspace): RegistryEntry[] {
  const entries = new Map<string, RegistryEntry>();
  const part = keyspace.changesFrom(everything, 1);
  assert.equal(part.kind, 'changes');
  let last = 0;
  for (const { revision, changes } of part.revisions) {
    assert.ok(revision > last);
    last = revision;
    for (const change of changes) {
      if (change.kind === 'put') entries.set(change.entry.key, change.entry);
      else entries.delete(change.key);
    }
  }
  assert.equal(part.next, keyspace.revision + 1);
  return [...entries.values()].toSorted((a, b) => byBytes(a.key, b.key));
}

describe('the limits of a key space', () => {
  test('on keys, values and transactions are named in the refusal', () => {
    const keyspace = new Keyspace();
    const refused = (transaction: RegistryTransaction, code: string, text: RegExp): void => {
      const outcome = keyspace.transact(transaction);
      assert.ok(!outcome.ok && isRemusterError(outcome.error));
      assert.equal(outcome.error.code, code);
      assert.match(outcome.error.message, text);
    };
    refused(puts(''), 'BAD_ARGUMENT', /at least one character/);
    refused(puts('\ud800'), 'BAD_ARGUMENT', /well-formed/);
    refused(puts('\u20ac'.repeat(342)), 'BAD_ARGUMENT', /1024 bytes/);
    refused(puts('a', 'b', 'a'), 'BAD_ARGUMENT', /twice/);
    const put = { kind: 'put', key: 'dir/a', value: bytes('') } as const;
    refused(
      { compare: [], then: [put, { kind: 'delete', range: withPrefix('dir/') }], otherwise: [] },
      'BAD_ARGUMENT',
      /twice/,
    );
    refused(only({ ...put, value: new Uint8Array(registryLimits.valueBytesMax + 1) }), 'TOO_LARGE', /1048576/);
    const half = { ...put, value: new Uint8Array(registryLimits.valueBytesMax) };
    refused({ compare: [], then: [half, { ...half, key: 'dir/b' }], otherwise: [] }, 'TOO_LARGE', /1572864/);
    refused(puts(...Array.from({ length: 129 }, (_, i) => `k${i}`)), 'TOO_LARGE', /120/);
    refused(only({ kind: 'read', range: everything, limit: 0 }), 'BAD_ARGUMENT', /from 1 to 10000/);
    assert.equal(keyspace.revision, 0);
  });

  test('on the total size refuse writes until keys are deleted, even by the same transaction', () => {
    const keyspace = new Keyspace({ totalBytesMax: 3 * (32 + 2) });
    assert.ok(keyspace.transact(puts('a', 'b', 'c')).ok);
    const full = keyspace.transact(puts('d'));
    assert.equal(codeOf(full), 'STORE_FULL');
    assert.ok(keyspace.transact(puts('a')).ok, 'the same size again is no growth');
    const swap: RegistryTransaction = {
      compare: [],
      then: [{ kind: 'delete', range: onlyKey('a') }, ...puts('d').then],
      otherwise: [],
    };
    assert.ok(keyspace.transact(swap).ok);
    assert.equal(keyspace.sizeBytes, 3 * (32 + 2));
    assert.equal(codeOf(keyspace.transact(puts('e'))), 'STORE_FULL');
  });

  test('on changes and leases refuse what exceeds them', () => {
    const keyspace = new Keyspace({ changesMax: 3, leasesMax: 1 });
    for (const key of ['a', 'b', 'c', 'd']) assert.ok(keyspace.transact(puts(key)).ok);
    assert.equal(codeOf(keyspace.transact(only({ kind: 'delete', range: everything }))), 'TOO_LARGE');
    assert.ok(keyspace.grant(1_000).ok);
    const second = keyspace.grant(1_000);
    assert.ok(!second.ok && second.error.code === 'STORE_FULL');
    const held = (key: string) => only({ kind: 'put', key, value: bytes('v'), lease: '1' as LeaseId });
    for (const key of ['a', 'b', 'c', 'c']) assert.ok(keyspace.transact(held(key)).ok);
    assert.equal(codeOf(keyspace.transact(held('d'))), 'TOO_LARGE');
  });

  test('on a reply end a range early with `more`', () => {
    const keyspace = new Keyspace({ replyBytesMax: 2 * 34 });
    keyspace.transact(puts('a', 'b', 'c', 'd'));
    const part = keyspace.range(everything, 10);
    assert.deepEqual([part.entries.map(({ key }) => key), part.more], [['a', 'b'], true]);
  });
});

describe('the history of a key space', () => {
  test('is bounded, and a watch behind it gets the oldest revision', () => {
    const keyspace = new Keyspace({ historyChangesMax: 4 });
    for (let i = 1; i <= 10; i++) keyspace.transact(puts(`k${i}`));
    assert.equal(keyspace.oldestRevision, 7);
    assert.deepEqual(keyspace.changesFrom(everything, 6), { kind: 'compacted', oldestRevision: 7 });
    const part = keyspace.changesFrom(everything, 7);
    assert.ok(part.kind === 'changes');
    assert.deepEqual(
      part.revisions.map(({ revision }) => revision),
      [7, 8, 9, 10],
    );
    const late = keyspace.changesFrom(everything, 20);
    assert.deepEqual(late, { kind: 'changes', revisions: [], next: 20 });
  });

  test('is read in pages of whole revisions', () => {
    const keyspace = new Keyspace({ replyBytesMax: 100 });
    for (let i = 0; i < 5; i++) keyspace.transact(puts(`a${i}`, `b${i}`));
    const seen: number[] = [];
    for (let next = 1; next <= 5;) {
      const part = keyspace.changesFrom(everything, next);
      assert.ok(part.kind === 'changes' && part.next > next);
      for (const { revision, changes } of part.revisions) {
        assert.equal(changes.length, 2);
        seen.push(revision);
      }
      next = part.next;
    }
    assert.deepEqual(seen, [1, 2, 3, 4, 5]);
  });

  test('starts at a restored backup, whose keys match no earlier comparison', () => {
    const keyspace = new Keyspace();
    keyspace.transact(puts('a'));
    const backup = new Keyspace();
    backup.load(keyspace.snapshot());
    keyspace.transact(puts('b'));
    keyspace.transact(puts('a'));
    keyspace.replaceWith(backup.snapshot());
    assert.equal(keyspace.revision, 4);
    assert.deepEqual(keyspace.changesFrom(everything, 4), { kind: 'compacted', oldestRevision: 5 });
    const { entries } = keyspace.range(everything, 10);
    assert.deepEqual(
      entries.map(({ key, createRevision, modRevision, version }) => [key, createRevision, modRevision, version]),
      [['a', 1, 4, 1]],
    );
    assert.ok(keyspace.transact(puts('c')).ok);
    assert.equal(keyspace.revision, 5);
  });
});
