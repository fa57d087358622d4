/**
 * Options of a transport and what its halves share: keys, limits, counters. Refuses weak or missing secrets before any
 * socket exists.
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
  /** Port 0 stands for the one that is chosen. */
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
  readonly refusals: RejectionLog;
  self(this: void): Identity;
  readonly ring: () => KeyRing;
  /** Live: what is established goes on, what is new uses the new current secret. */
  setSecrets(this: void, secrets: Secrets): void;
  readonly handlerFailed: (error: unknown) => void;
};

export function checkTransportOptions({ cluster, bind, secrets, tls }: TransportOptions): void {
  if (!namePattern.test(cluster)) throw new RemusterError('BAD_ARGUMENT', 'the cluster name is not a name');
  checkSecrets(secrets, bind);
  if (tls?.verifyHostname === false && !isLoopback(bind.host)) {
    throw new RemusterError('BAD_ARGUMENT', 'host names go unchecked only on a loopback address');
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
    refusals: new RejectionLog(counters, clock, log),
    self: () => self,
    ring: () => ring,
    setSecrets: (secrets) => {
      checkSecrets(secrets, bind);
      ring = makeKeyRing(cluster, secrets);
    },
    handlerFailed: (error) => {
      counters.add('handlers.failed');
      log('error', 'a handler of the transport failed', { error: String(error) });
    },
  };
}
