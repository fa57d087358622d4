/**
 * Assembles the snapshot that the leader sends in chunks. Never uses it before it is complete and its checksum matches.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ConsensusMessageOf } from '../state/effects.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import type { SnapshotManager } from './snapshot-manager.ts';
import { ChunkedBytesBuilder } from '../state/snapshot.ts';

type IncomingSnapshot = {
  readonly lastIndex: number;
  readonly checksum: number;
  readonly totalBytes: number;
  readonly builder: ChunkedBytesBuilder;
  /** Complete, and being written. */
  writing: boolean;
};

export class SnapshotReceiver {
  readonly #state: ConsensusState;
  readonly #snapshots: SnapshotManager;
  #incoming: IncomingSnapshot | undefined;
  /** The snapshot has replaced the log; its sender gets a reply when that is durable. */
  #installed: { readonly from: NodeId; readonly lastIndex: number; readonly round: number } | undefined;

  constructor(state: ConsensusState, snapshots: SnapshotManager) {
    this.#state = state;
    this.#snapshots = snapshots;
  }

  /** False: the message is invalid and was ignored. */
  onChunk(from: NodeId, message: ConsensusMessageOf<'installSnapshot'>): boolean {
    const { commitIndex, options } = this.#state;
    const { lastIndex, totalBytes, offset, chunk } = message;
    if (totalBytes > options.snapshotBytesMax || offset + chunk.length > totalBytes) return false;
    if (lastIndex <= commitIndex) {
      this.#sendMatch(from, lastIndex, message.round);
      return true;
    }
    const incoming = this.#addChunk(message);
    if (incoming === undefined) {
      // Another snapshot is being written; the leader retries.
      return true;
    }
    if (!incoming.writing && incoming.builder.length === totalBytes) this.#complete(from, message, incoming);
    this.#state.persist();
    const { outbox, group, term, health } = this.#state;
    const about = { group, term, round: message.round, lastIndex, health: Math.round(health) };
    outbox.send(from, { kind: 'installSnapshotReply', ...about, offset: this.#incoming?.builder.length ?? 0 });
    return true;
  }

  #addChunk(message: ConsensusMessageOf<'installSnapshot'>): IncomingSnapshot | undefined {
    const { lastIndex, checksum, totalBytes, offset, chunk } = message;
    const known = this.#incoming;
    const isSame = known?.lastIndex === lastIndex && known.checksum === checksum && known.totalBytes === totalBytes;
    if (known?.writing === true && !isSame) return undefined;
    const about = { lastIndex, checksum, totalBytes, writing: false };
    const incoming =
      known !== undefined && isSame
        ? known
        : { ...about, builder: new ChunkedBytesBuilder(this.#state.options.snapshotPartBytes) };
    this.#incoming = incoming;
    if (offset === incoming.builder.length && !incoming.writing) incoming.builder.add(chunk);
    return incoming;
  }

  #complete(from: NodeId, message: ConsensusMessageOf<'installSnapshot'>, incoming: IncomingSnapshot): void {
    const { builder } = incoming;
    if (builder.checksum !== message.checksum) {
      this.#incoming = undefined;
      return;
    }
    incoming.writing = true;
    const { lastIndex: index, lastTerm: term, members } = message;
    this.#snapshots.install({ index, term, members, state: builder.finish() }, from, () => {
      this.#incoming = undefined;
      this.#installed = { from, lastIndex: index, round: message.round };
    });
  }

  /** The install write was queued earlier, so the reply waits for it. */
  durable(): void {
    if (this.#installed === undefined) return;
    const { from, lastIndex, round } = this.#installed;
    this.#installed = undefined;
    this.#sendMatch(from, lastIndex, round);
  }

  #sendMatch(from: NodeId, lastIndex: number, round: number): void {
    const { outbox, group, term, health } = this.#state;
    this.#state.persist();
    const about = { group, term, round, ok: true, prevIndex: lastIndex, hintTerm: 0, health: Math.round(health) };
    outbox.send(from, { kind: 'appendEntriesReply', ...about, index: lastIndex });
  }
}
