import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { failure } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { type Callbacks, type Context, module } from '../module.ts';
import {
  codeOf,
  other,
  owner,
  HostingHarness,
  settle,
  valueOf,
} from '../../../test/support/containers/hosting-harness.ts';

const copying = { to: other, cause: 'admin', step: 'copying' } as const;
const handing = { ...copying, step: 'handing' } as const;

function moving(callbacks: Callbacks = {}) {
  const gates: (() => void)[] = [];
  const contexts: Context[] = [];
  const definition = module('m', {
    methods: {
      add: (ctx, by: number) => {
        const n = (ctx.state.get<number>('n') ?? 0) + by;
        ctx.state.set('n', n);
        return n;
      },
      read: { readonly: true, run: (ctx) => ctx.state.get<number>('n') ?? null },
      slow: async (ctx) => {
        contexts.push(ctx);
        await new Promise<void>((resolve) => gates.push(resolve));
        ctx.state.set('n', 100);
      },
    },
    ...callbacks,
  });
  const harness = new HostingHarness(definition);
  harness.open();
  return { harness, gates, contexts };
}

describe('a move', () => {
  it('waits for running calls, holds new ones, hands over and ends held calls with STALE_TABLE', async () => {
    const order: string[] = [];
    let work = 2;
    const { harness, gates } = moving({
      workRemaining: () => {
        order.push('workRemaining');
        return work--;
      },
      migrate: (ctx, to) => {
        order.push(`migrate to ${to.name}`);
        ctx.state.set('moved', true);
      },
    });
    harness.change({ move: copying });
    const slow = harness.call('slow', [], { counter: 1 });
    harness.change({ move: handing });
    const waiting = [harness.call('add', [1], { counter: 2 }), harness.call('read')];
    harness.run(20_000);
    assert.deepEqual([codeOf(slow), ...waiting.map(codeOf), order.length], ['none', 'none', 'none', 0]);
    assert.equal(harness.callStatus(2), 'waiting');
    gates[0]?.();
    await settle();
    harness.run(200);
    assert.equal(codeOf(slow), 'ok');
    assert.deepEqual(order, ['workRemaining', 'workRemaining', 'workRemaining', 'migrate to n2']);
    assert.deepEqual(harness.record().move, { ...handing, step: 'handed' });
    assert.deepEqual(waiting.map(codeOf), ['STALE_TABLE', 'STALE_TABLE']);
    assert.equal(codeOf(harness.call('read')), 'STALE_TABLE');
    assert.equal(harness.log.isClosed, true);
    assert.ok(harness.disk(0).has('smoved'));
    assert.equal(harness.logs.length, 1, 'the container is not opened again under that fence');
  });

  it('waits for pending commits', () => {
    const { harness } = moving();
    harness.commitsEnd = false;
    const add = harness.call('add', [1]);
    harness.change({ move: handing });
    harness.run(1_000);
    assert.equal(harness.record().move?.step, 'handing');
    harness.log.end();
    harness.run();
    assert.equal(valueOf(add), 1);
    assert.equal(harness.record().move?.step, 'handed');
  });

  it('that takes too long is cancelled, and calls go on here', () => {
    const { harness } = moving();
    harness.call('slow', [], { remainingMs: 1_000_000 });
    harness.change({ move: handing });
    const read = harness.call('read', [], { remainingMs: 60_000 });
    harness.run(29_999);
    assert.equal(codeOf(read), 'none');
    harness.run(2);
    assert.equal(valueOf(read), null);
    assert.equal(harness.record().move, undefined);
    assert.match(harness.record().note, /move to n2 was cancelled: the container did not drain within 30000 ms/);
    assert.equal(harness.log.isClosed, false);
  });

  it('is cancelled if the module refuses it', () => {
    const { harness } = moving({
      migrate: () => {
        throw new Error('I stay');
      },
    });
    harness.change({ move: handing });
    const add = harness.call('add', [1]);
    harness.run();
    harness.run();
    assert.equal(valueOf(add), 1);
    assert.match(harness.record().note, /migrate failed: I stay/);
  });

  it('is cancelled if work remains for too long; the same move can be requested again', () => {
    let work = 1;
    const { harness } = moving({ workRemaining: () => work });
    harness.change({ move: handing });
    harness.run(30_100);
    assert.equal(harness.record().move, undefined);
    work = 0;
    harness.change({ move: copying });
    harness.change({ move: handing });
    harness.run();
    assert.equal(harness.record().move?.step, 'handed');
  });

  it('is not started again by a stale record that still has the cancelled move', () => {
    const { harness } = moving({ workRemaining: () => 1 });
    harness.change({ move: handing });
    harness.updateFails = failure('DEADLINE');
    harness.run(30_100);
    assert.equal(valueOf(harness.call('read')), null);
    harness.announce();
    assert.equal(valueOf(harness.call('read')), null);
  });

  it('ends at once when the leader cancels it', () => {
    const { harness } = moving();
    harness.call('slow');
    harness.change({ move: handing });
    const read = harness.call('read');
    harness.change({ move: undefined });
    assert.equal(valueOf(read), null);
  });

  it('to a node outside the ISR is refused', () => {
    const { harness } = moving();
    harness.change({ move: handing, inSync: [owner] });
    const read = harness.call('read');
    harness.run();
    harness.run();
    assert.equal(valueOf(read), null);
    assert.equal(harness.record().move, undefined);
  });

  it('serves no call while the outcome of the handover is unknown', () => {
    const { harness } = moving();
    harness.updateFails = failure('DEADLINE');
    harness.change({ move: handing });
    const read = harness.call('read', [], { remainingMs: 100_000 });
    harness.run(60_000);
    assert.equal(codeOf(read), 'none');
    harness.change({ move: undefined });
    assert.equal(codeOf(read), 'none', 'even if a stale record has no move');
    harness.updateFails = undefined;
    harness.run(2_000);
    assert.equal(valueOf(read), null);
  });

  it('back under a new fence opens the container here again with its state', () => {
    const { harness } = moving();
    harness.call('add', [7], { counter: 1 });
    harness.run();
    harness.change({ move: handing });
    harness.run();
    assert.equal(codeOf(harness.call('read')), 'STALE_TABLE');
    harness.change({ fence: fenceOf(1, 2), move: undefined, opening: 'migrate', phase: 'opening' });
    const [read, again] = [harness.call('read'), harness.call('add', [7], { counter: 1 })];
    harness.run();
    assert.deepEqual([valueOf(read), valueOf(again)], [7, 7]);
  });

  it('that has completed closes the container here', () => {
    const { harness } = moving();
    harness.change({ move: handing });
    harness.run();
    harness.change({ owner: { node: other, generation: 1 }, fence: fenceOf(1, 2), move: undefined });
    harness.run();
    assert.deepEqual(harness.host.containers(), []);
  });

  it('starts as soon as the container is open if the record already has it', () => {
    const { harness } = moving();
    harness.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening', move: handing });
    const read = harness.call('read');
    harness.run();
    harness.run();
    assert.equal(codeOf(read), 'STALE_TABLE');
    assert.equal(harness.record().move?.step, 'handed');
  });

  it('does not call the module while the lease does not hold', () => {
    let migrated = 0;
    const { harness } = moving({ migrate: () => void (migrated += 1) });
    harness.lease(false);
    harness.change({ move: handing });
    harness.run(1_000);
    assert.equal(migrated, 0);
    harness.lease(true);
    harness.run();
    assert.equal(migrated, 1);
  });
});
