/**
 * One HTTP exchange or line stream with one etcd endpoint, bounded. Reports how far a failed exchange got, since that
 * decides whether it may have happened. Never retries.
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

import type { Cancel, Clock } from '../../base/ports.ts';
import type { EtcdLimits, EtcdTls } from './etcd-options.ts';

export type EtcdHttpReply = { readonly kind: 'answer'; readonly status: number; readonly body: unknown };

/** `queued` and `connecting`: nothing has left this process. `sent`: it may have arrived. `large`: it was answered. */
export type EtcdHttpFailure = {
  readonly kind: 'broken';
  readonly stage: 'queued' | 'connecting' | 'sent' | 'large';
  readonly reason: string;
};

/** The reason when an exchange was given up by the clock. */
export const timeoutReason = 'no answer in time';

export type EtcdHeaders = Readonly<Record<string, string>>;

export type EtcdStreamEvents = {
  line(body: unknown): void;
  /** Once, whatever the reason, unless it was cancelled. */
  ended(reason: string): void;
};

type Setting = { readonly clock: Clock; readonly tls: EtcdTls | undefined; readonly limits: EtcdLimits };

export class EtcdHttp {
  readonly #setting: Setting;
  readonly #trust: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent };
  readonly #running = new Set<ClientRequest>();

  constructor(setting: Setting) {
    this.#setting = setting;
    const { tls, limits } = setting;
    const pool = { keepAlive: true, maxSockets: limits.connectionsMax };
    this.#trust = {
      ...(tls?.caPem === undefined ? {} : { ca: tls.caPem }),
      ...(tls?.certPem === undefined ? {} : { cert: tls.certPem }),
      ...(tls?.keyPem === undefined ? {} : { key: tls.keyPem }),
    };
    this.#agents = { http: new HttpAgent(pool), https: new HttpsAgent({ ...pool, ...this.#trust }) };
  }

  post(url: URL, body: unknown, headers: EtcdHeaders, timeoutMs: number): Promise<EtcdHttpReply | EtcdHttpFailure> {
    return new Promise((resolve) => {
      const sent = this.#open(url, headers, 'shared');
      let stage: EtcdHttpFailure['stage'] = 'queued';
      const end = (result: EtcdHttpReply | EtcdHttpFailure): void => {
        cancel();
        resolve(result);
      };
      const cancel = this.#setting.clock.schedule(timeoutMs, () => sent.destroy(new Error(timeoutReason)));
      sent.once('socket', (socket) => {
        stage = 'connecting';
        // A connection that was kept from an earlier call is up already; a new one over TLS is up after two steps.
        if (!socket.connecting) stage = 'sent';
        else socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => (stage = 'sent'));
      });
      sent.once('error', (error) => end({ kind: 'broken', stage, reason: reasonOf(error) }));
      sent.once('response', (response) => {
        this.#readAll(response).then(
          (text) => end({ kind: 'answer', status: response.statusCode ?? 0, body: parsed(text) }),
          (error: Error) => {
            sent.destroy();
            end({ kind: 'broken', stage: error instanceof RangeError ? 'large' : 'sent', reason: reasonOf(error) });
          },
        );
      });
      sent.end(JSON.stringify(body));
    });
  }

  /** The answer as lines of JSON, on a connection of its own, until one side ends it. */
  stream(url: URL, body: unknown, headers: EtcdHeaders, events: EtcdStreamEvents): Cancel {
    const sent = this.#open(url, headers, 'own');
    let isOver = false;
    const end = (reason: string): void => {
      if (isOver) return;
      isOver = true;
      sent.destroy();
      events.ended(reason);
    };
    sent.on('error', (error) => end(reasonOf(error)));
    sent.once('response', (response) => {
      const lines = new LineReader(this.#setting.limits.answerBytesMax);
      response.on('error', (error) => end(reasonOf(error)));
      response.once('close', () => end('the stream ended'));
      response.on('data', (chunk: Buffer) => {
        if (isOver) return;
        const whole = lines.add(chunk);
        if (whole === undefined) end('a line of the stream is too long');
        else for (const line of whole) if (!isOver) events.line(parsed(line));
      });
    });
    sent.end(JSON.stringify(body));
    return () => {
      isOver = true;
      sent.destroy();
    };
  }

  close(): void {
    for (const sent of this.#running) sent.destroy(new Error('closed'));
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  #open(url: URL, headers: EtcdHeaders, connection: 'shared' | 'own'): ClientRequest {
    const isSecure = url.protocol === 'https:';
    // A stream takes no place in the pool, or some watches would block all calls.
    const agent = connection === 'own' ? false : isSecure ? this.#agents.https : this.#agents.http;
    const options = {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      agent,
      ...(isSecure ? this.#trust : {}),
    };
    const sent = isSecure ? httpsRequest(url, options) : httpRequest(url, options);
    this.#running.add(sent);
    sent.once('close', () => this.#running.delete(sent));
    return sent;
  }

  async #readAll(response: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > this.#setting.limits.answerBytesMax) throw new RangeError('the answer is too large');
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
}

/** Cuts a flow of chunks at line ends. Undefined when a line exceeds its bound. */
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

/** Text that is no JSON stays text: a proxy or a foreign program has answered. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
