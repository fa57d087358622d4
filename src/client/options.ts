/**
 * Reads ConnectOptions, environment and defaults into checked client settings. Throws BAD_ARGUMENT and names the
 * option.
 */
import { RemusterError } from '../base/errors.ts';
import type { Address } from '../base/ports.ts';
import type { CallTimeouts } from './call-deadlines.ts';

export type ConnectOptions = {
  /** Nodes of the cluster as `host:port`: one is enough, several help while one of them is down. */
  readonly addr: string | readonly string[];
  /** The name of the cluster; `remuster` if left out. */
  readonly cluster?: string;
  /** The secret of the cluster; needed unless everything is on loopback. */
  readonly secret?: string;
  /** How long a question to the cluster may take; 10,000 if left out. Calls of pools have `timeoutMs` of their own. */
  readonly requestTimeoutMs?: number;
  /**
   * How long a call is sent again while nodes cannot be reached: 0 not at all, -1 for ever. If left out, the seconds of
   * REMUSTER_CLIENT_RETRY_TIMEOUT, else 60,000.
   */
  readonly retryTimeoutMs?: number;
  /** How long the first connection may take. If left out, the seconds of REMUSTER_WAIT_SERVER, else 30,000. */
  readonly waitServerMs?: number;
  /** How many other nodes are tried at once when the present one cannot be reached; 16 if left out. */
  readonly tryNewServers?: number;
};

export type ClientSettings = CallTimeouts & {
  readonly addresses: readonly Address[];
  readonly waitServerMs: number;
  readonly tryNewServers: number;
};

const addressesMax = 64;

/** Throws BAD_ARGUMENT for what makes no sense. */
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

/** -1 second is -1 as well: it stands for "for ever". */
function secondsOf(name: string, text: string | undefined, min: number): number | undefined {
  if (text === undefined || text === '') return undefined;
  const seconds = checked(name, Number(text), min);
  return seconds < 0 ? -1 : seconds * 1_000;
}

function checked(name: string, value: number, min: number): number {
  if (!Number.isFinite(value) || value < min)
    throw new RemusterError('BAD_ARGUMENT', `${name} is a number from ${min} on`);
  return value;
}

function addressesOf(addr: ConnectOptions['addr']): readonly Address[] {
  const texts = typeof addr === 'string' ? addr.split(',') : addr;
  if (texts.length === 0 || texts.length > addressesMax)
    throw new RemusterError('BAD_ARGUMENT', `addr names 1 to ${addressesMax} nodes`);
  return texts.map(addressOf);
}

function addressOf(text: string): Address {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^\s:/]+)):(\d{1,5})$/.exec(text.trim()) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65_535)
    throw new RemusterError('BAD_ARGUMENT', 'addr must be host:port');
  return { host, port };
}
