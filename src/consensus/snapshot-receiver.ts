/**
 * Puts the state together that a leader sends in parts. One at a time, in order, within a bound; what is lost is asked
 * for again by naming the next byte. Nothing is used before all of it is there and its checksum is right.
 */
import type { NodeId } from '../base/ids.ts';
import type { MessageNamed } from './election.ts';
import type { GroupState } from './group-state.ts';
import type { Snapshots } from './snapshots.ts';
import { StateBuilder } from './state-bytes.ts';

type Arriving = {
  readonly lastIndex: number;
  readonly checksum: number;
  readonly totalBytes: number;
  readonly builder: StateBuilder;
  /** Whole, and on its way to the disk. */
  writing: boolean;
};

export class SnapshotReceiver {
  readonly #state: GroupState;
  readonly #snapshots: Snapshots;
  #arriving: Arriving | undefined;
  /** A state has taken the place of the log, and its sender is told when that is durable. */
  #installed: { readonly from: NodeId; readonly lastIndex: number; readonly round: number } | undefined;

  constructor(state: GroupState, snapshots: Snapshots) {
    this.#state = state;
    this.#snapshots = snapshots;
  }

  /** False: the message makes no sense, and nothing was done. */
  part(from: NodeId, message: MessageNamed<'snapshotChunk'>): boolean {
    const { commitIndex, options } = this.#state;
    const { lastIndex, totalBytes, offset, part } = message;
    if (totalBytes > options.snapshotBytesMax || offset + part.length > totalBytes) return false;
    if (lastIndex <= commitIndex) {
      this.#finished(from, lastIndex, message.round);
      return true;
    }
    const arriving = this.#take(message);
    if (arriving === undefined) {
      // Another state is being written; the leader asks again.
      return true;
    }
    if (!arriving.writing && arriving.builder.length === totalBytes) this.#complete(from, message, arriving);
    this.#state.persist();
    const { out, group, term, health } = this.#state;
    const about = { group, term, round: message.round, lastIndex, health: Math.round(health) };
    out.send(from, { kind: 'snapshotReply', ...about, offset: this.#arriving?.builder.length ?? 0 });
    return true;
  }

  #take(message: MessageNamed<'snapshotChunk'>): Arriving | undefined {
    const { lastIndex, checksum, totalBytes, offset, part } = message;
    const known = this.#arriving;
    const isSame = known?.lastIndex === lastIndex && known.checksum === checksum && known.totalBytes === totalBytes;
    if (known?.writing === true && !isSame) return undefined;
    const about = { lastIndex, checksum, totalBytes, writing: false };
    const arriving =
      known !== undefined && isSame
        ? known
        : { ...about, builder: new StateBuilder(this.#state.options.snapshotPartBytes) };
    this.#arriving = arriving;
    if (offset === arriving.builder.length && !arriving.writing) arriving.builder.add(part);
    return arriving;
  }

  #complete(from: NodeId, message: MessageNamed<'snapshotChunk'>, arriving: Arriving): void {
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
    const { out, group, term, health } = this.#state;
    this.#state.persist();
    const about = { group, term, round, ok: true, prevIndex: lastIndex, hintTerm: 0, health: Math.round(health) };
    out.send(from, { kind: 'appendReply', ...about, index: lastIndex });
  }
}
