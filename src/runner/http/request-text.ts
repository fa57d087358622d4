/**
 * Builds the bytes of a request and validates headers, so that no value can inject a header or a request. Caches a
 * plain GET per target.
 */
import { RemusterError } from '../../base/errors.ts';
import type { HttpOptions, HttpRequestOptions } from '../definition/http-types.ts';
import type { RequestTarget } from './request-target.ts';

export type Method = NonNullable<HttpRequestOptions['method']>;

/** `text` is the head, with the body after it when that is plain ASCII; a character for each byte. */
export type RequestText = {
  readonly text: string;
  readonly body: Uint8Array | undefined;
  /** It tells the server to close the connection. */
  readonly isLast: boolean;
};

const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** Their server expects to be told even that there is no body. */
const methodsWithBody: readonly string[] = ['POST', 'PUT', 'PATCH'];
/** They say where the request ends, which nobody else may say. */
const forbiddenNames: readonly string[] = ['content-length', 'transfer-encoding', 'upgrade', 'trailer'];

const isName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const isValue = /^[\t\x20-\x7e\x80-\xff]*$/;
const isNotAscii = /[^\0-\x7f]/;
const encoder = new TextEncoder();
const agentLine = 'user-agent: remuster\r\n';
const jsonLine = 'content-type: application/json\r\n';

export function parseMethod(name: string): Method {
  if (name !== 'GET' && !methods.includes(name)) {
    throw new RemusterError('BAD_ARGUMENT', `${JSON.stringify(name)} is none of ${methods.join(', ')}`);
  }
  return name as Method;
}

export function buildRequestText(method: Method, target: RequestTarget, options: HttpOptions | undefined): RequestText {
  if (options === undefined && method === 'GET') {
    target.plainGet ??= `${firstLine(method, target)}${hostLine(target)}${agentLine}\r\n`;
    return { text: target.plainGet, body: undefined, isLast: false };
  }
  const body = bodyOf(options);
  const start = firstLine(method, target) + headerLines(target, options);
  const isLast = options?.headers !== undefined && saysClose(options.headers);
  if (body === undefined) {
    const length = methodsWithBody.includes(method) ? 'content-length: 0\r\n' : '';
    return { text: `${start}${length}\r\n`, body: undefined, isLast };
  }
  if (typeof body === 'string' && !isNotAscii.test(body)) {
    return { text: `${start}content-length: ${body.length}\r\n\r\n${body}`, body: undefined, isLast };
  }
  const bytes = typeof body === 'string' ? encoder.encode(body) : body;
  return { text: `${start}content-length: ${bytes.length}\r\n\r\n`, body: bytes, isLast };
}

function firstLine(method: Method, { path }: RequestTarget): string {
  return `${method} ${path} HTTP/1.1\r\n`;
}

function hostLine({ origin }: RequestTarget): string {
  return `host: ${origin.hostHeader}\r\n`;
}

function bodyOf(options: HttpOptions | undefined): string | Uint8Array | undefined {
  if (options === undefined) return undefined;
  const { json, body } = options;
  if (json === undefined) {
    if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) return body;
    throw new RemusterError('BAD_ARGUMENT', 'a body is a text or bytes; use json for other values');
  }
  if (body !== undefined) throw new RemusterError('BAD_ARGUMENT', 'a request has json or a body, not both');
  const text = written(json);
  if (text === undefined) throw new RemusterError('BAD_ARGUMENT', 'json is a value that JSON cannot hold');
  return text;
}

function written(json: unknown): string | undefined {
  try {
    return JSON.stringify(json);
  } catch (error) {
    throw new RemusterError('BAD_ARGUMENT', `json is a value that JSON cannot hold: ${String(error)}`);
  }
}

function headerLines(target: RequestTarget, options: HttpOptions | undefined): string {
  const type = options?.json === undefined ? '' : jsonLine;
  const headers = options?.headers;
  if (headers === undefined) return hostLine(target) + agentLine + type;
  let lines = '';
  const names = new Set<string>();
  for (const name of Object.keys(headers)) {
    const value: unknown = headers[name];
    if (value === undefined) continue;
    const small = name.toLowerCase();
    checkHeader(name, small, value);
    names.add(small);
    lines += `${name}: ${value as string}\r\n`;
  }
  const host = names.has('host') ? '' : hostLine(target);
  const agent = names.has('user-agent') ? '' : agentLine;
  return host + agent + (names.has('content-type') ? '' : type) + lines;
}

function saysClose(headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === 'connection' && /close/i.test(headers[name] ?? ''));
}

function checkHeader(name: string, small: string, value: unknown): void {
  const shown = JSON.stringify(name.slice(0, 100));
  if (!isName.test(name)) throw new RemusterError('BAD_ARGUMENT', `${shown} is no name of a header`);
  if (forbiddenNames.includes(small)) {
    throw new RemusterError('BAD_ARGUMENT', `the header ${shown} is for the client to decide`);
  }
  if ((typeof value !== 'string' && typeof value !== 'number') || !isValue.test(String(value))) {
    throw new RemusterError('BAD_ARGUMENT', `the header ${shown} has a value that cannot be sent`);
  }
}
