/**
 * Routes of admin commands: drain, activate, leave, rebalance, manager group. Any node accepts them for any datacenter.
 */
import type { ApiRoute } from '../../base/http-routes.ts';
import { objectReply } from './replies.ts';
import { type AdminActionName, executeAdminCommand } from '../admin/admin-actions.ts';
import type { NodeCore } from '../core/node-core-types.ts';

export function adminRoutes(core: NodeCore): readonly ApiRoute[] {
  const route = (method: ApiRoute['method'], path: string, action: AdminActionName): ApiRoute => ({
    method,
    path,
    handler: async ({ params: { name }, query: { dc }, body }) => {
      const result = await executeAdminCommand(core, { action, name, dc: name === undefined ? dc : undefined }, body);
      return objectReply(result);
    },
  });
  return [
    route('GET', '/v1/nodes/:name', 'show'),
    route('POST', '/v1/nodes/:name/drain', 'drain'),
    route('POST', '/v1/nodes/:name/activate', 'activate'),
    route('POST', '/v1/nodes/:name/leave', 'leave'),
    route('GET', '/v1/balance', 'balance'),
    route('POST', '/v1/rebalance', 'rebalance'),
    route('POST', '/v1/managers/:name/add', 'addManager'),
    route('POST', '/v1/managers/:name/promote', 'promoteManager'),
    route('POST', '/v1/managers/:name/remove', 'removeManager'),
    route('POST', '/v1/transfer', 'transfer'),
  ];
}
