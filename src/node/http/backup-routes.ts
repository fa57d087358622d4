/**
 * Routes that read and restore registry backups in parts. A backup is restored only in its own cluster and datacenter.
 */
import { RemusterError, toPromise } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { objectReply } from './replies.ts';
import { requireControlPlane, argumentsOfBody } from '../admin/admin-context.ts';
import { backupName } from '../control-plane/registry-backups.ts';
import { reasonArgument } from '../control-plane/command-arguments.ts';
import type { NodeCore } from '../core/node-core-types.ts';

const partTimeoutMs = 30_000;

export function backupRoutes(core: NodeCore, cluster: string): readonly ApiRoute[] {
  const name = backupName(cluster, core.identity.dc);
  return [
    { method: 'GET', path: '/v1/registry/snapshot', handler: async (request) => await save(core, name, request) },
    { method: 'POST', path: '/v1/registry/snapshot', handler: async (request) => await restore(core, name, request) },
  ];
}

/** Without a query a new backup and its first part; `?id=&offset=` another part of it. */
async function save(core: NodeCore, cluster: string, { query }: ApiRequest): Promise<ApiResponse> {
  const { id, offset = '0' } = query;
  if (!/^\d{1,15}$/.test(offset)) throw new RemusterError('BAD_ARGUMENT', 'offset must be a whole number');
  const args = { cluster, ...(id === undefined ? {} : { id }), offset: Number(offset) };
  const { commands } = requireControlPlane(core);
  const part = await toPromise<unknown>((done) => commands.send('backup-part', args, partTimeoutMs, done));
  return objectReply({ cluster, ...(part as object) });
}

/** `{id, offset, bytes, last}` in order; `id` is new for each restore. */
async function restore(core: NodeCore, cluster: string, { body }: ApiRequest): Promise<ApiResponse> {
  const fields = argumentsOfBody(body);
  const { id, offset, bytes, last = false } = fields;
  const control = requireControlPlane(core);
  if (last === true) control.recordAdminEvent('registry-restore', { reason: reasonArgument(fields) });
  const args = { cluster, id, offset, bytes, last };
  const result = await toPromise<unknown>((done) => control.commands.send('restore-part', args, partTimeoutMs, done));
  return objectReply({ cluster, ...(result as object) });
}
