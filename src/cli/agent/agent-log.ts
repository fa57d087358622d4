/** The log of an agent, and what the agent itself logs: that no seed replies, and an uncaught error that ends it. */
import type { Log } from '../../base/ports.ts';
import { openLog } from '../../io/system/log.ts';
import type { NodeOptions } from '../../node/options/options.ts';
import { formatHostPort } from '../../node/options/option-types.ts';
import { exitFailed } from '../command/exit.ts';

const reminderMs = 60_000;

export function agentLog({ name, logLevel, secret, secretPrevious, token }: NodeOptions): Log {
  const secrets = [secret, ...secretPrevious, token].filter((text) => text !== undefined);
  return openLog({ level: logLevel, pretty: process.stderr.isTTY, node: name, secrets });
}

/** Warns until the node has joined: seeds do not reply to a node that they refuse, so the log says what to check. */
export function warnUntilJoined(log: Log, { join, requestTimeoutMs }: NodeOptions, joined: Promise<void>): void {
  if (join.length === 0) return;
  const warn = (): void => {
    const seeds = join.map(formatHostPort).join(',');
    log('warn', 'not joined yet: no seed has replied; check the addresses, the secret and the cluster name', { seeds });
    timer = setTimeout(warn, reminderMs).unref();
  };
  let timer = setTimeout(warn, requestTimeoutMs).unref();
  const settled = (): void => clearTimeout(timer);
  joined.then(settled, settled);
}

/** A bug ends the process with one line in the log. `cleanUp` runs before. */
export function exitOnUncaughtError(log: Log, cleanUp: () => void): void {
  const exit = (error: unknown): void => {
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    log('error', `uncaught ${name}: ${message}`, { code: 'INTERNAL', stack });
    cleanUp();
    process.exit(exitFailed);
  };
  process.on('uncaughtException', exit);
  process.on('unhandledRejection', exit);
}
