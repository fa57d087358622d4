/**
 * Exports and imports a pool container by container, through calls that every container supports: the owner may change
 * meanwhile, and imports are as durable as any write.
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

type ContainerAddress = { readonly pool: string; readonly id: number };
type PoolTransferPorts = Pick<ContainerService, 'calls' | 'table'>;

/** `containers` is undefined on a node without containers. */
export function poolTransferRoutes(containers: () => PoolTransferPorts | undefined): readonly ApiRoute[] {
  const ports = (): PoolTransferPorts => {
    const found = containers();
    if (found === undefined)
      throw new RemusterError('PRECONDITION', 'this node does not take part in containers', 'no');
    return found;
  };
  return [
    {
      method: 'POST',
      path: '/v1/pools/:pool/export/:id',
      handler: async (request) => await exportOne(ports(), containerOf(request)),
    },
    {
      method: 'POST',
      path: '/v1/pools/:pool/import/:id',
      handler: async (request) => await importPage(ports(), containerOf(request), argumentsOfBody(request.body)),
    },
  ];
}

function containerOf({ params: { pool = '', id = '' } }: ApiRequest): ContainerAddress {
  if (/^\d{1,15}$/.test(id)) return { pool, id: Number(id) };
  throw new RemusterError('BAD_ARGUMENT', 'the number of the container must be a whole number');
}

/** Rows, then `{"end", "rows", "sum"}`; `{"error"}` instead if the export failed. */
async function exportOne({ calls }: PoolTransferPorts, { pool, id }: ContainerAddress): Promise<ApiResponse> {
  const stream = await callContainer(calls.session('export'), { pool, id }, transferNames.export, [], {
    timeoutMs: exportTimeoutMs,
  });
  const pages = stream as AsyncIterable<readonly TransferRow[]>;
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
 * `{callId, first, rows, module, containers}`. The first page replaces the whole container, to which no other caller
 * may have written. A repeated call id is the same page.
 */
async function importPage(
  { calls, table }: PoolTransferPorts,
  container: ContainerAddress,
  args: CommandArguments,
): Promise<ApiResponse> {
  const { callId, first, rows, module, containers } = args;
  if (typeof callId !== 'string' || typeof first !== 'boolean' || !Array.isArray(rows))
    throw new RemusterError(
      'BAD_ARGUMENT',
      'the body must be {"callId", "first", "rows": [...], "module", "containers"}',
    );
  const { record } = table.pool(container.pool) ?? {};
  if (record !== undefined && (record.module !== module || record.containers !== containers))
    throw new RemusterError(
      'PRECONDITION',
      `pool ${container.pool} has ${record.containers} containers of ${record.module}, not ${String(containers)} of ${String(module)}`,
      'no',
    );
  const page = [first, rows.map(rowIn)];
  const options = { callId, timeoutMs: importTimeoutMs };
  const imported = await callContainer(calls.session('import'), container, transferNames.import, page, options);
  return objectReply({ imported });
}

function rowIn(row: unknown): TransferRow {
  const fields = (typeof row === 'object' && row !== null ? row : {}) as Partial<Record<'s' | 't' | 'v', unknown>>;
  const { s, t, v } = fields;
  const key = s ?? t;
  if (typeof key !== 'string' || typeof v !== 'string')
    throw new RemusterError('BAD_ARGUMENT', 'a row must be {"s" or "t": key, "v": base64}');
  return [s === undefined ? 't' : 's', key, decodeBase64(v)];
}

async function callContainer(
  session: CallSession,
  { pool, id }: ContainerAddress,
  method: string,
  args: readonly unknown[],
  options: Parameters<CallSession['call']>[1],
): Promise<unknown> {
  return await session.call({ pool, method, args, route: { id } }, options);
}
