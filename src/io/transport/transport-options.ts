/**
 * Options of a transport, and what its streams and datagrams share: keys, limits, counters. Refuses weak or missing
 * secrets before a socket is opened.
 */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import type { Address, Clock, Identity, Log } from '../../base/ports.ts';
import { TransportCounters } from './shared/transport-counters.ts';
import { type KeyRing, makeKeyRing, type Secrets } from './crypto/keys.ts';
import { defaultTransportLimits, type TransportLimits } from './shared/transport-limits.ts';
import { isLoopback } from './loopback.ts';
import type { AdmitMessage } from './mux/mux-context.ts';
import { RejectionLog } from './shared/rejections.ts';
import { checkSecret } from './crypto/secret-policy.ts';
import type { TlsOptions } from './shared/sockets.ts';

export type TransportOptions = {
  /** Port 0 is replaced by the port that the system chooses. */
  readonly self: Identity;
  readonly cluster: string;
  readonly bind: Address;
  readonly secrets: Secrets;
  readonly tls?: TlsOptions | undefined;
  readonly admit: AdmitMessage;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits?: Partial<TransportLimits> | undefined;
};

export type TransportContext = {
  readonly cluster: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly admit: AdmitMessage;
  readonly limits: TransportLimits;
  readonly counters: TransportCounters;
  readonly rejections: RejectionLog;
  self(this: void): Identity;
  readonly ring: () => KeyRing;
  /** Takes effect at once for new connections and sessions; established connections keep their keys. */
  setSecrets(this: void, secrets: Secrets): void;
  readonly onHandlerError: (error: unknown) => void;
};

export function checkTransportOptions({ cluster, bind, secrets, tls }: TransportOptions): void {
  if (!namePattern.test(cluster))
    throw new RemusterError('BAD_ARGUMENT', `${JSON.stringify(cluster)} is not a valid cluster name`);
  checkSecrets(secrets, bind);
  if (tls?.verifyHostname === false && !isLoopback(bind.host)) {
    const text = `host name checks can be disabled only on a loopback address, not on ${bind.host}`;
    throw new RemusterError('BAD_ARGUMENT', text);
  }
}

function checkSecrets(secrets: Secrets, bind: Address): void {
  if (secrets.current === undefined && !isLoopback(bind.host)) {
    throw new RemusterError('WEAK_SECRET', `without a secret only a loopback address is allowed, not ${bind.host}`);
  }
  for (const secret of [secrets.current ?? [], secrets.previous].flat()) checkSecret(secret);
}

export function makeTransportContext(options: TransportOptions, port: number): TransportContext {
  const { cluster, clock, log, bind, admit } = options;
  const self: Identity = { ...options.self, port: options.self.port === 0 ? port : options.self.port };
  const counters = new TransportCounters();
  let ring: KeyRing = makeKeyRing(cluster, options.secrets);
  return {
    cluster,
    clock,
    log,
    admit,
    counters,
    limits: { ...defaultTransportLimits, ...options.limits },
    rejections: new RejectionLog(counters, clock, log),
    self: () => self,
    ring: () => ring,
    setSecrets: (secrets) => {
      checkSecrets(secrets, bind);
      ring = makeKeyRing(cluster, secrets);
    },
    onHandlerError: (error) => {
      counters.add('handlers.failed');
      log('error', 'a handler of the transport failed', { error: String(error) });
    },
  };
}
