/** What the agent itself logs: that it is still alone, and that an internal error ends it. */
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

/** A node that is refused learns nothing but silence, so it says what an operator should compare. */
export function warnWhileAlone(log: Log, { join, requestTimeoutMs }: NodeOptions, joined: Promise<void>): void {
  if (join.length === 0) return;
  const warn = (): void => {
    const seeds = join.map(formatHostPort).join(',');
    log('warn', 'not joined yet: no seed has answered; compare addresses, secret and cluster name', { seeds });
    timer = setTimeout(warn, reminderMs).unref();
  };
  let timer = setTimeout(warn, requestTimeoutMs).unref();
  const settled = (): void => clearTimeout(timer);
  joined.then(settled, settled);
}

/** A mistake of ours ends the process, with one line that says so. */
export function exitOnUncaughtError(log: Log, lastWords: () => void): void {
  const die = (error: unknown): void => {
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    log('error', `uncaught ${name}: ${message}`, { code: 'INTERNAL', stack });
    lastWords();
    process.exit(exitFailed);
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
}
