/** All limits of `ctx.http`, each with the error beyond it. */
export type HttpLimits = {
  /** Of the head of an answer, and again of everything in a chunked body that is no body; TOO_LARGE beyond. */
  readonly headBytesMax: number;
  /** Of the body of an answer; TOO_LARGE beyond. */
  readonly bodyBytesMax: number;
  /** To all servers together; further requests wait for one. */
  readonly connectionsMax: number;
  /** Requests that wait for a connection to one server; CAPACITY beyond. */
  readonly waitingMax: number;
  /** Servers that are known at a time; the one that was not used for longest is forgotten, CAPACITY if all are in use. */
  readonly originsMax: number;
  /** Addresses whose parts are remembered; beyond that all are forgotten. */
  readonly targetsMax: number;
  /** Until a connection is open; UNREACHABLE beyond. */
  readonly connectMs: number;
  /** Of a request that names no other; DEADLINE beyond. */
  readonly timeoutMs: number;
  /** Of any request; BAD_ARGUMENT beyond. */
  readonly timeoutMsMax: number;
  /** Followed unless the request says otherwise; the redirect itself is the answer beyond. */
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
