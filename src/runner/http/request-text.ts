/**
 * Builds the text of a request and validates its headers, so that no value can inject a header or another request.
 * Caches the plain GET of a target.
 */
import { RemusterError } from '../../base/errors.ts';
import type { HttpOptions, HttpRequestOptions } from '../definition/http-types.ts';
import type { RequestTarget } from './request-target.ts';

export type Method = NonNullable<HttpRequestOptions['method']>;

/** `text` is the head, followed by the body if that is ASCII; one character per byte. */
export type RequestText = {
  readonly text: string;
  readonly body: Uint8Array | undefined;
  /** The request has the header `connection: close`. */
  readonly isLast: boolean;
};

const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** Sent with `content-length: 0` if they have no body. */
const methodsWithBody: readonly string[] = ['POST', 'PUT', 'PATCH'];
/** Headers that frame the request; only the client sets them. */
const forbiddenNames: readonly string[] = ['content-length', 'transfer-encoding', 'upgrade', 'trailer'];

const isName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const isValue = /^[\t\x20-\x7e\x80-\xff]*$/;
const isNotAscii = /[^\0-\x7f]/;
const encoder = new TextEncoder();
const agentLine = 'user-agent: remuster\r\n';
const jsonLine = 'content-type: application/json\r\n';

export function parseMethod(name: string): Method {
  if (name !== 'GET' && !methods.includes(name)) {
    throw new RemusterError('BAD_ARGUMENT', `the method ${JSON.stringify(name)} is not one of ${methods.join(', ')}`);
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
  const isLast = options?.headers !== undefined && closesConnection(options.headers);
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
    throw new RemusterError('BAD_ARGUMENT', 'a body must be text or bytes; use json for other values');
  }
  if (body !== undefined) throw new RemusterError('BAD_ARGUMENT', 'a request cannot have both json and body');
  const text = jsonText(json);
  if (text === undefined) throw new RemusterError('BAD_ARGUMENT', 'the value of json cannot be encoded as JSON');
  return text;
}

function jsonText(json: unknown): string | undefined {
  try {
    return JSON.stringify(json);
  } catch (error) {
    throw new RemusterError('BAD_ARGUMENT', `the value of json cannot be encoded as JSON: ${String(error)}`);
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
    const lowerName = name.toLowerCase();
    checkHeader(name, lowerName, value);
    names.add(lowerName);
    lines += `${name}: ${value as string}\r\n`;
  }
  const host = names.has('host') ? '' : hostLine(target);
  const agent = names.has('user-agent') ? '' : agentLine;
  return host + agent + (names.has('content-type') ? '' : type) + lines;
}

function closesConnection(headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === 'connection' && /close/i.test(headers[name] ?? ''));
}

function checkHeader(name: string, lowerName: string, value: unknown): void {
  const shown = JSON.stringify(name.slice(0, 100));
  if (!isName.test(name)) throw new RemusterError('BAD_ARGUMENT', `${shown} is not a valid header name`);
  if (forbiddenNames.includes(lowerName)) {
    throw new RemusterError('BAD_ARGUMENT', `the header ${shown} is set by the client`);
  }
  if ((typeof value !== 'string' && typeof value !== 'number') || !isValue.test(String(value))) {
    throw new RemusterError('BAD_ARGUMENT', `the header ${shown} has a value that cannot be sent`);
  }
}
