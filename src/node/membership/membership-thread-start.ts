/**
 * Starts the membership thread and waits until it has its socket. What the thread says before the core listens is about
 * its socket only; everything else goes to the near end. A thread that ends by itself is a mistake of ours.
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
  cutOff(peers: readonly Peer[]): void;
  /** For what the thread sends and receives itself. */
  setSecrets(secrets: ClusterSecrets): void;
  transportCounters(): Readonly<Record<string, number>>;
  close(): Promise<void>;
};

export async function startMembershipThread(threads: Threads, data: MembershipThreadData): Promise<MembershipThread> {
  const opening = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let near: { readonly end: MembershipProxy; readonly reports: MembershipListener } | undefined;
  let closing = false;
  const thread = threads.start(
    { name: 'membership', program, data: new TextEncoder().encode(JSON.stringify(data)) },
    {
      message: (body) => (near === undefined ? opened(body, opening) : near.end.handleMessage(body)),
      exited: (reason) => {
        opening.reject(new RemusterError('INTERNAL', `the membership thread ended: ${reason}`));
        near?.end.stop();
        if (!closing) near?.reports.onHalt(new RemusterError('INTERNAL', `the membership thread ended: ${reason}`));
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
      const end = new MembershipProxy({ clock, streams, thread, beatMs }, identity, reports);
      near = { end, reports };
      return end;
    },
    setSecrets: (secrets) => near?.end.setSecrets(secrets),
    cutOff: (peers) => near?.end.partitionFrom(peers),
    transportCounters: () => near?.end.transportCounters() ?? {},
    close,
  };
}

function opened(body: Uint8Array, opening: PromiseWithResolvers<void>): void {
  const word = fromMembershipThreadCodec.decode(body);
  if (word.kind === 'opened') opening.resolve();
  if (word.kind === 'failed') opening.reject(new RemusterError(parseErrorCode(word.code), word.text));
}

/** Beside this file, with the same extension, so that the same line works in sources and in the built package. */
const program: Program = {
  moduleUrl: import.meta.url.replace('membership-thread-start', 'membership-thread'),
  main: () => {},
};
