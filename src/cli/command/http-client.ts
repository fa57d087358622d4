/** HTTP requests to a node: JSON, deadlines, size limits, coded errors. Never retries. */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { RemusterError, parseStateChanged } from '../../base/errors.ts';
import { errorTable, type ErrorCode } from '../../base/error-table.ts';
import { changing } from './changes-so-far.ts';
import type { ClusterTarget } from './target.ts';

export type NodeReply = { readonly status: number; readonly body: unknown };

const answerBytesMax = 64 * 1_048_576;
const eventBytesMax = 4 * 1_048_576;
const defaultTimeoutMs = 10_000;
const lineTimeoutMs = 60_000;
const lineCharactersMax = 16 * 1_048_576;

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** The JSON of a 2xx answer; anything else is thrown as the coded error that it is. */
export async function getJson(target: ClusterTarget, path: string, timeoutMs = defaultTimeoutMs): Promise<unknown> {
  return successful(await request(target, 'GET', path, undefined, timeoutMs));
}

export async function postJson(target: ClusterTarget, path: string, body: unknown): Promise<unknown> {
  return await sendJson(target, 'POST', path, body);
}

/** Orders may take longer than answers. */
export async function sendJson(
  target: ClusterTarget,
  method: Exclude<Method, 'GET'>,
  path: string,
  body?: unknown,
  timeoutMs = defaultTimeoutMs,
): Promise<unknown> {
  return await changing(async () => successful(await request(target, method, path, body, timeoutMs)));
}

export function withQuery(path: string, query: Readonly<Record<string, string>>): string {
  return `${path}?${new URLSearchParams(query).toString()}`;
}

export function withDc(path: string, dc: string | undefined): string {
  return dc === undefined ? path : withQuery(path, { dc });
}

/** The answer whatever its status: for health checks, where 503 is data. */
export async function request(
  target: ClusterTarget,
  method: Method,
  path: string,
  body?: unknown,
  timeoutMs = defaultTimeoutMs,
): Promise<NodeReply> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return await answerOf(await send(target, { method, path, body: text, timeoutMs }));
}

async function answerOf(response: IncomingMessage): Promise<NodeReply> {
  const text = await readAll(response);
  return { status: response.statusCode ?? 0, body: parsed(text) };
}

/** Server-sent events until the node ends the stream or the caller stops reading. */
export async function* readEvents(target: ClusterTarget, path: string): AsyncGenerator {
  const response = await send(target, { method: 'GET', path, body: undefined, timeoutMs: defaultTimeoutMs });
  if (response.statusCode !== 200) successful(await answerOf(response));
  let rest = '';
  response.setEncoding('utf8');
  for await (const chunk of response as AsyncIterable<string>) {
    rest += chunk;
    if (rest.length > eventBytesMax) throw new RemusterError('TOO_LARGE', 'the node sent an oversized event');
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const data = dataOf(block);
      if (data !== undefined) yield parsed(data);
    }
  }
}

/** The lines of an answer as they come. UNREACHABLE when it breaks off; whether it is whole is for the reader to see. */
export async function* postLines(target: ClusterTarget, path: string): AsyncGenerator<string> {
  const response = await send(target, { method: 'POST', path, body: undefined, timeoutMs: lineTimeoutMs });
  if (response.statusCode !== 200) successful(await answerOf(response));
  response.setTimeout(lineTimeoutMs, () => response.destroy(new Error('the answer stopped half-way')));
  let rest = '';
  response.setEncoding('utf8');
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > lineCharactersMax) throw new RemusterError('TOO_LARGE', 'the node sent an oversized line');
      yield* lines;
    }
  } catch (error) {
    if (error instanceof RemusterError) throw error;
    throw new RemusterError('UNREACHABLE', 'the connection broke before the answer was complete', 'maybe');
  }
}

function dataOf(block: string): string | undefined {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith('data:'));
  return lines.length === 0 ? undefined : lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
}

type Sending = {
  readonly method: Method;
  readonly path: string;
  readonly body: string | undefined;
  readonly timeoutMs: number;
};

async function send(target: ClusterTarget, { method, path, body, timeoutMs }: Sending): Promise<IncomingMessage> {
  const headers: Record<string, string> = { accept: 'application/json, text/event-stream' };
  if (target.token !== undefined) headers['authorization'] = `Bearer ${target.token}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const url = new URL(path, target.addr);
  const request = url.protocol === 'https:' ? (await import('node:https')).request : httpRequest;
  return await new Promise((resolve, reject) => {
    // No agent: one command is one or two requests, and a kept connection would only delay the end of the process.
    const sent = request(url, { method, headers, agent: false }, (response) => {
      sent.setTimeout(0);
      resolve(response);
    });
    sent.setTimeout(timeoutMs, () =>
      sent.destroy(new RemusterError('DEADLINE', `${url.origin} did not answer within ${timeoutMs} ms`)),
    );
    // Whatever breaks after this may have been carried out.
    let isConnected = false;
    sent.on('socket', (socket) => socket.once('connect', () => (isConnected = true)));
    sent.on('error', (error) => {
      if (error instanceof RemusterError) return reject(error);
      const why = (error as NodeJS.ErrnoException).code ?? error.message;
      reject(new RemusterError('UNREACHABLE', `cannot reach ${url.origin} (${why})`, isConnected ? 'maybe' : 'no'));
    });
    sent.end(body);
  });
}

async function readAll(response: IncomingMessage): Promise<string> {
  response.setTimeout(defaultTimeoutMs, () => response.destroy(new Error('the answer stopped half-way')));
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > answerBytesMax) throw new RemusterError('TOO_LARGE', 'the answer of the node is too large', 'maybe');
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof RemusterError) throw error;
    throw new RemusterError('UNREACHABLE', 'the connection broke before the answer was complete', 'maybe');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function successful(answer: NodeReply): unknown {
  if (answer.status >= 200 && answer.status < 300) return answer.body;
  const error = (answer.body as { error?: { code?: unknown; message?: unknown; stateChanged?: unknown } } | null)
    ?.error;
  const code =
    typeof error?.code === 'string' && Object.hasOwn(errorTable, error.code) ? (error.code as ErrorCode) : undefined;
  const message = typeof error?.message === 'string' ? error.message : undefined;
  throw new RemusterError(
    code ?? codeOf(answer.status),
    message ?? `the node answered with HTTP status ${answer.status}`,
    // Without a code it is no error of a node, and the row of the code that stands for it must do.
    code === undefined ? undefined : parseStateChanged(error?.stateChanged),
  );
}

function codeOf(status: number): ErrorCode {
  if (status === 401) return 'UNAUTHENTICATED';
  if (status === 403) return 'FORBIDDEN';
  return status >= 500 ? 'INTERNAL' : 'BAD_ARGUMENT';
}
