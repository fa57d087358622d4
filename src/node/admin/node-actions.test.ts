/** `node show` while the directory of the node that replies lags behind the registry. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import type { NodeStateRecord } from '../../registration/registration-records.ts';
import type { MemberRow } from '../membership/member-rows.ts';
import type { AdminContext } from './admin-context.ts';
import { show } from './node-actions.ts';

const stale: NodeStateRecord = {
  ...{ generation: 1, epoch: 1, mode: 'draining', reason: 'admin_drain' },
  ...{ lost: false, sinceWallMs: 1_000, note: 'new disk' },
};

/** Shows node b, which the directory still has as draining. */
async function shown(cluster: DrainTestCluster, state: MemberRow['state'] = 'alive') {
  const { operations } = cluster;
  const control = { operations, registration: { stateOf: () => stale } };
  const context = { core: { identity: { dc: 'd' } }, control, args: {} } as unknown as AdminContext;
  const { id, name } = cluster.node('b');
  const row = { id, name, dc: 'd', state, registration: 'draining', registrationReason: 'admin_drain' };
  const reply = show(context, row as unknown as MemberRow);
  cluster.run(10_000);
  const { registration, registrationReason, reason, note, drain } = (await reply) as Record<string, unknown>;
  const { phase } = (drain ?? { phase: null }) as { phase: unknown };
  return { registration, registrationReason, reason, note, phase };
}

describe('node show', () => {
  test('shows registration, reason and drain of one read', async () => {
    const cluster = startedCluster(2);
    cluster.node('b').setMode('drained', 'drain_complete');
    assert.deepEqual(await shown(cluster), {
      ...{ registration: 'drained', registrationReason: 'drain_complete', reason: 'drain_complete', note: '' },
      phase: 'drained',
    });
    cluster.node('b').setMode('active', 'admin_activate');
    assert.deepEqual(await shown(cluster), {
      ...{ registration: 'active', registrationReason: 'admin_activate', reason: 'admin_activate', note: '' },
      phase: 'not draining',
    });
    assert.equal((await shown(cluster, 'dead')).registration, 'lost');
  });

  test('shows a node without a registration as lost', async () => {
    const cluster = startedCluster(2);
    cluster.node('b').kill();
    cluster.run(10_000);
    assert.equal((await shown(cluster)).registration, 'lost');
  });

  test('shows what the directory knows while the registry does not reply', async () => {
    const cluster = startedCluster(2);
    cluster.registry.interrupt('NO_QUORUM');
    assert.deepEqual(await shown(cluster), {
      ...{ registration: 'draining', registrationReason: 'admin_drain', reason: 'admin_drain', note: 'new disk' },
      phase: null,
    });
  });
});
