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

/** Notes which callbacks were called, and writes so into the state. */
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
      const scene = new HostingHarness(definition);
      if (hasState) scene.disk(0).set('sn', encodeValue(5));
      scene.open({ opening });
      assert.deepEqual(called, expected === '' ? [] : [expected]);
      assert.equal(scene.disk(0).has(`sby ${expected}`), expected !== '');
      assert.equal(valueOf(scene.call('read')), hasState ? 5 : null);
      assert.equal(scene.record().phase, 'serving');
      const [event] = scene.events;
      assert.deepEqual(event, { kind: 'opened', pool: 'p', container: 0, fence: fenceOf(1, 1), opening });
    });
  }

  it('of a new container begins with nothing, whatever an earlier attempt has left', () => {
    const { definition } = callbackModule(['init']);
    const scene = new HostingHarness(definition, { commitRowsMax: 3 });
    for (const row of ['sn', 'sm', 'tx', 'oy']) scene.disk(0).set(row, encodeValue(99));
    scene.open();
    assert.equal(valueOf(scene.call('read')), null);
    assert.deepEqual([...scene.disk(0).keys()], ['sby init']);
  });

  for (const opening of ['init', 'restart', 'recover', 'migrate'] as const) {
    it(`by ${opening} answers nobody before the record says that it serves`, () => {
      const scene = new HostingHarness(plain);
      scene.amendFails = failure('DEADLINE');
      scene.change({ opening, failures: 2 });
      const [write, read] = [scene.call('add', [1]), scene.call('read')];
      scene.run(500);
      assert.deepEqual([codeOf(write), codeOf(read)], ['none', 'none']);
      scene.amendFails = undefined;
      scene.run(1_000);
      assert.equal(valueOf(write), 1);
      assert.deepEqual([scene.record().phase, scene.record().failures], ['serving', 0]);
    });
  }

  it('ends when the leader has lost patience and another one opens it', () => {
    const scene = new HostingHarness(plain);
    scene.amendFails = failure('FENCED');
    scene.change({ opening: 'recover' });
    const call = scene.call('read');
    scene.run(500);
    assert.equal(codeOf(call), 'none', 'it waits for the table to say who has it');
    scene.remove();
    scene.run();
    assert.equal(codeOf(call), 'STALE_TABLE');
  });

  it('lets no call in before a slow callback has ended and is committed', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const seen: unknown[] = [];
    const scene = new HostingHarness(
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
    scene.change({ opening: 'recover' });
    const calls = Array.from({ length: 500 }, (_, n) => scene.call(n % 2 === 0 ? 'look' : 'peek'));
    for (let n = 0; n < 20; n++) {
      scene.run(100);
      await settle();
    }
    assert.deepEqual(seen, []);
    assert.equal(scene.host.lowestOpen(scene.pool), undefined);
    scene.commitsEnd = false;
    resolve();
    await settle();
    scene.run();
    assert.deepEqual(seen, [], 'what recover wrote is not committed yet');
    scene.commitsEnd = true;
    scene.log.end();
    scene.run();
    assert.deepEqual(new Set(calls.map(codeOf)), new Set(['ok']));
    assert.equal(seen.length, 500);
    assert.deepEqual(new Set(seen), new Set([true]));
  });

  it('waits for the lease', () => {
    const scene = new HostingHarness(plain);
    scene.lease(false);
    scene.change({});
    scene.run(60_000);
    assert.equal(scene.logs.length, 0);
    assert.equal(codeOf(scene.call('read')), 'NO_QUORUM');
    scene.lease(true);
    scene.run();
    assert.equal(valueOf(scene.call('read')), null);
  });

  it('waits for the module, and tells the leader when it does not come', () => {
    const scene = new HostingHarness(undefined);
    scene.change({});
    scene.run(9_999);
    assert.equal(scene.record().failures, 0);
    scene.run(2);
    assert.equal(scene.record().failures, 1);
    assert.match(scene.record().note, /module m of version 0 is not loaded/);
    scene.load(plain);
    scene.run();
    assert.equal(valueOf(scene.call('read')), null);
    assert.equal(scene.record().failures, 0);
  });

  it('that fails is told to the leader, and is tried again under the next fence only', () => {
    const scene = new HostingHarness(
      module('m', {
        methods,
        recover: () => {
          throw new Error('no way');
        },
      }),
    );
    scene.change({ opening: 'recover' });
    const call = scene.call('read');
    scene.run(60);
    const { failures, note, phase } = scene.record();
    assert.deepEqual([failures, phase], [1, 'opening']);
    assert.match(note, /no way/);
    assert.deepEqual([scene.logs.length, scene.log.isClosed], [1, true]);
    assert.equal(codeOf(call), 'none', 'it waits for whoever opens it next');
    scene.load(plain);
    scene.change({ fence: fenceOf(1, 2) });
    scene.run();
    assert.equal(valueOf(call), null);
  });

  it('that fails because there is no majority is tried again', () => {
    const scene = new HostingHarness(plain);
    scene.openFails = failure('NO_QUORUM');
    scene.change({});
    scene.run(100);
    scene.openFails = undefined;
    scene.run(1_000);
    assert.equal(valueOf(scene.call('read')), null);
    assert.equal(scene.record().failures, 0);
  });

  it('of damaged rows is refused', () => {
    const scene = new HostingHarness(plain);
    scene.disk(0).set('tname', new Uint8Array([7]));
    scene.change({ opening: 'recover' });
    scene.run();
    assert.equal(scene.record().failures, 1);
    assert.equal(scene.host.lowestOpen(scene.pool), undefined);
  });
});

describe('closing', () => {
  it('is at once when somebody else owns it: those who wait look elsewhere, those who ran send again', () => {
    const scene = new HostingHarness(plain);
    scene.open();
    scene.commitsEnd = false;
    const add = scene.call('add', [1]);
    scene.change({ owner: { node: other, generation: 1 }, fence: fenceOf(2, 1) });
    assert.equal(codeOf(add), 'FENCED');
    assert.equal(codeOf(scene.call('read')), 'STALE_TABLE');
    scene.run();
    assert.equal(scene.log.isClosed, true);
    assert.deepEqual(scene.host.containers(), []);
    assert.equal(scene.events.at(-1)?.kind, 'closed');
  });

  it('answers those who wait for an opening that is not ours any more', () => {
    const scene = new HostingHarness(plain);
    scene.holdLogs = true;
    scene.change({});
    const call = scene.call('read');
    scene.run();
    scene.change({ owner: { node: other, generation: 1 }, fence: fenceOf(2, 1) });
    assert.equal(codeOf(call), 'STALE_TABLE');
    for (const open of scene.heldLogs) open();
    scene.run();
    assert.equal(scene.log.isClosed, true, 'a log that comes late is closed');
  });

  it('aborts what runs', () => {
    let ctx: Context | undefined;
    const scene = new HostingHarness(
      module('m', { methods: { wait: (given) => ((ctx = given), given.signal, new Promise(() => {})) } }),
    );
    scene.open();
    const call = scene.call('wait');
    scene.remove();
    assert.equal(codeOf(call), 'FENCED');
    assert.equal(ctx?.signal.aborted, true);
    assert.throws(() => ctx?.state.set('a', 1), /the call is over/);
  });

  it('and opening under a higher fence keeps what is committed and those who wait', () => {
    const scene = new HostingHarness(plain);
    scene.open();
    const add = scene.call('add', [1], { counter: 1 });
    scene.run();
    assert.equal(valueOf(add), 1);
    scene.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening' });
    const read = scene.call('read');
    const again = scene.call('add', [1], { counter: 1 });
    assert.equal(codeOf(read), 'none');
    scene.run();
    assert.deepEqual([valueOf(read), valueOf(again)], [1, 1]);
    assert.equal(scene.logs.length, 2);
    assert.deepEqual(
      scene.events.map(({ kind }) => kind),
      ['opened', 'closed', 'opened'],
    );
  });

  it('does not open what belongs to an earlier life of this node, or a record of an older fence', () => {
    const scene = new HostingHarness(plain);
    scene.change({ owner: { node: self.id, generation: self.generation - 1 } });
    scene.run();
    assert.equal(scene.logs.length, 0);
    scene.open({ owner, fence: fenceOf(2, 2) });
    scene.change({ fence: fenceOf(1, 1) });
    scene.run();
    assert.equal(scene.logs.length, 1);
  });

  it('because the log is lost is told to the leader, who does not take it for a new one', () => {
    const scene = new HostingHarness(plain);
    scene.open();
    scene.call('add', [1]);
    scene.run();
    scene.log.lost('the disk is gone');
    scene.run();
    const { phase, opening, failures, note } = scene.record();
    assert.deepEqual([phase, opening, failures, note], ['opening', 'recover', 1, 'the disk is gone']);
    const read = scene.call('read');
    scene.run(100);
    assert.equal(codeOf(read), 'none');
    scene.change({ fence: fenceOf(1, 2) });
    scene.run();
    assert.equal(valueOf(read), 1);
  });

  it("blames nobody any more once the container is another node's", () => {
    const scene = new HostingHarness(plain);
    scene.open();
    scene.amendFails = failure('DEADLINE');
    scene.log.lost('the disk is gone');
    scene.run(5_000);
    scene.change({ owner: { node: other, generation: 1 }, fence: fenceOf(2, 1) });
    scene.amendFails = undefined;
    scene.run(60_000);
    assert.equal(scene.record().failures, 0);
  });
});
