/** The bytes of one simulated file, and how many of them a power loss keeps for certain. Knows no time and no path. */
import type { Random } from '../../base/random.ts';

const neverSynced = -1;

export class FileContent {
  #chunks: Uint8Array[] = [];
  #sizeBytes = 0;
  #syncedBytes = neverSynced;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  bytes(): Uint8Array {
    const all = new Uint8Array(this.#sizeBytes);
    let at = 0;
    for (const chunk of this.#chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    this.#chunks = [all];
    return all.slice();
  }

  replace(bytes: Uint8Array): void {
    this.#chunks = [bytes];
    this.#sizeBytes = bytes.length;
    this.#syncedBytes = bytes.length;
  }

  append(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    this.#sizeBytes += bytes.length;
  }

  sync(): void {
    this.#syncedBytes = this.#sizeBytes;
  }

  truncate(sizeBytes: number): void {
    const kept = this.bytes().slice(0, sizeBytes);
    this.#chunks = [kept];
    this.#sizeBytes = kept.length;
    this.#syncedBytes = Math.min(this.#syncedBytes, kept.length);
  }

  /** Keeps the synced bytes and a random part of the others, whose end may be zeros. False if the file is gone. */
  loseUnsynced(random: Random): boolean {
    const syncedBytes = Math.max(0, this.#syncedBytes);
    const unsyncedBytes = this.#sizeBytes - syncedBytes;
    if (unsyncedBytes > 0) {
      this.truncate(syncedBytes + random.below(unsyncedBytes + 1));
      const keptBytes = this.#sizeBytes - syncedBytes;
      if (keptBytes > 0 && random.chance(0.25)) this.#zeroFrom(syncedBytes + random.below(keptBytes));
    }
    if (this.#syncedBytes === neverSynced && this.#sizeBytes === 0) return false;
    this.#syncedBytes = this.#sizeBytes;
    return true;
  }

  flipBit(random: Random): void {
    const bytes = this.bytes();
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
    this.#chunks = [bytes];
  }

  /** The file system has allocated the tail, but its bytes never reached the medium. */
  #zeroFrom(offset: number): void {
    const bytes = this.bytes();
    bytes.fill(0, offset);
    this.#chunks = [bytes];
  }
}
