/**
 * Parses request targets and caches them with their origins, because a load test requests few different URLs. Bounded.
 * Rejects credentials in URLs and schemes other than http and https.
 */
import { RemusterError } from '../../base/errors.ts';
import type { SocketAddress } from './socket-port.ts';

/** A server: scheme, host and port. */
export type Origin = Omit<SocketAddress, 'anyCertificate'> & {
  /** `http://host:port`, without the default port. */
  readonly name: string;
  /** Value of the host header. */
  readonly hostHeader: string;
};

export type RequestTarget = {
  readonly origin: Origin;
  /** Path with query. */
  readonly path: string;
  /** The text of a GET without options, once it was needed. */
  plainGet: string | undefined;
};

/** A path that needs no escaping and has no fragment. */
const isPlainPath = /^\/[\x21\x24-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]*$/;

export class TargetCache {
  readonly #max: number;
  readonly #known = new Map<string, RequestTarget>();
  readonly #origins = new Map<string, Origin>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Throws BAD_ARGUMENT for an invalid URL. */
  resolve(url: string): RequestTarget {
    const known = this.#known.get(url);
    if (known !== undefined) return known;
    const target = this.#parse(url);
    if (this.#known.size >= this.#max) this.#known.clear();
    this.#known.set(url, target);
    return target;
  }

  #parse(url: string): RequestTarget {
    if (typeof url !== 'string') throw new RemusterError('BAD_ARGUMENT', `a URL must be text, not ${typeof url}`);
    const pathAt = url.indexOf('/', url.indexOf('://') + 3);
    const origin = pathAt < 0 ? undefined : this.#origins.get(url.slice(0, pathAt));
    const path = url.slice(pathAt);
    // Paths that may need normalisation go through the URL parser of the platform.
    if (origin !== undefined && isPlainPath.test(path) && !path.includes('/.')) {
      return { origin, path, plainGet: undefined };
    }
    const parsed = parse(url);
    return { origin: this.#originOf(parsed), path: parsed.pathname + parsed.search, plainGet: undefined };
  }

  #originOf(parsed: URL): Origin {
    const known = this.#origins.get(parsed.origin);
    if (known !== undefined) return known;
    if (this.#origins.size >= this.#max) this.#origins.clear();
    const origin = originOf(parsed);
    this.#origins.set(origin.name, origin);
    return origin;
  }
}

function parse(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed === null) throw new RemusterError('BAD_ARGUMENT', `${shown(url)} is not a URL`);
  const { protocol, username, password, port } = parsed;
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new RemusterError('BAD_ARGUMENT', `${shown(url)} must start with http:// or https://`);
  }
  if (username !== '' || password !== '') {
    throw new RemusterError('BAD_ARGUMENT', 'a URL must not contain a user or password: send an authorization header');
  }
  if (port === '0') throw new RemusterError('BAD_ARGUMENT', `${shown(url)} has port 0, which cannot be reached`);
  return parsed;
}

function originOf({ protocol, hostname, host, port, origin }: URL): Origin {
  const isSecure = protocol === 'https:';
  return {
    name: origin,
    host: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    isSecure,
    hostHeader: host,
  };
}

function shown(url: string): string {
  return JSON.stringify(url.length > 200 ? `${url.slice(0, 200)}...` : url);
}
