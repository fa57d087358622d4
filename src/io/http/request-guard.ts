/** Checks Host, Origin and bearer token of a request. Off loopback everything but probes needs the token. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { RemusterError } from '../../base/errors.ts';

export type RequestGuardOptions = { readonly host: string; readonly token: string | undefined };

const loopbackNames = new Set(['localhost', '127.0.0.1', '::1']);
const probes = new Set(['/livez', '/readyz', '/startupz']);

export class RequestGuard {
  readonly #bindHost: string;
  readonly #isLoopback: boolean;
  readonly #tokenHash: Uint8Array | undefined;

  constructor({ host, token }: RequestGuardOptions) {
    this.#bindHost = host.toLowerCase();
    this.#isLoopback = isLoopback(this.#bindHost);
    this.#tokenHash = token === undefined ? undefined : hash(token);
    if (!this.#isLoopback && token === undefined) {
      throw new RemusterError('BAD_ARGUMENT', `listening for HTTP on ${host}, which is not loopback, needs a token`);
    }
  }

  /** Throws a coded error if the request is refused. */
  check({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>, path: string): void {
    this.#checkHost(headers.host);
    checkOrigin(headers.origin, headers.host ?? '');
    if (probes.has(path) && method === 'GET') return;
    const isRead = method === 'GET' || method === 'HEAD';
    if (this.#tokenHash === undefined || (this.#isLoopback && isRead)) return;
    const [, given] = /^bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    if (given === undefined) throw new RemusterError('UNAUTHENTICATED', 'this request needs a bearer token');
    if (!timingSafeEqual(hash(given), this.#tokenHash))
      throw new RemusterError('UNAUTHENTICATED', 'the bearer token is wrong');
  }

  /** Protects from DNS rebinding, which needs a name: off loopback any IP address is accepted. */
  #checkHost(header: string | undefined): void {
    const name = hostNameOf(header ?? '');
    if (loopbackNames.has(name) || name === this.#bindHost) return;
    if (!this.#isLoopback && isIP(name) !== 0) return;
    throw new RemusterError('FORBIDDEN', `the Host header ${JSON.stringify(name)} does not name this node`);
  }
}

/** Without brackets and port, in lower case; '' for a malformed header. */
function hostNameOf(header: string): string {
  const [, bracketed, plain] = /^(?:\[([0-9a-f:.]+)\]|([^[\]:/@\s]+))(?::\d{1,5})?$/.exec(header.toLowerCase()) ?? [];
  return bracketed ?? plain ?? '';
}

function isLoopback(host: string): boolean {
  return loopbackNames.has(host) || (isIP(host) === 4 && host.startsWith('127.'));
}

function checkOrigin(origin: string | undefined, host: string): void {
  if (origin === undefined) return;
  const same = [`http://${host.toLowerCase()}`, `https://${host.toLowerCase()}`];
  if (!same.includes(origin.toLowerCase()))
    throw new RemusterError('FORBIDDEN', 'the request comes from another origin');
}

/** Hashes have equal lengths, so a constant-time comparison hides the length of the token as well. */
function hash(token: string): Uint8Array {
  return createHash('sha256').update(token).digest();
}
