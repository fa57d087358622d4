/** How an etcd cluster is reached, and the limits of its use. */
import type { Clock, Log } from '../../base/ports.ts';

export type EtcdTls = {
  /** Certificates that may have signed etcd's own; without it those of the system. */
  readonly caPem?: string;
  /** Our own certificate, if etcd asks for one. */
  readonly certPem?: string;
  readonly keyPem?: string;
};

export type EtcdOptions = {
  /** `http://host:port` or `https://host:port`, at least one; all of the same etcd cluster. */
  readonly endpoints: readonly string[];
  /** Stands before every key, so that clusters can share one etcd. */
  readonly namespace: string;
  readonly user?: { readonly name: string; readonly password: string };
  readonly tls?: EtcdTls;
  readonly clock: Clock;
  readonly log?: Log;
  readonly limits?: Partial<EtcdLimits>;
};

export type EtcdLimits = {
  /** For a call that names no time of its own. */
  readonly timeoutMs: number;
  /** So long one endpoint may take before another is asked; the first may still answer later, which does no harm. */
  readonly attemptMs: number;
  /** Between attempts, growing from the first to the second. */
  readonly pauseMsMin: number;
  readonly pauseMsMax: number;
  /** How often the endpoint that serves a watch is asked whether it is still there. */
  readonly watchCheckMs: number;
  /** Calls that wait for their end; one more is refused with CAPACITY. */
  readonly callsMax: number;
  readonly watchesMax: number;
  /** To one endpoint, besides one for each watch. */
  readonly connectionsMax: number;
  readonly answerBytesMax: number;
};

/** A call may not last longer: the marks of executed transactions live at least so long. */
export const etcdTimeoutMsMax = 600_000;

export const etcdLimits: EtcdLimits = {
  timeoutMs: 5_000,
  attemptMs: 2_500,
  pauseMsMin: 20,
  pauseMsMax: 500,
  watchCheckMs: 5_000,
  callsMax: 1_024,
  watchesMax: 256,
  connectionsMax: 16,
  answerBytesMax: 64 * 1_048_576,
};
