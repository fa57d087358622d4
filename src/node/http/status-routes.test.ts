/** The managers that `GET /v1/managers` lists when etcd decides the leadership: they are candidates of no group. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIdFrom } from '../../base/ids.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { statusRoutes } from './status-routes.ts';

test('with an external registry the managers are candidates, one of them the leader', async () => {
  const member = (n: number, role: string) => ({
    ...{ id: nodeIdFrom(new Uint8Array(16).fill(n)), name: `${role[0]}${n}`, host: '10.0.0.1', port: n },
    ...{ dc: 'dc1', roles: [role], state: 'alive' },
  });
  const members = [member(1, 'manager'), member(2, 'manager'), member(3, 'worker')];
  const leader = members[1]?.id;
  const sources = {
    ...{ identity: { dc: 'dc1' }, members: () => members, isExternal: true },
    localInfo: () => ({ isMember: false, leader, term: 7, members: [] }),
  };
  const control = { groupInfo: { statusSources: () => sources } };
  const core = { identity: { dc: 'dc1' }, members: () => members, control } as unknown as NodeCore;
  const route = statusRoutes(core, 'test').find(({ path }) => path === '/v1/managers');
  const reply = await route?.handler({ params: {}, query: {}, body: undefined, lastEventId: undefined });
  assert.ok(reply !== undefined && 'json' in reply);
  const { items } = reply.json as { items: readonly { name: string; standing: string; leader: boolean }[] };
  assert.deepEqual(
    items.map(({ name, standing, leader: leads }) => [name, standing, leads]),
    [
      ['m1', 'candidate', false],
      ['m2', 'candidate', true],
    ],
  );
});
