/**
 * Assembles the snapshot that the leader sends in chunks. Uses nothing before all of it is there and its checksum
 * matches.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ConsensusMessageOf } from '../election/election.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import type { SnapshotManager } from './snapshot-manager.ts';
import { ChunkedBytesBuilder } from '../state/state-bytes.ts';

type IncomingSnapshot = {
  readonly lastIndex: number;
  readonly checksum: number;
  readonly totalBytes: number;
  readonly builder: ChunkedBytesBuilder;
  /** Whole, and on its way to the disk. */
  writing: boolean;
};

export class SnapshotReceiver {
  readonly #state: ConsensusState;
  readonly #snapshots: SnapshotManager;
  #arriving: IncomingSnapshot | undefined;
  /** A state has taken the place of the log, and its sender is told when that is durable. */
  #installed: { readonly from: NodeId; readonly lastIndex: number; readonly round: number } | undefined;

  constructor(state: ConsensusState, snapshots: SnapshotManager) {
    this.#state = state;
    this.#snapshots = snapshots;
  }

  /** False: the message makes no sense, and nothing was done. */
  onChunk(from: NodeId, message: ConsensusMessageOf<'snapshotChunk'>): boolean {
    const { commitIndex, options } = this.#state;
    const { lastIndex, totalBytes, offset, chunk } = message;
    if (totalBytes > options.snapshotBytesMax || offset + chunk.length > totalBytes) return false;
    if (lastIndex <= commitIndex) {
      this.#finished(from, lastIndex, message.round);
      return true;
    }
    const arriving = this.#addChunk(message);
    if (arriving === undefined) {
      // Another state is being written; the leader asks again.
      return true;
    }
    if (!arriving.writing && arriving.builder.length === totalBytes) this.#complete(from, message, arriving);
    this.#state.persist();
    const { outbox, group, term, health } = this.#state;
    const about = { group, term, round: message.round, lastIndex, health: Math.round(health) };
    outbox.send(from, { kind: 'snapshotReply', ...about, offset: this.#arriving?.builder.length ?? 0 });
    return true;
  }

  #addChunk(message: ConsensusMessageOf<'snapshotChunk'>): IncomingSnapshot | undefined {
    const { lastIndex, checksum, totalBytes, offset, chunk } = message;
    const known = this.#arriving;
    const isSame = known?.lastIndex === lastIndex && known.checksum === checksum && known.totalBytes === totalBytes;
    if (known?.writing === true && !isSame) return undefined;
    const about = { lastIndex, checksum, totalBytes, writing: false };
    const arriving =
      known !== undefined && isSame
        ? known
        : { ...about, builder: new ChunkedBytesBuilder(this.#state.options.snapshotPartBytes) };
    this.#arriving = arriving;
    if (offset === arriving.builder.length && !arriving.writing) arriving.builder.add(chunk);
    return arriving;
  }

  #complete(from: NodeId, message: ConsensusMessageOf<'snapshotChunk'>, arriving: IncomingSnapshot): void {
    const { builder } = arriving;
    if (builder.checksum !== message.checksum) {
      this.#arriving = undefined;
      return;
    }
    arriving.writing = true;
    const { lastIndex: index, lastTerm: term, members } = message;
    this.#snapshots.install({ index, term, members, state: builder.finish() }, from, () => {
      this.#arriving = undefined;
      this.#installed = { from, lastIndex: index, round: message.round };
    });
  }

  /** The write that installs it was asked for before this, so what is said now waits for it. */
  durable(): void {
    if (this.#installed === undefined) return;
    const { from, lastIndex, round } = this.#installed;
    this.#installed = undefined;
    this.#finished(from, lastIndex, round);
  }

  #finished(from: NodeId, lastIndex: number, round: number): void {
    const { outbox, group, term, health } = this.#state;
    this.#state.persist();
    const about = { group, term, round, ok: true, prevIndex: lastIndex, hintTerm: 0, health: Math.round(health) };
    outbox.send(from, { kind: 'appendReply', ...about, index: lastIndex });
  }
}
