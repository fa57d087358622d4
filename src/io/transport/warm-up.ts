/**
 * JIT warm-up of the transport: temporary nodes on their own ports and cluster name exchange traffic. The real node is
 * not touched. Never throws.
 *
 * What it is for: code that runs for the first time is compiled on the way, which takes several times as long as
 * running it. A node that is alone has time to get that done before its first companions come.
 */
import { nodeIdFrom } from '../../base/ids.ts';
import { success } from '../../base/errors.ts';
import type { Identity, StreamService } from '../../base/ports.ts';
import { entropyBytes } from '../system/entropy.ts';
import { openDatagramTransport, openStreamTransport, type DatagramTransport } from './transport.ts';
import type { TransportOptions } from './transport-options.ts';

const nodeIdBytes = 16;
/** So often functions have been called when their cheap compiled form is made. */
const rounds = 20;
const requestBytes = 300;
const requestTimeoutMs = 1_000;

/** Two pretended nodes ask each other over connections. Never throws: whatever fails here is tried again in earnest. */
export async function warmUpStreams(like: TransportOptions): Promise<void> {
  const opened = await openAll(pretended(like, 2), openStreamTransport);
  for (const { streams } of opened) streams.serve(echo);
  const [a, b] = opened;
  if (a === undefined || b === undefined) return;
  for (let round = 0; round < rounds; round++) {
    const [from, to] = round % 2 === 0 ? [a, b] : [b, a];
    const address = { host: like.bind.host, port: to.port };
    await new Promise<void>((resolve) => {
      from.streams.request(address, new Uint8Array(requestBytes), requestTimeoutMs, () => resolve());
    });
  }
  await closeAll(opened);
}

const echo: StreamService = {
  request: (_from, body, _remainingMs, reply) => reply(success(body)),
  notify: () => {},
  open: () => ({ chunk: () => {}, writable: () => {}, ended: () => {} }),
};

export type WarmUpNode = { readonly identity: Identity; readonly transport: DatagramTransport };

/** Pretended nodes with datagrams, for who wants to try out what it says by them; none if they cannot be opened. */
export async function openWarmUpNodes(like: TransportOptions, count: number): Promise<readonly WarmUpNode[]> {
  const options = pretended(like, count);
  const opened = await openAll(options, openDatagramTransport);
  return opened.map((transport, i) => ({ identity: { ...options[i]!.self, port: transport.port }, transport }));
}

function pretended(like: TransportOptions, count: number): readonly TransportOptions[] {
  const cluster = Buffer.from(entropyBytes(nodeIdBytes)).toString('hex');
  return Array.from({ length: count }, (_, i) => ({
    ...{ ...like, cluster, admit: () => undefined, log: () => {} },
    self: { ...like.self, id: nodeIdFrom(entropyBytes(nodeIdBytes)), name: `pretended-${i + 1}`, port: 0 },
    bind: { host: like.bind.host, port: 0 },
  }));
}

/** All of them, or none. */
async function openAll<T extends { close(): Promise<void> }>(
  options: readonly TransportOptions[],
  open: (options: TransportOptions) => Promise<T>,
): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(options.map(open));
  const opened = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  if (opened.length === options.length) return opened;
  await closeAll(opened);
  return [];
}

async function closeAll(opened: readonly { close(): Promise<void> }[]): Promise<void> {
  await Promise.all(opened.map((one) => one.close()));
}
