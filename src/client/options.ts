/**
 * Turns ConnectOptions, environment variables and defaults into checked client settings. BAD_ARGUMENT names the invalid
 * option.
 */
import { RemusterError } from '../base/errors.ts';
import type { Address } from '../base/ports.ts';
import type { CallTimeouts } from './call-deadlines.ts';

export type ConnectOptions = {
  /** Nodes of the cluster as `host:port`. One is enough; more help while one of them is down. */
  readonly addr: string | readonly string[];
  /** The name of the cluster; `remuster` if left out. */
  readonly cluster?: string;
  /** The secret of the cluster; required unless all nodes are on loopback. */
  readonly secret?: string;
  /** Timeout of a request to the cluster; 10,000 if left out. Calls of pools have their own `timeoutMs`. */
  readonly requestTimeoutMs?: number;
  /**
   * How long a call is resent while nodes are unreachable: 0 never, -1 without end. If left out, the seconds of
   * REMUSTER_CLIENT_RETRY_TIMEOUT, else 60,000.
   */
  readonly retryTimeoutMs?: number;
  /** Timeout of the first connection. If left out, the seconds of REMUSTER_WAIT_SERVER, else 30,000. */
  readonly waitServerMs?: number;
  /** How many other nodes are tried without a delay when the present one fails; 16 if left out. */
  readonly tryNewServers?: number;
};

export type ClientSettings = CallTimeouts & {
  readonly addresses: readonly Address[];
  readonly waitServerMs: number;
  readonly tryNewServers: number;
};

const addressesMax = 64;

/** Throws BAD_ARGUMENT for an invalid value. */
export function clientSettings(
  options: ConnectOptions,
  environment: Readonly<Record<string, string | undefined>>,
): ClientSettings {
  const seconds = (name: string, min: number): number | undefined => secondsOf(name, environment[name], min);
  return {
    addresses: addressesOf(options.addr),
    requestTimeoutMs: checked('requestTimeoutMs', options.requestTimeoutMs ?? 10_000, 1),
    retryTimeoutMs: checked(
      'retryTimeoutMs',
      options.retryTimeoutMs ?? seconds('REMUSTER_CLIENT_RETRY_TIMEOUT', -1) ?? 60_000,
      -1,
    ),
    waitServerMs: checked('waitServerMs', options.waitServerMs ?? seconds('REMUSTER_WAIT_SERVER', 0) ?? 30_000, 0),
    tryNewServers: checked('tryNewServers', options.tryNewServers ?? 16, 0),
  };
}

/** In milliseconds; a negative number of seconds is -1, which stands for "without end". */
function secondsOf(name: string, text: string | undefined, min: number): number | undefined {
  if (text === undefined || text === '') return undefined;
  const seconds = checked(name, Number(text), min);
  return seconds < 0 ? -1 : seconds * 1_000;
}

function checked(name: string, value: number, min: number): number {
  if (!Number.isFinite(value) || value < min)
    throw new RemusterError('BAD_ARGUMENT', `${name} must be a number of at least ${min}, not ${value}`);
  return value;
}

function addressesOf(addr: ConnectOptions['addr']): readonly Address[] {
  const texts = typeof addr === 'string' ? addr.split(',') : addr;
  if (texts.length === 0 || texts.length > addressesMax)
    throw new RemusterError('BAD_ARGUMENT', `addr must name 1 to ${addressesMax} nodes, not ${texts.length}`);
  return texts.map(addressOf);
}

function addressOf(text: string): Address {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^\s:/]+)):(\d{1,5})$/.exec(text.trim()) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65_535)
    throw new RemusterError('BAD_ARGUMENT', `addr must be host:port, not ${JSON.stringify(text)}`);
  return { host, port };
}
