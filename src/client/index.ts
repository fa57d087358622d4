/**
 * The public door for applications that talk to a cluster without being part of it: opens a real transport in the role
 * `client` and holds a session on it. The composition root of clients; all else is in connect.ts.
 */
import { RemusterError } from '../base/errors.ts';
import { nodeIdBytes, nodeIdFrom } from '../base/ids.ts';
import type { Address } from '../base/ports.ts';
import { systemClock } from '../io/clock.ts';
import { entropyBytes } from '../io/entropy.ts';
import { isLoopback } from '../io/transport/loopback.ts';
import { openTransport } from '../io/transport/transport.ts';
import { type ClusterSession, openSession } from './connect.ts';

export type { ClusterMember, ClusterSession } from './connect.ts';

export type ConnectOptions = {
  /** Any node of the cluster, as `host:port`. */
  readonly addr: string;
  /** The name of the cluster; `remuster` if left out. */
  readonly cluster?: string;
  /** The secret of the cluster; needed unless everything is on loopback. */
  readonly secret?: string;
  readonly requestTimeoutMs?: number;
};

const defaultTimeoutMs = 10_000;

/** Ends with a session to a node that has answered, or with a coded error. */
export async function connect(options: ConnectOptions): Promise<ClusterSession> {
  const { cluster = 'remuster', requestTimeoutMs = defaultTimeoutMs } = options;
  const to = addressOf(options.addr);
  const host = isLoopback(to.host) ? '127.0.0.1' : '0.0.0.0';
  const id = nodeIdFrom(entropyBytes(nodeIdBytes));
  const transport = await openTransport({
    ...{ cluster, clock: systemClock(), log: () => {}, bind: { host, port: 0 } },
    self: { id, name: `client-${id.slice(0, 8)}`, host, port: 0, generation: 1, roles: ['client'], dc: 'client' },
    secrets: { current: options.secret, previous: [] },
    // A client only asks: whatever is asked of it is refused.
    admit: () => 'role',
  });
  const session = openSession({ streams: transport.streams, to, requestTimeoutMs });
  const closing = { ...session, close: () => session.close().then(() => transport.close()) };
  try {
    await session.members();
    return closing;
  } catch (error) {
    await closing.close();
    throw error;
  }
}

function addressOf(text: string): Address {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^\s:/]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65_535)
    throw new RemusterError('BAD_ARGUMENT', 'addr must be host:port');
  return { host, port };
}
