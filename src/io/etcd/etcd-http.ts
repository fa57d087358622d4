/**
 * One HTTP exchange or line stream with one etcd endpoint, bounded. Reports the stage in which an exchange failed,
 * since that decides whether etcd may have executed it. Never retries.
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

import type { Cancel, Clock } from '../../base/ports.ts';
import type { EtcdLimits, EtcdTls } from './etcd-options.ts';

export type EtcdHttpReply = { readonly kind: 'reply'; readonly status: number; readonly body: unknown };

/**
 * `queued` and `connecting`: no byte has been sent. `sent`: etcd may have the request. `tooLarge`: etcd has replied.
 */
export type EtcdHttpFailure = {
  readonly kind: 'failed';
  readonly stage: 'queued' | 'connecting' | 'sent' | 'tooLarge';
  readonly reason: string;
};

/** The reason of an exchange that reached its timeout. */
export const timeoutReason = 'no reply in time';

export type EtcdHeaders = Readonly<Record<string, string>>;

export type EtcdStreamEvents = {
  line(body: unknown): void;
  /** Called once, unless the stream was cancelled. */
  ended(reason: string): void;
};

type EtcdHttpOptions = { readonly clock: Clock; readonly tls: EtcdTls | undefined; readonly limits: EtcdLimits };

export class EtcdHttp {
  readonly #options: EtcdHttpOptions;
  readonly #tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent };
  readonly #running = new Set<ClientRequest>();

  constructor(options: EtcdHttpOptions) {
    this.#options = options;
    const { tls, limits } = options;
    const pool = { keepAlive: true, maxSockets: limits.connectionsMax };
    this.#tls = {
      ...(tls?.caPem === undefined ? {} : { ca: tls.caPem }),
      ...(tls?.certPem === undefined ? {} : { cert: tls.certPem }),
      ...(tls?.keyPem === undefined ? {} : { key: tls.keyPem }),
    };
    this.#agents = { http: new HttpAgent(pool), https: new HttpsAgent({ ...pool, ...this.#tls }) };
  }

  post(url: URL, body: unknown, headers: EtcdHeaders, timeoutMs: number): Promise<EtcdHttpReply | EtcdHttpFailure> {
    return new Promise((resolve) => {
      const request = this.#open(url, headers, 'shared');
      let stage: EtcdHttpFailure['stage'] = 'queued';
      const end = (result: EtcdHttpReply | EtcdHttpFailure): void => {
        cancel();
        resolve(result);
      };
      const cancel = this.#options.clock.schedule(timeoutMs, () => request.destroy(new Error(timeoutReason)));
      request.once('socket', (socket) => {
        stage = 'connecting';
        // A reused connection is up already; a new TLS connection is up after its handshake.
        if (!socket.connecting) stage = 'sent';
        else socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => (stage = 'sent'));
      });
      request.once('error', (error) => end({ kind: 'failed', stage, reason: reasonOf(error) }));
      request.once('response', (response) => {
        this.#readAll(response).then(
          (text) => end({ kind: 'reply', status: response.statusCode ?? 0, body: parseJson(text) }),
          (error: Error) => {
            request.destroy();
            const failedStage = error instanceof RangeError ? 'tooLarge' : 'sent';
            end({ kind: 'failed', stage: failedStage, reason: reasonOf(error) });
          },
        );
      });
      request.end(JSON.stringify(body));
    });
  }

  /** Reads the reply as lines of JSON, on a connection of its own, until one side ends it. */
  stream(url: URL, body: unknown, headers: EtcdHeaders, events: EtcdStreamEvents): Cancel {
    const request = this.#open(url, headers, 'own');
    let hasEnded = false;
    const end = (reason: string): void => {
      if (hasEnded) return;
      hasEnded = true;
      request.destroy();
      events.ended(reason);
    };
    request.on('error', (error) => end(reasonOf(error)));
    request.once('response', (response) => {
      const lines = new LineReader(this.#options.limits.replyBytesMax);
      response.on('error', (error) => end(reasonOf(error)));
      response.once('close', () => end('the stream ended'));
      response.on('data', (chunk: Buffer) => {
        if (hasEnded) return;
        const complete = lines.add(chunk);
        if (complete === undefined) end('a line of the stream is too long');
        else for (const line of complete) if (!hasEnded) events.line(parseJson(line));
      });
    });
    request.end(JSON.stringify(body));
    return () => {
      hasEnded = true;
      request.destroy();
    };
  }

  close(): void {
    for (const request of this.#running) request.destroy(new Error('closed'));
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  #open(url: URL, headers: EtcdHeaders, connection: 'shared' | 'own'): ClientRequest {
    const isSecure = url.protocol === 'https:';
    // A stream uses no connection of the pool, or a few watches would block all calls.
    const agent = connection === 'own' ? false : isSecure ? this.#agents.https : this.#agents.http;
    const options = {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      agent,
      ...(isSecure ? this.#tls : {}),
    };
    const request = isSecure ? httpsRequest(url, options) : httpRequest(url, options);
    this.#running.add(request);
    request.once('close', () => this.#running.delete(request));
    return request;
  }

  async #readAll(response: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > this.#options.limits.replyBytesMax) throw new RangeError('the reply is too large');
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
}

/** Splits chunks into lines. `add` returns undefined when a line exceeds its bound. */
class LineReader {
  readonly #bytesMax: number;
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(chunk: Buffer): readonly string[] | undefined {
    const lines: string[] = [];
    let from = 0;
    for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, from)) {
      lines.push(Buffer.concat([...this.#parts, chunk.subarray(from, at)]).toString('utf8'));
      this.#parts = [];
      this.#bytes = 0;
      from = at + 1;
    }
    this.#parts.push(chunk.subarray(from));
    this.#bytes += chunk.length - from;
    return this.#bytes > this.#bytesMax ? undefined : lines.filter((line) => line !== '');
  }
}

function reasonOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? error.message;
}

/** Returns text that is not JSON as it is: the reply of a proxy or of a program that is not etcd. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
