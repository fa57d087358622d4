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

describe('the expand callback', () => {
  it('runs in each open container as a writing turn when a node joins', () => {
    const seen: unknown[] = [];
    const harness = new HostingHarness(
      module('m', {
        methods,
        expand: (ctx, node) => {
          seen.push([ctx.container, node.name]);
          ctx.state.set('n', 50);
        },
      }),
    );
    harness.open();
    harness.open({}, 3);
    harness.host.nodeJoined({ id: other, name: 'n2', containers: 0 });
    harness.run();
    assert.deepEqual(seen, [
      [0, 'n2'],
      [3, 'n2'],
    ]);
    assert.equal(valueOf(harness.call('read')), 50);
  });

  it('has no other effect than a log line when it throws', () => {
    const harness = new HostingHarness(
      module('m', {
        methods,
        expand: () => {
          throw new Error('full');
        },
      }),
    );
    harness.open();
    harness.host.nodeJoined({ id: other, name: 'n2', containers: 0 });
    harness.run();
    assert.ok(harness.lines.some(({ message }) => message === 'expand failed'));
    assert.equal(valueOf(harness.call('read')), null);
  });
});

it('a container host lists the containers that it owns', () => {
  const harness = new HostingHarness(plain);
  harness.open({}, 2);
  harness.open({}, 1);
  assert.equal(harness.host.lowestOpen(harness.pool), 1);
  assert.deepEqual(
    harness.host.containers().map(({ pool, id, role, fence, inSync }) => [pool, id, role, fence, inSync]),
    [
      ['p', 1, 'owner', String(fenceOf(1, 1)), true],
      ['p', 2, 'owner', String(fenceOf(1, 1)), true],
    ],
  );
  harness.remove(1);
  assert.equal(harness.host.lowestOpen(harness.pool), 2);
  harness.call('read', [], { container: 2 });
  assert.deepEqual([harness.host.load().open, harness.host.metrics.calls, harness.host.metrics.failed], [1, 1, 0]);
});

describe('stopping a container host', () => {
  it('waits for running calls, refuses the others, and closes the logs', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const harness = new HostingHarness(
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
    harness.open();
    const [slow, add] = [harness.call('slow'), harness.call('add', [1])];
    let isDone = false;
    harness.host.stop(() => (isDone = true));
    assert.deepEqual([codeOf(add), codeOf(harness.call('add', [1]))], ['NO_QUORUM', 'NO_QUORUM']);
    harness.run(1_000);
    assert.equal(isDone, false);
    resolve();
    await settle();
    harness.run();
    assert.deepEqual([codeOf(slow), isDone, harness.log.isClosed], ['ok', true, true]);
    harness.change({ fence: fenceOf(5, 5) });
    harness.run();
    assert.equal(harness.logs.length, 1);
    assert.equal(harness.timeline.pending, 0, 'no timer is left behind');
  });

  it('ends within a bound', () => {
    const harness = new HostingHarness(module('m', { methods: { slow: () => new Promise(() => {}) } }));
    harness.open();
    const slow = harness.call('slow');
    let isDone = false;
    harness.host.stop(() => (isDone = true));
    harness.run(5_000);
    assert.deepEqual([codeOf(slow), isDone], ['FENCED', true]);
  });

  it('waits until the module says that no work remains', async () => {
    let work = 3;
    const harness = new HostingHarness(module('m', { methods, workRemaining: () => --work }));
    harness.open();
    let isDone = false;
    harness.host.stop(() => (isDone = true), 20_000);
    await settle();
    harness.run(60);
    assert.deepEqual([work, isDone], [1, false]);
    await settle();
    harness.run(60);
    assert.deepEqual([work, isDone, harness.timeline.pending], [0, true, 0]);
  });

  it('does not wait for work that it cannot ask for, because the serving lease is lost', async () => {
    const harness = new HostingHarness(module('m', { methods, workRemaining: () => 1 }));
    harness.open();
    harness.leaseEndsSilently();
    let isDone = false;
    harness.host.stop(() => (isDone = true), 20_000);
    await settle();
    harness.run(100);
    assert.deepEqual([isDone, harness.timeline.pending], [true, 0]);
  });

  it('calls back each of several callers', () => {
    const harness = new HostingHarness(plain);
    harness.open();
    let count = 0;
    for (let caller = 0; caller < 2; caller++) harness.host.stop(() => (count += 1));
    harness.run(100);
    harness.host.stop(() => (count += 1));
    harness.run();
    assert.equal(count, 3);
  });

  it('ends at once without containers', () => {
    const harness = new HostingHarness(plain);
    let isDone = false;
    harness.host.stop(() => (isDone = true));
    harness.run();
    assert.equal(isDone, true);
  });
});
