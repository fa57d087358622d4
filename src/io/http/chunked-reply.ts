/** Writes a reply chunk by chunk, no faster than the client reads. A stalled or closed client ends the producer too. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse } from '../../base/http-routes.ts';

const stallMsMax = 60_000;

type Chunked = Extract<ApiResponse, { readonly chunks: unknown }>;

export async function writeChunkedReply(
  response: ServerResponse,
  { status, contentType, chunks }: Chunked,
  stallMs: number = stallMsMax,
): Promise<void> {
  // `close` ends the connection with the reply, so that a closing server does not wait for the next request.
  response.writeHead(status, { 'content-type': `${contentType}; charset=utf-8`, connection: 'close' });
  if (response.req.method === 'HEAD') return void response.end();
  response.on('error', () => response.destroy());
  for await (const chunk of chunks) {
    if (response.destroyed) throw new RemusterError('CANCELLED', 'the client closed the connection');
    if (!response.write(chunk)) await waitForDrain(response, stallMs);
  }
  response.end();
}

async function waitForDrain(response: ServerResponse, stallMs: number): Promise<void> {
  const ending = new AbortController();
  const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(stallMs)]);
  try {
    await Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]);
  } catch {
    throw new RemusterError('DEADLINE', `the client has read nothing for ${stallMs} ms`);
  } finally {
    ending.abort();
  }
}
