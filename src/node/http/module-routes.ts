/** Routes of modules: deploy, list, show, roll. */
import type { ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { type AdminActionName, executeAdminCommand } from '../admin/admin-actions.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import type { NodeCore } from '../core/node-core-types.ts';

export function moduleRoutes(core: NodeCore): readonly ApiRoute[] {
  const route = (method: ApiRoute['method'], path: string, action: AdminActionName): ApiRoute => ({
    method,
    path,
    handler: async (request) =>
      objectReply(await executeAdminCommand(core, { action, dc: request.query['dc'] }, argumentsOf(request))),
  });
  return [
    route('GET', '/v1/modules', 'listModules'),
    route('POST', '/v1/modules', 'deployModule'),
    route('GET', '/v1/modules/:module', 'showModule'),
    route('POST', '/v1/modules/:module/roll', 'rollModule'),
  ];
}

function argumentsOf({ params, body }: ApiRequest): object {
  return { ...argumentsOfBody(body), ...params };
}
