/**
 * Starts the membership thread and waits until it has its socket. Messages before that are about the socket only; all
 * others go to the proxy. A thread that ends by itself is an internal error and stops the node.
 */
import { RemusterError, parseErrorCode } from '../../base/errors.ts';
import type { Peer, Program, Threads } from '../../base/ports.ts';
import { mainLoopBeatMs } from '../../membership/detectors/main-loop-monitor.ts';
import type { MembershipListener } from '../../membership/membership-handle.ts';
import type { MembershipStart } from './membership-start.ts';
import type { MembershipThreadData } from './membership-thread.ts';
import { fromMembershipThreadCodec } from './membership-thread-protocol.ts';
import { type ClusterSecrets, MembershipProxy } from './membership-proxy.ts';

export type MembershipThread = {
  readonly membership: MembershipStart;
  partitionFrom(peers: readonly Peer[]): void;
  /** For messages that the thread itself sends and receives. */
  setSecrets(secrets: ClusterSecrets): void;
  transportCounters(): Readonly<Record<string, number>>;
  close(): Promise<void>;
};

export async function startMembershipThread(threads: Threads, data: MembershipThreadData): Promise<MembershipThread> {
  const opening = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let proxy: MembershipProxy | undefined;
  let listener: MembershipListener | undefined;
  let closing = false;
  const thread = threads.start(
    { name: 'membership', program, data: new TextEncoder().encode(JSON.stringify(data)) },
    {
      message: (body) => (proxy === undefined ? onOpening(body, opening) : proxy.handleMessage(body)),
      exited: (reason) => {
        opening.reject(new RemusterError('INTERNAL', `the membership thread ended: ${reason}`));
        proxy?.stop();
        if (!closing) listener?.onHalt(new RemusterError('INTERNAL', `the membership thread ended: ${reason}`));
        ended.resolve();
      },
    },
  );
  const close = async (): Promise<void> => {
    closing = true;
    thread.kill();
    await ended.promise;
  };
  try {
    await opening.promise;
  } catch (error) {
    await close();
    throw error;
  }
  return {
    membership: ({ clock, streams, identity }, reports) => {
      const beatMs = mainLoopBeatMs(data.options.stuckAfterMs);
      listener = reports;
      proxy = new MembershipProxy({ clock, streams, thread, beatMs }, identity, reports);
      return proxy;
    },
    setSecrets: (secrets) => proxy?.setSecrets(secrets),
    partitionFrom: (peers) => proxy?.partitionFrom(peers),
    transportCounters: () => proxy?.transportCounters() ?? {},
    close,
  };
}

function onOpening(body: Uint8Array, opening: PromiseWithResolvers<void>): void {
  const message = fromMembershipThreadCodec.decode(body);
  if (message.kind === 'listening') opening.resolve();
  if (message.kind === 'failed') opening.reject(new RemusterError(parseErrorCode(message.code), message.text));
}

/** Beside this file with the same extension, so that one line serves the sources and the built package. */
const program: Program = {
  moduleUrl: import.meta.url.replace('membership-thread-start', 'membership-thread'),
  main: () => {},
};
