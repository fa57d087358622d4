/**
 * Exports and imports a pool container by container, through calls that every container answers, so the owner may
 * change meanwhile and imports are as durable as any write.
 */
import { RemusterError, serializeError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import type { CallSession } from '../../containers/contract.ts';
import { type TransferRow, transferNames } from '../../containers/hosting/bulk-transfer.ts';
import { ExportChecksum } from '../../containers/pool-export.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import type { ContainerService } from '../containers/container-service.ts';
import { decodeBase64, encodeBase64 } from '../../base/base64.ts';
import type { CommandArguments } from '../control-plane/command-arguments.ts';

/** Long enough for a full container and a slow reader. */
const exportTimeoutMs = 3_600_000;
const importTimeoutMs = 60_000;

type Place = { readonly pool: string; readonly id: number };
type PoolTransferParts = Pick<ContainerService, 'calls' | 'table'>;

/** Undefined on a node that has nothing to do with containers. */
export function poolTransferRoutes(containers: () => PoolTransferParts | undefined): readonly ApiRoute[] {
  const parts = (): PoolTransferParts => {
    const found = containers();
    if (found === undefined) throw new RemusterError('PRECONDITION', 'this node takes no part in containers', 'no');
    return found;
  };
  return [
    {
      method: 'POST',
      path: '/v1/pools/:pool/export/:id',
      handler: async (request) => await exportOne(parts(), placeOf(request)),
    },
    {
      method: 'POST',
      path: '/v1/pools/:pool/import/:id',
      handler: async (request) => await importPage(parts(), placeOf(request), argumentsOfBody(request.body)),
    },
  ];
}

function placeOf({ params: { pool = '', id = '' } }: ApiRequest): Place {
  if (/^\d{1,15}$/.test(id)) return { pool, id: Number(id) };
  throw new RemusterError('BAD_ARGUMENT', 'the number of a container is a whole number');
}

/** Rows, and at last `{"end", "rows", "sum"}`; an `{"error"}` instead when it broke off. */
async function exportOne({ calls }: PoolTransferParts, { pool, id }: Place): Promise<ApiResponse> {
  const flow = await called(calls.session('export'), { pool, id }, transferNames.export, [], {
    timeoutMs: exportTimeoutMs,
  });
  const pages = flow as AsyncIterable<readonly TransferRow[]>;
  return { status: 200, contentType: 'application/jsonl', chunks: linesOf(pages, id) };
}

async function* linesOf(pages: AsyncIterable<readonly TransferRow[]>, id: number): AsyncGenerator<string> {
  const sum = new ExportChecksum();
  try {
    for await (const page of pages) yield page.map((row) => rowText(row, sum)).join('');
    yield `${JSON.stringify(sum.end(id))}\n`;
  } catch (error) {
    yield `${JSON.stringify({ error: serializeError(error) })}\n`;
  }
}

function rowText([kind, key, value]: TransferRow, sum: ExportChecksum): string {
  const v = encodeBase64(value);
  const line = JSON.stringify(kind === 's' ? { s: key, v } : { t: key, v });
  sum.add(line);
  return `${line}\n`;
}

/**
 * `{callId, first, rows, module, containers}`. The rows of the first page take the place of everything in the container,
 * to which nobody else may have written before. The same call id again is the same page.
 */
async function importPage(
  { calls, table }: PoolTransferParts,
  place: Place,
  words: CommandArguments,
): Promise<ApiResponse> {
  const { callId, first, rows, module, containers } = words;
  if (typeof callId !== 'string' || typeof first !== 'boolean' || !Array.isArray(rows))
    throw new RemusterError(
      'BAD_ARGUMENT',
      'the body must be {"callId", "first", "rows": [...], "module", "containers"}',
    );
  const { record } = table.pool(place.pool) ?? {};
  if (record !== undefined && (record.module !== module || record.containers !== containers))
    throw new RemusterError(
      'PRECONDITION',
      `pool ${place.pool} has ${record.containers} containers of ${record.module}, not ${String(containers)} of ${String(module)}`,
      'no',
    );
  const page = [first, rows.map(rowIn)];
  const options = { callId, timeoutMs: importTimeoutMs };
  const imported = await called(calls.session('import'), place, transferNames.import, page, options);
  return objectReply({ imported });
}

function rowIn(row: unknown): TransferRow {
  const fields = (typeof row === 'object' && row !== null ? row : {}) as Partial<Record<'s' | 't' | 'v', unknown>>;
  const { s, t, v } = fields;
  const key = s ?? t;
  if (typeof key !== 'string' || typeof v !== 'string')
    throw new RemusterError('BAD_ARGUMENT', 'a row is {"s" or "t": key, "v": base64}');
  return [s === undefined ? 't' : 's', key, decodeBase64(v)];
}

async function called(
  session: CallSession,
  { pool, id }: Place,
  method: string,
  args: readonly unknown[],
  options: Parameters<CallSession['call']>[1],
): Promise<unknown> {
  return await session.call({ pool, method, args, route: { id } }, options);
}
