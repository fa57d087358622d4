/**
 * Loopback HTTP server of a dev cluster for kill, restart, pause, resume, partition and heal. Accepts only requests
 * with the nonce of the state file.
 */
import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serializeError, isRemusterError, RemusterError } from '../../base/errors.ts';
import type { DevCluster } from './dev-cluster.ts';
import type { DevNode } from '../command/dev-state.ts';
import { activateCommand } from '../../registration/node-modes.ts';
import { devHost, parseGroups } from './dev-plan.ts';

export const devVerbs = ['kill', 'restart', 'pause', 'resume', 'partition', 'heal'] as const;
export type DevVerb = (typeof devVerbs)[number];

/** What was done: `done` is for people, the other fields are for programs. */
export type DevVerbResult = {
  readonly verb: DevVerb;
  readonly done: string;
  /** Each with the command that helps. */
  readonly warnings: readonly string[];
  readonly node?: DevNode & { readonly registration?: string | null };
  readonly groups?: readonly (readonly string[])[];
};

export type DevControlServer = { readonly url: string; readonly close: () => void };

const requestBytesMax = 8_192;

/** `onChange` is called after each verb: a node may have a new process id, which belongs in the state file. */
export async function serveDevControl(
  cluster: DevCluster,
  notify: (text: string) => void,
  onChange: (url: string) => void,
): Promise<DevControlServer> {
  const url = (): string => `http://${devHost}:${(server.address() as AddressInfo).port}`;
  const report = (text: string): void => {
    notify(text);
    onChange(url());
  };
  const server = createServer((request, response) => void respond(cluster, request, response, report));
  server.requestTimeout = 5_000;
  await listening(server);
  return {
    url: url(),
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
  report: (text: string) => void,
): Promise<void> {
  const { status, body } = await handle(cluster, request, report);
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
  response.end(JSON.stringify(body));
}

async function handle(
  cluster: DevCluster,
  request: IncomingMessage,
  report: (text: string) => void,
): Promise<{ status: number; body: unknown }> {
  try {
    if (!isAuthorized(request, cluster.nonce)) throw new RemusterError('UNAUTHENTICATED');
    const verb = devVerbs.find((one) => request.method === 'POST' && request.url === `/${one}`);
    if (verb === undefined) throw new RemusterError('UNKNOWN_METHOD');
    const { names = '' } = JSON.parse(await bodyOf(request)) as { names?: string };
    const result = await execute(cluster, verb, names);
    for (const text of [result.done, ...result.warnings]) report(text);
    return { status: 200, body: result };
  } catch (error) {
    const shape = serializeError(error);
    return { status: isRemusterError(error) ? error.row.httpStatus : 500, body: { error: shape } };
  }
}

async function execute(cluster: DevCluster, verb: DevVerb, names: string): Promise<DevVerbResult> {
  if (verb === 'heal') {
    await cluster.partition([]);
    return { verb, done: 'healed: all links are restored', warnings: [] };
  }
  if (verb === 'partition') {
    const known = cluster.nodes.map((node) => node.name);
    const groups = parseGroups(names, known);
    await cluster.partition(groups);
    return { verb, done: `cut: ${groups.map((group) => group.join(',')).join(' / ')}`, groups, warnings: [] };
  }
  if (verb === 'restart') return await restart(cluster, names);
  const child = cluster.process(names);
  if (verb === 'kill') {
    child.kill();
    await child.ended;
  } else if (verb === 'pause') child.pause();
  else child.resume();
  const node = cluster.nodes.find(({ name }) => name === names);
  const done = `${verb === 'kill' ? 'killed' : `${verb}d`}: ${names} (pid ${child.pid})`;
  return { verb, done, warnings: [], ...(node === undefined ? {} : { node }) };
}

/** A node that returns after its registration expired may be drained: it looks healthy, but gets no work. */
async function restart(cluster: DevCluster, name: string): Promise<DevVerbResult> {
  const node = await cluster.restart(name);
  const registration = await cluster.registrationOf(name);
  const warnings = registration === 'drained' ? [`${name} is drained and gets no work: ${activateCommand(name)}`] : [];
  const done = `restarted: ${name} (pid ${node.pid})`;
  return { verb: 'restart', done, warnings, node: { ...node, registration: registration ?? null } };
}

function isAuthorized(request: IncomingMessage, nonce: string): boolean {
  const given = Buffer.from(request.headers.authorization ?? '');
  const expected = Buffer.from(`Bearer ${nonce}`);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk;
    if (text.length > requestBytesMax) throw new RemusterError('TOO_LARGE', undefined, 'no');
  }
  return text === '' ? '{}' : text;
}
