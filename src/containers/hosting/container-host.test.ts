import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { fenceOf } from '../../base/fence.ts';
import { type Context, module } from '../module.ts';
import { codeOf, other, HostingHarness, settle, valueOf } from '../../../test/support/containers/hosting-harness.ts';

const methods = {
  add: (ctx: Context, by: number) => {
    const n = (ctx.state.get<number>('n') ?? 0) + by;
    ctx.state.set('n', n);
    return n;
  },
  read: { readonly: true, run: (ctx: Context) => ctx.state.get<number>('n') ?? null },
};

const plain = module('m', { methods });

describe('a node that joined', () => {
  it('is told to each open container, as a writing turn', () => {
    const seen: unknown[] = [];
    const scene = new HostingHarness(
      module('m', {
        methods,
        expand: (ctx, node) => {
          seen.push([ctx.container, node.name]);
          ctx.state.set('n', 50);
        },
      }),
    );
    scene.open();
    scene.open({}, 3);
    scene.host.nodeJoined({ id: other, name: 'n2', containers: 0 });
    scene.run();
    assert.deepEqual(seen, [
      [0, 'n2'],
      [3, 'n2'],
    ]);
    assert.equal(valueOf(scene.call('read')), 50);
  });

  it("is nobody's business when the callback throws", () => {
    const scene = new HostingHarness(
      module('m', {
        methods,
        expand: () => {
          throw new Error('full');
        },
      }),
    );
    scene.open();
    scene.host.nodeJoined({ id: other, name: 'n2', containers: 0 });
    scene.run();
    assert.ok(scene.lines.some(({ message }) => message === 'expand failed'));
    assert.equal(valueOf(scene.call('read')), null);
  });
});

it('shows what it owns', () => {
  const scene = new HostingHarness(plain);
  scene.open({}, 2);
  scene.open({}, 1);
  assert.equal(scene.host.lowestOpen(scene.pool), 1);
  assert.deepEqual(
    scene.host.containers().map(({ pool, id, role, fence, inSync }) => [pool, id, role, fence, inSync]),
    [
      ['p', 1, 'owner', String(fenceOf(1, 1)), true],
      ['p', 2, 'owner', String(fenceOf(1, 1)), true],
    ],
  );
  scene.remove(1);
  assert.equal(scene.host.lowestOpen(scene.pool), 2);
  scene.call('read', [], { container: 2 });
  assert.deepEqual([scene.host.load().open, scene.host.metrics.calls, scene.host.metrics.failed], [1, 1, 0]);
});

describe('stopping', () => {
  it('lets what runs end, refuses the rest, and closes the logs', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const scene = new HostingHarness(
      module('m', {
        methods: {
          slow: async (ctx) => {
            await promise;
            ctx.state.set('n', 1);
          },
          add: methods.add,
        },
      }),
    );
    scene.open();
    const [slow, add] = [scene.call('slow'), scene.call('add', [1])];
    let isDone = false;
    scene.host.stop(() => (isDone = true));
    assert.deepEqual([codeOf(add), codeOf(scene.call('add', [1]))], ['NO_QUORUM', 'NO_QUORUM']);
    scene.run(1_000);
    assert.equal(isDone, false);
    resolve();
    await settle();
    scene.run();
    assert.deepEqual([codeOf(slow), isDone, scene.log.isClosed], ['ok', true, true]);
    scene.change({ fence: fenceOf(5, 5) });
    scene.run();
    assert.equal(scene.logs.length, 1);
    assert.equal(scene.timeline.pending, 0, 'no timer is left behind');
  });

  it('has a bound', () => {
    const scene = new HostingHarness(module('m', { methods: { slow: () => new Promise(() => {}) } }));
    scene.open();
    const slow = scene.call('slow');
    let isDone = false;
    scene.host.stop(() => (isDone = true));
    scene.run(5_000);
    assert.deepEqual([codeOf(slow), isDone], ['FENCED', true]);
  });

  it('of nothing is done at once', () => {
    const scene = new HostingHarness(plain);
    let isDone = false;
    scene.host.stop(() => (isDone = true));
    scene.run();
    assert.equal(isDone, true);
  });
});
