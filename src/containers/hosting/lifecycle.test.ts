import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { failure } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import type { ActivationReason } from '../../placement/state/container-records.ts';
import { type Context, module } from '../module.ts';
import {
  codeOf,
  other,
  owner,
  HostingHarness,
  self,
  settle,
  valueOf,
} from '../../../test/support/containers/hosting-harness.ts';

const methods = {
  add: (ctx: Context, by: number) => {
    const n = (ctx.state.get<number>('n') ?? 0) + by;
    ctx.state.set('n', n);
    return n;
  },
  read: { readonly: true, run: (ctx: Context) => ctx.state.get<number>('n') ?? null },
};

const plain = module('m', { methods });

/** Records which callbacks run, also in the state. */
function callbackModule(names: readonly ('init' | 'restart' | 'recover')[]) {
  const called: string[] = [];
  const callbacks = Object.fromEntries(
    names.map((name) => [
      name,
      (ctx: Context) => {
        called.push(name);
        ctx.state.set(`by ${name}`, true);
      },
    ]),
  );
  return { called, definition: module('m', { methods, ...callbacks }) };
}

describe('opening', () => {
  const all = ['init', 'restart', 'recover'] as const;
  for (const [opening, has, hasState, expected] of [
    ['init', all, false, 'init'],
    ['restart', all, true, 'restart'],
    ['recover', all, true, 'recover'],
    ['migrate', all, true, ''],
    ['restart', ['init'], true, ''],
    ['restart', ['init'], false, 'init'],
    ['recover', ['init'], false, 'init'],
    ['recover', ['init', 'restart'], true, ''],
    ['migrate', ['init'], false, ''],
  ] as const satisfies readonly (readonly [ActivationReason, readonly (typeof all)[number][], boolean, string])[]) {
    it(`by ${opening} with ${has.join(' and ')} and ${hasState ? 'some' : 'no'} state calls ${expected || 'nothing'}`, () => {
      const { called, definition } = callbackModule(has);
      const harness = new HostingHarness(definition);
      if (hasState) harness.disk(0).set('sn', encodeValue(5));
      harness.open({ opening });
      assert.deepEqual(called, expected === '' ? [] : [expected]);
      assert.equal(harness.disk(0).has(`sby ${expected}`), expected !== '');
      assert.equal(valueOf(harness.call('read')), hasState ? 5 : null);
      assert.equal(harness.record().phase, 'serving');
      const [event] = harness.events;
      assert.deepEqual(event, { kind: 'opened', pool: 'p', container: 0, fence: fenceOf(1, 1), opening });
    });
  }

  it('of a new container starts empty, whatever an earlier attempt has left', () => {
    const { definition } = callbackModule(['init']);
    const harness = new HostingHarness(definition, { commitRowsMax: 3 });
    for (const row of ['sn', 'sm', 'tx', 'oy']) harness.disk(0).set(row, encodeValue(99));
    harness.open();
    assert.equal(valueOf(harness.call('read')), null);
    assert.deepEqual([...harness.disk(0).keys()], ['sby init']);
  });

  for (const opening of ['init', 'restart', 'recover', 'migrate'] as const) {
    it(`by ${opening} sends no reply before the record has the phase serving`, () => {
      const harness = new HostingHarness(plain);
      harness.updateFails = failure('DEADLINE');
      harness.change({ opening, failures: 2 });
      const [write, read] = [harness.call('add', [1]), harness.call('read')];
      harness.run(500);
      assert.deepEqual([codeOf(write), codeOf(read)], ['none', 'none']);
      harness.updateFails = undefined;
      harness.run(1_000);
      assert.equal(valueOf(write), 1);
      assert.deepEqual([harness.record().phase, harness.record().failures], ['serving', 0]);
    });
  }

  it('ends when the leader assigns another owner', () => {
    const harness = new HostingHarness(plain);
    harness.updateFails = failure('FENCED');
    harness.change({ opening: 'recover' });
    const call = harness.call('read');
    harness.run(500);
    assert.equal(codeOf(call), 'none', 'the call waits for the table to name the owner');
    harness.remove();
    harness.run();
    assert.equal(codeOf(call), 'STALE_TABLE');
  });

  it('runs no call before a slow callback has ended and is committed', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const seen: unknown[] = [];
    const harness = new HostingHarness(
      module('m', {
        methods: {
          look: (ctx) => seen.push(ctx.state.get('recovered')),
          peek: { readonly: true, run: (ctx) => seen.push(ctx.state.get('recovered')) },
        },
        recover: async (ctx) => {
          await promise;
          ctx.state.set('recovered', true);
        },
      }),
    );
    harness.change({ opening: 'recover' });
    const calls = Array.from({ length: 500 }, (_, n) => harness.call(n % 2 === 0 ? 'look' : 'peek'));
    for (let n = 0; n < 20; n++) {
      harness.run(100);
      await settle();
    }
    assert.deepEqual(seen, []);
    assert.equal(harness.host.lowestOpen(harness.pool), undefined);
    harness.commitsEnd = false;
    resolve();
    await settle();
    harness.run();
    assert.deepEqual(seen, [], 'the changes of recover are not committed yet');
    harness.commitsEnd = true;
    harness.log.end();
    harness.run();
    assert.deepEqual(new Set(calls.map(codeOf)), new Set(['ok']));
    assert.equal(seen.length, 500);
    assert.deepEqual(new Set(seen), new Set([true]));
  });

  it('waits for the lease', () => {
    const harness = new HostingHarness(plain);
    harness.lease(false);
    harness.change({});
    harness.run(60_000);
    assert.equal(harness.logs.length, 0);
    assert.equal(codeOf(harness.call('read')), 'NO_QUORUM');
    harness.lease(true);
    harness.run();
    assert.equal(valueOf(harness.call('read')), null);
  });

  it('waits for the module, and reports to the leader if it is not loaded in time', () => {
    const harness = new HostingHarness(undefined);
    harness.change({});
    harness.run(9_999);
    assert.equal(harness.record().failures, 0);
    harness.run(2);
    assert.equal(harness.record().failures, 1);
    assert.match(harness.record().note, /module m of version 0 is not loaded/);
    harness.load(plain);
    harness.run();
    assert.equal(valueOf(harness.call('read')), null);
    assert.equal(harness.record().failures, 0);
  });

  it('that fails is reported to the leader, and retried only under the next fence', () => {
    const harness = new HostingHarness(
      module('m', {
        methods,
        recover: () => {
          throw new Error('no way');
        },
      }),
    );
    harness.change({ opening: 'recover' });
    const call = harness.call('read');
    harness.run(60);
    const { failures, note, phase } = harness.record();
    assert.deepEqual([failures, phase], [1, 'opening']);
    assert.match(note, /no way/);
    assert.deepEqual([harness.logs.length, harness.log.isClosed], [1, true]);
    assert.equal(codeOf(call), 'none', 'the call waits for the next owner');
    harness.load(plain);
    harness.change({ fence: fenceOf(1, 2) });
    harness.run();
    assert.equal(valueOf(call), null);
  });

  it('that fails for lack of a quorum is retried', () => {
    const harness = new HostingHarness(plain);
    harness.openFails = failure('NO_QUORUM');
    harness.change({});
    harness.run(100);
    harness.openFails = undefined;
    harness.run(1_000);
    assert.equal(valueOf(harness.call('read')), null);
    assert.equal(harness.record().failures, 0);
  });

  it('of damaged rows is refused', () => {
    const harness = new HostingHarness(plain);
    harness.disk(0).set('tname', new Uint8Array([7]));
    harness.change({ opening: 'recover' });
    harness.run();
    assert.equal(harness.record().failures, 1);
    assert.equal(harness.host.lowestOpen(harness.pool), undefined);
  });
});

describe('closing', () => {
  it('happens at once when another node owns the container: waiting calls get STALE_TABLE, started ones FENCED', () => {
    const harness = new HostingHarness(plain);
    harness.open();
    harness.commitsEnd = false;
    const add = harness.call('add', [1]);
    harness.change({ owner: { node: other, generation: 1 }, fence: fenceOf(2, 1) });
    assert.equal(codeOf(add), 'FENCED');
    assert.equal(codeOf(harness.call('read')), 'STALE_TABLE');
    harness.run();
    assert.equal(harness.log.isClosed, true);
    assert.deepEqual(harness.host.containers(), []);
    assert.equal(harness.events.at(-1)?.kind, 'closed');
  });

  it('replies to calls that wait for an opening when the container has another owner', () => {
    const harness = new HostingHarness(plain);
    harness.delayLogs = true;
    harness.change({});
    const call = harness.call('read');
    harness.run();
    harness.change({ owner: { node: other, generation: 1 }, fence: fenceOf(2, 1) });
    assert.equal(codeOf(call), 'STALE_TABLE');
    for (const open of harness.delayedLogs) open();
    harness.run();
    assert.equal(harness.log.isClosed, true, 'a log that opens late is closed');
  });

  it('aborts running calls', () => {
    let ctx: Context | undefined;
    const harness = new HostingHarness(
      module('m', { methods: { wait: (given) => ((ctx = given), given.signal, new Promise(() => {})) } }),
    );
    harness.open();
    const call = harness.call('wait');
    harness.remove();
    assert.equal(codeOf(call), 'FENCED');
    assert.equal(ctx?.signal.aborted, true);
    assert.throws(() => ctx?.state.set('a', 1), /the call has ended/);
  });

  it('and opening under a higher fence keeps committed state and waiting calls', () => {
    const harness = new HostingHarness(plain);
    harness.open();
    const add = harness.call('add', [1], { counter: 1 });
    harness.run();
    assert.equal(valueOf(add), 1);
    harness.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening' });
    const read = harness.call('read');
    const again = harness.call('add', [1], { counter: 1 });
    assert.equal(codeOf(read), 'none');
    harness.run();
    assert.deepEqual([valueOf(read), valueOf(again)], [1, 1]);
    assert.equal(harness.logs.length, 2);
    assert.deepEqual(
      harness.events.map(({ kind }) => kind),
      ['opened', 'closed', 'opened'],
    );
  });

  it('does not open a container of an earlier generation of this node, or under an older fence', () => {
    const harness = new HostingHarness(plain);
    harness.change({ owner: { node: self.id, generation: self.generation - 1 } });
    harness.run();
    assert.equal(harness.logs.length, 0);
    harness.open({ owner, fence: fenceOf(2, 2) });
    harness.change({ fence: fenceOf(1, 1) });
    harness.run();
    assert.equal(harness.logs.length, 1);
  });

  it('after the loss of the log is reported to the leader, and the container is not new any more', () => {
    const harness = new HostingHarness(plain);
    harness.open();
    harness.call('add', [1]);
    harness.run();
    harness.log.lost('the disk is gone');
    harness.run();
    const { phase, opening, failures, note } = harness.record();
    assert.deepEqual([phase, opening, failures, note], ['opening', 'recover', 1, 'the disk is gone']);
    const read = harness.call('read');
    harness.run(100);
    assert.equal(codeOf(read), 'none');
    harness.change({ fence: fenceOf(1, 2) });
    harness.run();
    assert.equal(valueOf(read), 1);
  });

  it('records no failure once the container has another owner', () => {
    const harness = new HostingHarness(plain);
    harness.open();
    harness.updateFails = failure('DEADLINE');
    harness.log.lost('the disk is gone');
    harness.run(5_000);
    harness.change({ owner: { node: other, generation: 1 }, fence: fenceOf(2, 1) });
    harness.updateFails = undefined;
    harness.run(60_000);
    assert.equal(harness.record().failures, 0);
  });
});
