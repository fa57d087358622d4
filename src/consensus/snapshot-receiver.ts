/**
 * Puts the state together that a leader sends in parts. One at a time, in order, within a bound; what is lost is asked
 * for again by naming the next byte. Nothing is used before all of it is there and its checksum is right.
 */
import type { NodeId } from '../base/ids.ts';
import { crc32 } from './checksum.ts';
import type { MessageNamed } from './election.ts';
import type { GroupState } from './group-state.ts';
import type { Snapshots } from './snapshots.ts';

type Arriving = {
  readonly lastIndex: number;
  readonly checksum: number;
  readonly state: Uint8Array;
  received: number;
  crc: number;
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
    if (!arriving.writing && arriving.received === totalBytes) this.#complete(from, message, arriving);
    this.#state.persist();
    const { out, group, term, health } = this.#state;
    const about = { group, term, round: message.round, lastIndex, health: Math.round(health) };
    out.send(from, { kind: 'snapshotReply', ...about, offset: this.#arriving?.received ?? 0 });
    return true;
  }

  #take(message: MessageNamed<'snapshotChunk'>): Arriving | undefined {
    const { lastIndex, checksum, totalBytes, offset, part } = message;
    const known = this.#arriving;
    const isSame = known?.lastIndex === lastIndex && known.checksum === checksum && known.state.length === totalBytes;
    if (known?.writing === true && !isSame) return undefined;
    const state = known !== undefined && isSame ? known.state : new Uint8Array(totalBytes);
    const arriving =
      known !== undefined && isSame ? known : { lastIndex, checksum, state, received: 0, crc: 0, writing: false };
    this.#arriving = arriving;
    if (offset === arriving.received && !arriving.writing) {
      state.set(part, offset);
      arriving.received += part.length;
      arriving.crc = crc32(part, arriving.crc);
    }
    return arriving;
  }

  #complete(from: NodeId, message: MessageNamed<'snapshotChunk'>, arriving: Arriving): void {
    if (arriving.crc !== message.checksum) {
      this.#arriving = undefined;
      return;
    }
    arriving.writing = true;
    const { lastIndex: index, lastTerm: term, members, checksum } = message;
    this.#snapshots.install({ index, term, members, state: arriving.state, checksum }, from, () => {
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
