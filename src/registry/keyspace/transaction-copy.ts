/**
 * Copies the bytes of a transaction, so that its caller may reuse them. Small values share a 4 KiB chunk, because a
 * buffer per value costs more than the rest of the work; large and tiny values get their own buffer. The size of a
 * chunk bounds the memory that one long-lived value holds.
 */
import type { RegistryOp, RegistryTransaction } from '../../base/registry.ts';

/** V8 allocates typed arrays up to this size on its own heap, which is cheap. */
const tinyBytesMax = 64;
const sharedBytesMax = 1_024;
const chunkBytes = 4_096;

export function copyTransaction({ compare, then, otherwise }: RegistryTransaction): RegistryTransaction {
  const chunks = new ChunkAllocator();
  const copyOp = (op: RegistryOp): RegistryOp => {
    if (op.kind !== 'put') return op;
    const { kind, key, lease } = op;
    const value = chunks.copy(op.value);
    return lease === undefined ? { kind, key, value } : { kind, key, value, lease };
  };
  const copyCompare = (one: RegistryTransaction['compare'][number]): typeof one =>
    one.target === 'value' ? { ...one, than: new Uint8Array(one.than) } : one;
  return { compare: compare.map(copyCompare), then: then.map(copyOp), otherwise: otherwise.map(copyOp) };
}

class ChunkAllocator {
  #chunk = new Uint8Array(0);
  #used = 0;

  copy(value: Uint8Array): Uint8Array {
    const { length } = value;
    if (length <= tinyBytesMax || length > sharedBytesMax) return new Uint8Array(value);
    if (this.#used + length > this.#chunk.length) {
      this.#chunk = new Uint8Array(chunkBytes);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += length;
    this.#chunk.set(value, at);
    return this.#chunk.subarray(at, this.#used);
  }
}
