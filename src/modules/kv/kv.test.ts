/** The key-value module on the state of a container, with a clock that the test sets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { ContainerState } from '../../containers/hosting/state/container-state.ts';
import { hostingLimits } from '../../containers/hosting-limits.ts';
import { ReadStateView, WriteStateView } from '../../containers/hosting/state/state-view.ts';
import type { Context, State } from '../../containers/module.ts';
import { type KvChanges, kv, type KvPage } from './kv.ts';
import { kvHistoryMax, expiredPerCallMax } from './kv-items.ts';

const encoder = new TextEncoder();
const byBytes = (a: string, b: string): number => Buffer.compare(encoder.encode(a), encoder.encode(b));

type Timer = { readonly atMs: number; readonly method: string };

class Container {
  readonly state = new ContainerState();
  readonly timers = new Map<string, Timer>();
  nowMs = 1_000_000;

  names(): string[] {
    const names: string[] = [];
    this.state.visit({}, (_, key) => names.push(key) > 0);
    return names;
  }

  /** The context of readonly methods. */
  ctx(signal = new AbortController().signal, state: State = new ReadStateView(this.state)): Context {
    const set = (name: string, afterMs: number, method: string): void =>
      void this.timers.set(name, { atMs: this.nowMs + afterMs, method });
    return {
      state,
      timers: { set, cancel: (name) => void this.timers.delete(name) },
      pool: { name: 'kv', containers: 4, params: null },
      container: 1,
      node: 'n1',
      callId: 's/1/1',
      remainingMs: () => 1_000,
      signal,
      now: () => this.nowMs,
      random: () => 0.5,
      call: () => assert.fail('the module calls no other container'),
      log: () => {},
    };
  }

  /** Advances time; timers run when they are due, in order. */
  pass(ms: number): void {
    const end = this.nowMs + ms;
    for (;;) {
      const [due] = [...this.timers].filter(([, { atMs }]) => atMs <= end).toSorted((a, b) => a[1].atMs - b[1].atMs);
      if (due === undefined) break;
      this.timers.delete(due[0]);
      this.nowMs = Math.max(this.nowMs, due[1].atMs);
      assert.equal(due[1].method, 'sweep');
      this.sweep();
    }
    this.nowMs = end;
  }

  /** The writes count if the method returns, and not if it throws. */
  write<T>(run: (ctx: Context) => T): T {
    const view = new WriteStateView(this.state, hostingLimits);
    const result = run(this.ctx(undefined, view));
    view.apply();
    return result;
  }

  sweep = (): number => this.write((ctx) => kv.methods.sweep(ctx));
  put = (...args: Tail<typeof kv.methods.put>): number => this.write((ctx) => kv.methods.put(ctx, ...args).version);
  get = (key: string): unknown => kv.methods.get.run(this.ctx(), key);
  delete = (...args: Tail<typeof kv.methods.delete>): boolean =>
    this.write((ctx) => kv.methods.delete(ctx, ...args).deleted);
  list = (...args: Tail<typeof kv.methods.list.run>): KvPage => kv.methods.list.run(this.ctx(), ...args);
  changes = (prefix: string, revision: number): KvChanges => kv.methods.changes.run(this.ctx(), prefix, revision);
}

type Tail<F> = F extends (ctx: Context, ...args: infer A) => unknown ? A : never;

const refusedWith =
  (code: 'BAD_ARGUMENT' | 'PRECONDITION') =>
  (error: unknown): boolean =>
    isRemusterError(error, code);

test('get returns the value of the last put, with its version', () => {
  const container = new Container();
  assert.equal(container.get('a'), null);
  container.put('a', { deep: [1, null] });
  assert.deepEqual(container.get('a'), { value: { deep: [1, null] }, version: 1 });
  container.put('a', null);
  assert.deepEqual(container.get('a'), { value: null, version: 2 });
});

test('the version of a key grows, even over delete and create, and with other keys', () => {
  const container = new Container();
  const versions = [container.put('a', 1), container.put('a', 2)];
  container.put('b', 1);
  container.delete('a');
  versions.push(container.put('a', 3));
  container.put('a', 4, { ttlMs: 10 });
  container.pass(20);
  versions.push(container.put('a', 5));
  assert.ok(versions.every((version, i) => i === 0 || version > (versions[i - 1] as number)));
});

test('a put or delete with another version than required is refused and changes nothing', () => {
  const container = new Container();
  const version = container.put('a', 1, { ifVersion: 0 });
  assert.throws(() => container.put('a', 2, { ifVersion: 0 }), refusedWith('PRECONDITION'));
  assert.throws(() => container.put('a', 2, { ifVersion: version + 1 }), refusedWith('PRECONDITION'));
  assert.throws(() => container.delete('a', { ifVersion: version + 1 }), refusedWith('PRECONDITION'));
  assert.throws(() => container.put('none', 2, { ifVersion: 7 }), refusedWith('PRECONDITION'));
  assert.deepEqual(container.get('a'), { value: 1, version });
  assert.ok(container.put('a', 2, { ifVersion: version }) > version);
  assert.equal(container.delete('none', { ifVersion: 0 }), false);
});

test('delete reports whether the key existed', () => {
  const container = new Container();
  container.put('a', 1);
  assert.deepEqual([container.delete('a'), container.delete('a'), container.get('a')], [true, false, null]);
});

test('a key is missing from the instant it expires, before the sweep', () => {
  const container = new Container();
  container.put('a', 1, { ttlMs: 100 });
  container.nowMs += 99;
  assert.notEqual(container.get('a'), null);
  container.nowMs += 1;
  assert.equal(container.get('a'), null);
  assert.deepEqual(container.list().items, []);
  assert.equal(container.delete('a'), false);
  container.put('b', 1, { ttlMs: 100 });
  container.nowMs += 100;
  container.put('b', 2, { ifVersion: 0 });
  assert.deepEqual(container.get('b'), { value: 2, version: 4 });
});

test('the sweep removes expired keys and all their rows', () => {
  const container = new Container();
  for (let i = 0; i < expiredPerCallMax * 2 + 5; i++) container.put(`k${i}`, i, { ttlMs: 1_000 + (i % 7) });
  container.put('stays', 1);
  container.put('later', 1, { ttlMs: 10_000 });
  container.pass(2_000);
  assert.deepEqual(
    container.names().filter((name) => !name.startsWith('h/')),
    ['k/later', 'k/stays', 'r', `x/${String(container.nowMs + 8_000).padStart(16, '0')}/later`],
  );
  assert.equal(container.timers.size, 1);
  container.pass(10_000);
  assert.equal(container.timers.size, 0);
  assert.equal(container.get('stays') === null, false);
});

test('one sweep removes a bounded number of keys', () => {
  const container = new Container();
  for (let i = 0; i < expiredPerCallMax + 1; i++) container.put(`k${i}`, i, { ttlMs: 10 });
  container.nowMs += 100;
  assert.equal(container.sweep(), expiredPerCallMax);
  assert.deepEqual([...container.timers.values()], [{ atMs: container.nowMs, method: 'sweep' }]);
});

test('another put of a key replaces or removes its expiry', () => {
  const container = new Container();
  container.put('a', 1, { ttlMs: 100 });
  container.put('a', 2, { ttlMs: 1_000 });
  container.put('b', 1, { ttlMs: 100 });
  container.put('b', 2);
  container.pass(500);
  assert.deepEqual(
    [container.get('a'), container.get('b')].map((item) => item !== null),
    [true, true],
  );
  container.pass(600);
  assert.equal(container.get('a'), null);
  assert.deepEqual(
    container.names().filter((name) => name.startsWith('x/')),
    [],
  );
});

test('the longest key can expire, and a full container can be emptied', () => {
  const container = new Container();
  const key = 'x'.repeat(1_000);
  container.put(key, 1, { ttlMs: 10 });
  container.pass(20);
  assert.equal(container.get(key), null);
  const value = 'v'.repeat(4_000_000);
  const fill = (): void => {
    for (let i = 0; ; i++) container.put(`k${i}`, value);
  };
  assert.throws(fill, (error) => isRemusterError(error, 'STORE_FULL'));
  assert.equal(container.delete('k0'), true);
  container.put('again', value);
});

test('list returns keys in byte order, by prefix, page by page', () => {
  const container = new Container();
  const keys = ['u/1', 'u/2', 'u/\uffee', 'u/\u{1f600}', 'v', 'u/10'];
  for (const key of keys) container.put(key, key);
  const read: string[] = [];
  for (let from: string | null = ''; from !== null;) {
    const page: KvPage = container.list({ prefix: 'u/', from, limit: 2 });
    assert.ok(page.items.length <= 2);
    read.push(...page.items.map(({ key }) => key));
    from = page.next;
  }
  assert.deepEqual(read, ['u/1', 'u/10', 'u/2', 'u/\uffee', 'u/\u{1f600}']);
});

test('list merges the pages of several containers, complete up to the next page', () => {
  const containers = [new Container(), new Container(), new Container()];
  const keys = Array.from({ length: 50 }, (_, i) => `k${String((i * 37) % 50).padStart(2, '0')}`).concat(
    'k\u{1f600}',
    'k\uffee',
  );
  for (const [i, key] of keys.entries()) containers[(i * i) % 3]?.put(key, i);
  const read: string[] = [];
  for (let from: string | null = ''; from !== null;) {
    const at: string = from;
    const page: KvPage = kv.methods.list.aggregate(containers.map((one) => one.list({ from: at, limit: 7 })));
    assert.ok(page.items.length <= 7);
    read.push(...page.items.map(({ key }) => key));
    from = page.next;
  }
  assert.deepEqual(read, keys.toSorted(byBytes));
});

test('scan yields every key once', async () => {
  const container = new Container();
  for (let i = 0; i < 250; i++) container.put(`k${i}`, i);
  container.put('other', 1);
  const read: string[] = [];
  for await (const { key } of kv.methods.scan.run(container.ctx(), { prefix: 'k' })) read.push(key);
  assert.equal(new Set(read).size, 250);
  assert.equal(read.length, 250);
});

test('changes returns the last change of each key since a revision, in order', () => {
  const container = new Container();
  container.put('a', 1);
  container.put('b', 1);
  const { revision } = container.changes('', 0);
  container.put('a', 2);
  container.put('c', 1);
  container.delete('c');
  container.put('a', 3);
  container.put('z', 1, { ttlMs: 10 });
  container.pass(20);
  assert.deepEqual(container.changes('', revision), {
    changes: [
      { key: 'c', version: 5, deleted: true },
      { key: 'a', version: 6, value: 3 },
      { key: 'z', version: 8, deleted: true },
    ],
    revision: 8,
    compacted: false,
  });
  assert.deepEqual(container.changes('b', 0).changes, [{ key: 'b', version: 2, value: 1 }]);
});

test('the history is bounded, and changes reports compacted to a late reader', () => {
  const container = new Container();
  for (let i = 0; i <= kvHistoryMax; i++) container.put('a', i);
  assert.equal(container.changes('', 0).compacted, true);
  assert.equal(container.changes('', 1).compacted, false);
  assert.equal(container.changes('', kvHistoryMax + 2).compacted, true);
  assert.equal(container.names().filter((name) => name.startsWith('h/')).length, kvHistoryMax);
});

test('watch waits for changes, and ends with its caller', { timeout: 5_000 }, async () => {
  const container = new Container();
  container.put('u/1', 1);
  const leaving = new AbortController();
  const watching = kv.methods.watch.run(container.ctx(leaving.signal), 'u/', 0);
  assert.deepEqual((await watching.next()).value, { key: 'u/1', version: 1, value: 1 });
  const next = watching.next();
  container.put('other', 1);
  container.put('u/2', 2);
  assert.deepEqual((await next).value, { key: 'u/2', version: 3, value: 2 });
  container.put('u/1', 3);
  container.delete('u/2');
  assert.deepEqual((await watching.next()).value, { key: 'u/1', version: 4, value: 3 });
  assert.deepEqual((await watching.next()).value, { key: 'u/2', version: 5, deleted: true });
  const last = watching.next();
  leaving.abort();
  assert.equal((await last).done, true);
});

test('watch from the revision before a list misses no change', { timeout: 5_000 }, async () => {
  const container = new Container();
  for (let i = 0; i < 250; i++) container.put(`k${i}`, i);
  const revision = kv.methods.revision.run(container.ctx());
  for (let i = 0; i < 250; i++) container.put(`k${i}`, -i);
  const watching = kv.methods.watch.run(container.ctx(), 'k', revision);
  for (let i = 0; i < 250; i++)
    assert.deepEqual((await watching.next()).value, { key: `k${i}`, version: 251 + i, value: -i });
});

test('watch from a compacted revision reports that and ends', { timeout: 5_000 }, async () => {
  const container = new Container();
  for (let i = 0; i <= kvHistoryMax; i++) container.put('a', i);
  const watching = kv.methods.watch.run(container.ctx(), '', 0);
  assert.deepEqual((await watching.next()).value, { compacted: true, revision: kvHistoryMax + 1 });
  assert.equal((await watching.next()).done, true);
});

test('invalid arguments are refused with BAD_ARGUMENT', () => {
  const container = new Container();
  const anything = container.put as (...args: unknown[]) => unknown;
  for (const args of [
    [],
    [1, 1],
    ['', 1],
    ['x'.repeat(1_001), 1],
    ['\u20ac'.repeat(334), 1],
    ['\ud800', 1],
    ['a'],
    ['a', 1, null],
    ['a', 1, { ttlMs: 0 }],
    ['a', 1, { ttlMs: '10' }],
    ['a', 1, { ifVersion: -1 }],
    ['a', 1, { ifVersion: 1.5 }],
  ])
    assert.throws(() => anything(...args), refusedWith('BAD_ARGUMENT'), JSON.stringify(args));
  assert.throws(() => container.list({ limit: 0 }), refusedWith('BAD_ARGUMENT'));
  assert.throws(() => container.list({ limit: 1_001 }), refusedWith('BAD_ARGUMENT'));
  assert.throws(() => container.changes('', -1), refusedWith('BAD_ARGUMENT'));
  assert.equal(container.state.size, 0);
});

test('a dynamic call is routed by the hash of its key, a list to all containers', () => {
  const pool = { name: 'kv', containers: 4, params: null };
  assert.deepEqual(kv.route?.('put', ['a', 1], pool), { hash: 'a' });
  assert.deepEqual(kv.route?.('list', [{}], pool), { broadcast: true });
  assert.throws(() => kv.route?.('watch', ['a'], pool), refusedWith('BAD_ARGUMENT'));
  assert.throws(() => kv.route?.('get', [], pool), refusedWith('BAD_ARGUMENT'));
});
