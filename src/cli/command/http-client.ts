/** HTTP requests to a node: JSON, timeouts, size limits, coded errors. Never retries. */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { RemusterError, parseStateChanged } from '../../base/errors.ts';
import { errorTable, type ErrorCode } from '../../base/error-table.ts';
import { trackEffect } from './command-effect.ts';
import { type ClusterTarget, defaultAddr } from './target.ts';

export type NodeReply = { readonly status: number; readonly body: unknown };

const replyBytesMax = 64 * 1_048_576;
const eventBytesMax = 4 * 1_048_576;
const defaultTimeoutMs = 10_000;
const idleTimeoutMs = 60_000;
const lineCharactersMax = 16 * 1_048_576;

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** Returns the JSON of a 2xx reply; throws the coded error of any other reply. */
export async function getJson(target: ClusterTarget, path: string, timeoutMs = defaultTimeoutMs): Promise<unknown> {
  return bodyOrThrow(await request(target, 'GET', path, undefined, timeoutMs));
}

export async function postJson(target: ClusterTarget, path: string, body: unknown): Promise<unknown> {
  return await sendJson(target, 'POST', path, body);
}

/** Sends a request that changes state. */
export async function sendJson(
  target: ClusterTarget,
  method: Exclude<Method, 'GET'>,
  path: string,
  body?: unknown,
  timeoutMs = defaultTimeoutMs,
): Promise<unknown> {
  return await trackEffect(async () => bodyOrThrow(await request(target, method, path, body, timeoutMs)));
}

/** A POST that only reads, such as a call of a readonly method: its failure never means that state has changed. */
export async function queryJson(
  target: ClusterTarget,
  path: string,
  body: unknown,
  timeoutMs = defaultTimeoutMs,
): Promise<unknown> {
  return bodyOrThrow(await request(target, 'POST', path, body, timeoutMs));
}

export function withQuery(path: string, query: Readonly<Record<string, string>>): string {
  return `${path}?${new URLSearchParams(query).toString()}`;
}

export function withDc(path: string, dc: string | undefined): string {
  return dc === undefined ? path : withQuery(path, { dc });
}

/** Returns the reply whatever its status: for a health check, 503 is data. */
export async function request(
  target: ClusterTarget,
  method: Method,
  path: string,
  body?: unknown,
  timeoutMs = defaultTimeoutMs,
): Promise<NodeReply> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return await readReply(await send(target, { method, path, body: text, timeoutMs }));
}

async function readReply(response: IncomingMessage): Promise<NodeReply> {
  const text = await readAll(response);
  return { status: response.statusCode ?? 0, body: parseJsonOrText(text) };
}

/** Yields server-sent events until the node ends the stream or the caller stops reading. */
export async function* readEvents(target: ClusterTarget, path: string): AsyncGenerator {
  const response = await send(target, { method: 'GET', path, body: undefined, timeoutMs: defaultTimeoutMs });
  if (response.statusCode !== 200) bodyOrThrow(await readReply(response));
  let rest = '';
  response.setEncoding('utf8');
  for await (const chunk of response as AsyncIterable<string>) {
    rest += chunk;
    if (rest.length > eventBytesMax)
      throw new RemusterError('TOO_LARGE', `the node sent an event of more than ${eventBytesMax} bytes`);
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const data = dataOf(block);
      if (data !== undefined) yield parseJsonOrText(data);
    }
  }
}

/**
 * Yields the lines of a reply as they arrive. UNREACHABLE when it breaks off; the caller checks that it is complete.
 */
export async function* postLines(target: ClusterTarget, path: string): AsyncGenerator<string> {
  const response = await send(target, { method: 'POST', path, body: undefined, timeoutMs: idleTimeoutMs });
  if (response.statusCode !== 200) bodyOrThrow(await readReply(response));
  response.setTimeout(idleTimeoutMs, () => response.destroy(new Error('the reply stalled')));
  let rest = '';
  response.setEncoding('utf8');
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > lineCharactersMax)
        throw new RemusterError('TOO_LARGE', `the node sent a line of more than ${lineCharactersMax} characters`);
      yield* lines;
    }
  } catch (error) {
    if (error instanceof RemusterError) throw error;
    throw new RemusterError('UNREACHABLE', 'the connection broke before the reply was complete', 'maybe');
  }
}

function dataOf(block: string): string | undefined {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith('data:'));
  return lines.length === 0 ? undefined : lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
}

type RequestSpec = {
  readonly method: Method;
  readonly path: string;
  readonly body: string | undefined;
  readonly timeoutMs: number;
};

async function send(target: ClusterTarget, { method, path, body, timeoutMs }: RequestSpec): Promise<IncomingMessage> {
  const headers: Record<string, string> = { accept: 'application/json, text/event-stream' };
  if (target.token !== undefined) headers['authorization'] = `Bearer ${target.token}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const url = new URL(path, target.addr);
  const request = url.protocol === 'https:' ? (await import('node:https')).request : httpRequest;
  return await new Promise((resolve, reject) => {
    // No agent: a command sends one or two requests, and a kept-alive connection would delay the end of the process.
    const sent = request(url, { method, headers, agent: false }, (response) => {
      sent.setTimeout(0);
      resolve(response);
    });
    sent.setTimeout(timeoutMs, () =>
      sent.destroy(new RemusterError('DEADLINE', `${url.origin} did not reply within ${Math.round(timeoutMs)} ms`)),
    );
    // A request that fails after the connection was established may have been executed.
    let isConnected = false;
    sent.on('socket', (socket) => socket.once('connect', () => (isConnected = true)));
    sent.on('error', (error) => {
      if (error instanceof RemusterError) return reject(error);
      const why = (error as NodeJS.ErrnoException).code ?? error.message;
      const next = url.origin === defaultAddr ? ': start a cluster with `remuster dev`, or name one with --addr' : '';
      const message = `cannot reach ${url.origin} (${why})${next}`;
      reject(new RemusterError('UNREACHABLE', message, isConnected ? 'maybe' : 'no'));
    });
    sent.end(body);
  });
}

async function readAll(response: IncomingMessage): Promise<string> {
  response.setTimeout(defaultTimeoutMs, () => response.destroy(new Error('the reply stalled')));
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > replyBytesMax)
        throw new RemusterError('TOO_LARGE', `the reply of the node has more than ${replyBytesMax} bytes`, 'maybe');
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof RemusterError) throw error;
    throw new RemusterError('UNREACHABLE', 'the connection broke before the reply was complete', 'maybe');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function bodyOrThrow(reply: NodeReply): unknown {
  if (reply.status >= 200 && reply.status < 300) return reply.body;
  const error = (reply.body as { error?: { code?: unknown; message?: unknown; stateChanged?: unknown } } | null)?.error;
  const code =
    typeof error?.code === 'string' && Object.hasOwn(errorTable, error.code) ? (error.code as ErrorCode) : undefined;
  const message = typeof error?.message === 'string' ? error.message : undefined;
  throw new RemusterError(
    code ?? codeOf(reply.status),
    message ?? `the node replied with HTTP status ${reply.status}`,
    // Without a code the reply is not from a node: the default of the substituted code applies.
    code === undefined ? undefined : parseStateChanged(error?.stateChanged),
  );
}

function codeOf(status: number): ErrorCode {
  if (status === 401) return 'UNAUTHENTICATED';
  if (status === 403) return 'FORBIDDEN';
  return status >= 500 ? 'INTERNAL' : 'BAD_ARGUMENT';
}
