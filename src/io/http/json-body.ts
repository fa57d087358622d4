/** Reads a request body as JSON within a size limit. Drops `__proto__` keys. */
import type { IncomingMessage } from 'node:http';
import { RemusterError } from '../../base/errors.ts';

export const httpBodyBytesMax = 10_000_000;

export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > httpBodyBytesMax) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > httpBodyBytesMax) throw tooLarge();
    chunks.push(chunk);
  }
  if (bytes === 0) return undefined;
  // A foreign web page can post forms and plain text without a CORS preflight, but not JSON.
  if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) {
    throw new RemusterError('BAD_ARGUMENT', 'the body must be application/json');
  }
  return parse(Buffer.concat(chunks));
}

function tooLarge(): RemusterError {
  return new RemusterError('TOO_LARGE', `the body has more than ${httpBodyBytesMax} bytes`, 'no');
}

/** A `__proto__` property would change the prototype of an object that it is later copied into. */
function withoutProto(key: string, value: unknown): unknown {
  return key === '__proto__' ? undefined : value;
}

function parse(bytes: Uint8Array): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.includes('__proto__') || text.includes('\\u') ? JSON.parse(text, withoutProto) : JSON.parse(text);
  } catch {
    throw new RemusterError('BAD_ARGUMENT', 'the body is not JSON');
  }
}
