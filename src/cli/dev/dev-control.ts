/**
 * Loopback HTTP server of a dev cluster for kill, restart, pause, resume, partition, heal. Accepts only the nonce of
 * the state file.
 */
import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serializeError, isRemusterError, RemusterError } from '../../base/errors.ts';
import type { DevCluster } from './dev-cluster.ts';
import { devHost, parseGroups } from './dev-plan.ts';

export const devVerbs = ['kill', 'restart', 'pause', 'resume', 'partition', 'heal'] as const;
export type DevVerb = (typeof devVerbs)[number];

export type DevControlServer = { readonly url: string; readonly close: () => void };

const orderBytesMax = 8_192;

export async function serveDevControl(cluster: DevCluster, tell: (text: string) => void): Promise<DevControlServer> {
  const server = createServer((request, response) => void respond(cluster, request, response, tell));
  server.requestTimeout = 5_000;
  await listening(server);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${devHost}:${port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function listening(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, devHost, () => resolve());
  });
}

async function respond(
  cluster: DevCluster,
  request: IncomingMessage,
  response: ServerResponse,
  tell: (text: string) => void,
): Promise<void> {
  const { status, body } = await answer(cluster, request, tell);
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
  response.end(JSON.stringify(body));
}

async function answer(
  cluster: DevCluster,
  request: IncomingMessage,
  tell: (text: string) => void,
): Promise<{ status: number; body: unknown }> {
  try {
    if (!isAuthorized(request, cluster.nonce)) throw new RemusterError('UNAUTHENTICATED');
    const order = devVerbs.find((word) => request.method === 'POST' && request.url === `/${word}`);
    if (order === undefined) throw new RemusterError('UNKNOWN_METHOD');
    const { names = '' } = JSON.parse(await bodyOf(request)) as { names?: string };
    const done = await execute(cluster, order, names);
    tell(done);
    return { status: 200, body: { done } };
  } catch (error) {
    const shape = serializeError(error);
    return { status: isRemusterError(error) ? error.row.httpStatus : 500, body: { error: shape } };
  }
}

async function execute(cluster: DevCluster, order: DevVerb, names: string): Promise<string> {
  if (order === 'heal') {
    await cluster.partition([]);
    return 'healed: all links are back';
  }
  if (order === 'partition') {
    const known = cluster.nodes.map((node) => node.name);
    const groups = parseGroups(names, known);
    await cluster.partition(groups);
    return `cut: ${groups.map((group) => group.join(',')).join(' / ')}`;
  }
  if (order === 'restart') return `restarted: ${names} (pid ${(await cluster.restart(names)).pid})`;
  const node = cluster.process(names);
  if (order === 'kill') {
    node.kill();
    await node.ended;
  } else if (order === 'pause') node.pause();
  else node.resume();
  return `${order === 'kill' ? 'killed' : `${order}d`}: ${names} (pid ${node.pid})`;
}

function isAuthorized(request: IncomingMessage, nonce: string): boolean {
  const given = Buffer.from(request.headers.authorization ?? '');
  const wanted = Buffer.from(`Bearer ${nonce}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk;
    if (text.length > orderBytesMax) throw new RemusterError('TOO_LARGE');
  }
  return text === '' ? '{}' : text;
}
