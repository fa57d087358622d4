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
  const scene = new HostingHarness(definition);
  scene.open();
  return { scene, gates, contexts };
}

describe('a move', () => {
  it('lets what runs end, keeps calls waiting, hands over and sends everybody on', async () => {
    const order: string[] = [];
    let work = 2;
    const { scene, gates } = moving({
      workRemaining: () => {
        order.push('workRemaining');
        return work--;
      },
      migrate: (ctx, to) => {
        order.push(`migrate to ${to.name}`);
        ctx.state.set('moved', true);
      },
    });
    scene.change({ move: copying });
    const slow = scene.call('slow', [], { counter: 1 });
    scene.change({ move: handing });
    const waiting = [scene.call('add', [1], { counter: 2 }), scene.call('read')];
    scene.run(20_000);
    assert.deepEqual([codeOf(slow), ...waiting.map(codeOf), order.length], ['none', 'none', 'none', 0]);
    assert.equal(scene.standing(2), 'waiting');
    gates[0]?.();
    await settle();
    scene.run(200);
    assert.equal(codeOf(slow), 'ok');
    assert.deepEqual(order, ['workRemaining', 'workRemaining', 'workRemaining', 'migrate to n2']);
    assert.deepEqual(scene.record().move, { ...handing, step: 'handed' });
    assert.deepEqual(waiting.map(codeOf), ['STALE_TABLE', 'STALE_TABLE']);
    assert.equal(codeOf(scene.call('read')), 'STALE_TABLE');
    assert.equal(scene.log.isClosed, true);
    assert.ok(scene.disk(0).has('smoved'));
    assert.equal(scene.logs.length, 1, 'it is not opened again under that fence');
  });

  it('waits for the commits under way', () => {
    const { scene } = moving();
    scene.commitsEnd = false;
    const add = scene.call('add', [1]);
    scene.change({ move: handing });
    scene.run(1_000);
    assert.equal(scene.record().move?.step, 'handing');
    scene.log.end();
    scene.run();
    assert.equal(valueOf(add), 1);
    assert.equal(scene.record().move?.step, 'handed');
  });

  it('that takes too long is given up, and calls go on here', () => {
    const { scene } = moving();
    scene.call('slow', [], { remainingMs: 1_000_000 });
    scene.change({ move: handing });
    const read = scene.call('read', [], { remainingMs: 60_000 });
    scene.run(29_999);
    assert.equal(codeOf(read), 'none');
    scene.run(2);
    assert.equal(valueOf(read), null);
    assert.equal(scene.record().move, undefined);
    assert.match(scene.record().note, /move to n2 was given up: calls have not ended within 30000 ms/);
    assert.equal(scene.log.isClosed, false);
  });

  it('that the module refuses is given up', () => {
    const { scene } = moving({
      migrate: () => {
        throw new Error('I stay');
      },
    });
    scene.change({ move: handing });
    const add = scene.call('add', [1]);
    scene.run();
    scene.run();
    assert.equal(valueOf(add), 1);
    assert.match(scene.record().note, /migrate failed: I stay/);
  });

  it('whose work never ends is given up; the same move can be asked for again', () => {
    let work = 1;
    const { scene } = moving({ workRemaining: () => work });
    scene.change({ move: handing });
    scene.run(30_100);
    assert.equal(scene.record().move, undefined);
    work = 0;
    scene.change({ move: copying });
    scene.change({ move: handing });
    scene.run();
    assert.equal(scene.record().move?.step, 'handed');
  });

  it('is not begun again by a record that has not heard yet that it was given up', () => {
    const { scene } = moving({ workRemaining: () => 1 });
    scene.change({ move: handing });
    scene.amendFails = failure('DEADLINE');
    scene.run(30_100);
    assert.equal(valueOf(scene.call('read')), null);
    scene.announce();
    assert.equal(valueOf(scene.call('read')), null);
  });

  it('that the leader calls off ends at once', () => {
    const { scene } = moving();
    scene.call('slow');
    scene.change({ move: handing });
    const read = scene.call('read');
    scene.change({ move: undefined });
    assert.equal(valueOf(read), null);
  });

  it('to somebody who is not in sync is refused', () => {
    const { scene } = moving();
    scene.change({ move: handing, inSync: [owner] });
    const read = scene.call('read');
    scene.run();
    scene.run();
    assert.equal(valueOf(read), null);
    assert.equal(scene.record().move, undefined);
  });

  it('serves nobody while nobody knows whether it is handed over', () => {
    const { scene } = moving();
    scene.amendFails = failure('DEADLINE');
    scene.change({ move: handing });
    const read = scene.call('read', [], { remainingMs: 100_000 });
    scene.run(60_000);
    assert.equal(codeOf(read), 'none');
    scene.change({ move: undefined });
    assert.equal(codeOf(read), 'none', 'also when the record seems to call it off');
    scene.amendFails = undefined;
    scene.run(2_000);
    assert.equal(valueOf(read), null);
  });

  it('that comes back under a new fence is opened here again, with everything', () => {
    const { scene } = moving();
    scene.call('add', [7], { counter: 1 });
    scene.run();
    scene.change({ move: handing });
    scene.run();
    assert.equal(codeOf(scene.call('read')), 'STALE_TABLE');
    scene.change({ fence: fenceOf(1, 2), move: undefined, opening: 'migrate', phase: 'opening' });
    const [read, again] = [scene.call('read'), scene.call('add', [7], { counter: 1 })];
    scene.run();
    assert.deepEqual([valueOf(read), valueOf(again)], [7, 7]);
  });

  it('that has ended elsewhere closes it here', () => {
    const { scene } = moving();
    scene.change({ move: handing });
    scene.run();
    scene.change({ owner: { node: other, generation: 1 }, fence: fenceOf(1, 2), move: undefined });
    scene.run();
    assert.deepEqual(scene.host.containers(), []);
  });

  it('is begun as soon as the container is open, if the record says so already', () => {
    const { scene } = moving();
    scene.change({ fence: fenceOf(1, 2), opening: 'recover', phase: 'opening', move: handing });
    const read = scene.call('read');
    scene.run();
    scene.run();
    assert.equal(codeOf(read), 'STALE_TABLE');
    assert.equal(scene.record().move?.step, 'handed');
  });

  it('of which the lease ends in between does not call the module without it', () => {
    let migrated = 0;
    const { scene } = moving({ migrate: () => void (migrated += 1) });
    scene.lease(false);
    scene.change({ move: handing });
    scene.run(1_000);
    assert.equal(migrated, 0);
    scene.lease(true);
    scene.run();
    assert.equal(migrated, 1);
  });
});
