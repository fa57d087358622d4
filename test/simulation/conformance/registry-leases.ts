/** Conformance of Registry: grant, renewal, expiry and revocation of leases. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type LeaseId, type Registry, type RegistryChange, withPrefix } from '../../../src/base/registry.ts';
import { type OpenHarness, expectFailure } from './harness.ts';
import { type RegistryHarness, putOp, openRegistryScene } from './registry-harness.ts';

export function describeRegistryLeases(open: OpenHarness<RegistryHarness>): void {
  describeExpiry(open);
  describeRevoking(open);
  describeTimes(open);
}

function describeExpiry(open: OpenHarness<RegistryHarness>): void {
  it('deletes the keys of a lease when it expires, not earlier; a renewal keeps them; a watch sees it (DA-8)', async (t) => {
    const { world, here, there, after, watch } = await openRegistryScene(t, open);
    const { lease, ttlMs } = await here.grant(1_000);
    const { revision } = await here.write(putOp('other/before'));
    const watched = watch(withPrefix('nodes/'), revision + 1);
    await here.write(putOp('nodes/a', 'x', lease), putOp('other/a', 'y', lease), putOp('nodes/stays'));
    const startMs = world.clock.nowMs();
    let renewedMs = startMs;
    for (let i = 0; i < 2; i++) {
      await after(ttlMs * 0.6);
      renewedMs = world.clock.nowMs();
      assert.deepEqual(await (i === 0 ? here : there).keepAlive(lease), { ttlMs });
    }
    assert.ok(world.clock.nowMs() - startMs > ttlMs);
    assert.equal(await here.contents(withPrefix('nodes/')), 'nodes/a=x nodes/stays=');

    await watched.until(({ seen }) => seen.length === 2);
    assert.ok(world.clock.nowMs() - renewedMs >= ttlMs, 'the lease expired early');
    assert.deepEqual(watched.seen, ['+nodes/a=x +nodes/stays=', '-nodes/a']);
    assert.equal(await here.contents(), 'nodes/stays= other/before=');

    await expectFailure(world, 'LEASE_EXPIRED', (done: Parameters<Registry['keepAlive']>[2]) =>
      here.registry.keepAlive(lease, {}, done),
    );
    await here.refuses('LEASE_EXPIRED', { then: [putOp('nodes/b', 'x', lease)] });
    await here.revoke(lease);
  });
}

function leaseOf(change: RegistryChange | undefined): LeaseId | undefined {
  return change?.kind === 'put' ? change.entry.lease : undefined;
}

function describeRevoking(open: OpenHarness<RegistryHarness>): void {
  it('revokes a lease with all its keys in one revision; revoking it again is no error', async (t) => {
    const { here, there, watch } = await openRegistryScene(t, open);
    const { lease } = await here.grant(60_000);
    const { revision } = await here.write(putOp('b', '', lease), putOp('a', '', lease), putOp('c'));
    await there.write(putOp('d', '', lease));
    assert.equal((await here.entry('a'))?.lease, lease);
    const watched = watch(withPrefix(''), revision);
    await here.revoke(lease);
    assert.equal(await there.contents(), 'c=');
    await watched.until(({ seen }) => seen.length === 3);
    assert.deepEqual(watched.seen, ['+b= +a= +c=', '+d=', '-a -b -d']);
    assert.equal(leaseOf(watched.changes[0]), lease);
    await here.revoke(lease);
    await there.revoke('123456789' as LeaseId);
    await here.refuses('LEASE_EXPIRED', { then: [putOp('e', '', lease)] });
  });

  it('detaches a key that is written without the lease, or with another one', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const first = (await here.grant(60_000)).lease;
    const second = (await here.grant(60_000)).lease;
    assert.notEqual(first, second);
    await here.write(putOp('free', '1', first), putOp('moved', '1', first), putOp('held', '1', first));
    await here.write(putOp('free', '2'), putOp('moved', '2', second), putOp('held', '2', first));
    assert.equal((await here.entry('free'))?.lease, undefined);
    assert.equal((await here.entry('moved'))?.lease, second);
    await here.revoke(first);
    assert.equal(await here.contents(), 'free=2 moved=2');
    await here.revoke(second);
    assert.equal(await here.contents(), 'free=2');
  });
}

function describeTimes(open: OpenHarness<RegistryHarness>): void {
  it('grants at least the requested time, and returns the granted one', async (t) => {
    const { world, here } = await openRegistryScene(t, open);
    for (const requestedMs of [1_000, 1_500, 32_000, 86_400_000]) {
      const { lease, ttlMs } = await here.grant(requestedMs);
      assert.ok(ttlMs >= requestedMs, `${ttlMs} for ${requestedMs}`);
      assert.match(lease, /^\d+$/);
      assert.deepEqual(await here.keepAlive(lease), { ttlMs });
      await here.revoke(lease);
    }
    for (const ttlMs of [0, 999, 86_400_001, Number.NaN]) {
      await expectFailure(world, 'BAD_ARGUMENT', (done: Parameters<Registry['grant']>[2]) =>
        here.registry.grant(ttlMs, {}, done),
      );
    }
  });
}
