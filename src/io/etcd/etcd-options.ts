/** How an etcd cluster is reached, and the limits of its use. */
import type { Clock, Log } from '../../base/ports.ts';

export type EtcdTls = {
  /** Trusted certificate authorities; the default are those of the system. */
  readonly caPem?: string;
  /** Client certificate, if etcd requires one. */
  readonly certPem?: string;
  readonly keyPem?: string;
};

export type EtcdOptions = {
  /** `http://host:port` or `https://host:port`, at least one; all of the same etcd cluster. */
  readonly endpoints: readonly string[];
  /** Prefix of every key, so that clusters can share one etcd. */
  readonly namespace: string;
  readonly user?: { readonly name: string; readonly password: string };
  readonly tls?: EtcdTls;
  readonly clock: Clock;
  readonly log?: Log;
  readonly limits?: Partial<EtcdLimits>;
};

export type EtcdLimits = {
  /** Default timeout of a call. */
  readonly timeoutMs: number;
  /** Timeout of one attempt, after which the next endpoint is tried. A late execution of the first does no harm. */
  readonly attemptMs: number;
  /** Delay between attempts, doubled from the minimum up to the maximum. */
  readonly retryDelayMsMin: number;
  readonly retryDelayMsMax: number;
  /** Interval of the probes of an endpoint that serves a watch. */
  readonly watchCheckMs: number;
  /** Calls in flight; one more is refused with CAPACITY. */
  readonly callsMax: number;
  readonly watchesMax: number;
  /** Connections to one endpoint, besides one for each watch. */
  readonly connectionsMax: number;
  readonly replyBytesMax: number;
};

/** Upper bound of a timeout: the marks of executed transactions live longer than this. */
export const etcdTimeoutMsMax = 600_000;

export const etcdLimits: EtcdLimits = {
  timeoutMs: 5_000,
  attemptMs: 2_500,
  retryDelayMsMin: 20,
  retryDelayMsMax: 500,
  watchCheckMs: 5_000,
  callsMax: 1_024,
  watchesMax: 256,
  connectionsMax: 16,
  replyBytesMax: 64 * 1_048_576,
};
