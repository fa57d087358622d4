/** Routes of pools and containers, for this datacenter or `?dc=`. */
import { RemusterError } from '../../base/errors.ts';
import type { ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { type AdminActionName, executeAdminCommand } from '../admin/admin-actions.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import type { NodeCore } from '../core/node-core-types.ts';

type ArgumentsOf = (request: ApiRequest) => object;

export function poolRoutes(core: NodeCore): readonly ApiRoute[] {
  const route = (
    method: ApiRoute['method'],
    path: string,
    action: AdminActionName,
    argumentsOf: ArgumentsOf,
  ): ApiRoute => ({
    method,
    path,
    handler: async (request) =>
      objectReply(await executeAdminCommand(core, { action, dc: request.query['dc'] }, argumentsOf(request))),
  });
  return [
    route('GET', '/v1/pools', 'listPools', () => ({})),
    route('POST', '/v1/pools', 'createPool', ({ body }) => argumentsOfBody(body)),
    route('GET', '/v1/pools/:pool', 'showPool', poolArguments),
    route('DELETE', '/v1/pools/:pool', 'deletePool', deletionArguments),
    route('GET', '/v1/containers/:pool/:id', 'showContainer', containerArguments),
    route('GET', '/v1/containers/:pool/:id/explain', 'explainContainer', containerArguments),
    route('POST', '/v1/containers/:pool/:id/migrate', 'migrateContainer', (request) => ({
      ...argumentsOfBody(request.body),
      ...containerArguments(request),
    })),
  ];
}

/** `?from=` and `?limit=` page through the containers of a pool. */
function poolArguments({ params: { pool }, query: { from, limit } }: ApiRequest): object {
  return { pool, from: numberIn('from', from), limit: numberIn('limit', limit) };
}

/** `?reason=`, and `?dryRun` to see what would be deleted. */
function deletionArguments({ params: { pool }, query: { reason, dryRun } }: ApiRequest): object {
  return { pool, reason, dryRun: dryRun !== undefined && dryRun !== 'false' };
}

function containerArguments({ params: { pool, id } }: ApiRequest): object {
  return { pool, id: numberIn('the number of the container', id) };
}

function numberIn(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new RemusterError('BAD_ARGUMENT', `${name} must be a whole number`);
}
