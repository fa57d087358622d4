/** The limits of `ctx.http`, each with the error beyond it. */
export type HttpLimits = {
  /** Head of a response; also the framing of a chunked body. TOO_LARGE beyond. */
  readonly headBytesMax: number;
  /** Body of a response; TOO_LARGE beyond. */
  readonly bodyBytesMax: number;
  /** Connections to all servers together; further requests wait. */
  readonly connectionsMax: number;
  /** Requests that wait for a connection to one server; CAPACITY beyond. */
  readonly waitingMax: number;
  /** Servers with a connection pool. Beyond that an unused pool is closed; CAPACITY if all are in use. */
  readonly originsMax: number;
  /** Parsed URLs in the cache, which is emptied beyond that. */
  readonly targetsMax: number;
  /** Timeout of a connection attempt; UNREACHABLE beyond. */
  readonly connectMs: number;
  /** Timeout of a request without its own; DEADLINE beyond. */
  readonly timeoutMs: number;
  /** Greatest timeout of a request; BAD_ARGUMENT beyond. */
  readonly timeoutMsMax: number;
  /** Redirects that a request without its own limit follows; then the redirect itself is the response. */
  readonly redirectsMax: number;
};

export const httpLimits: HttpLimits = {
  headBytesMax: 65_536,
  bodyBytesMax: 16_777_216,
  connectionsMax: 4_096,
  waitingMax: 100_000,
  originsMax: 256,
  targetsMax: 4_096,
  connectMs: 10_000,
  timeoutMs: 30_000,
  timeoutMsMax: 86_400_000,
  redirectsMax: 10,
};
