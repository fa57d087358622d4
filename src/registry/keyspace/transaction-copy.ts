/**
 * Copies the bytes of a transaction so that its caller may reuse them. Small values share a 4 KiB piece, because a
 * buffer for each costs more than the rest of the work; large and tiny ones get their own buffer. The size of a piece
 * bounds what one value that stays can keep of those that go.
 */
import type { RegistryOp, RegistryTransaction } from '../../base/registry.ts';

/** V8 keeps typed arrays up to this size on its own heap, where they cost little. */
const tinyBytesMax = 64;
const sharedBytesMax = 1_024;
const pieceBytes = 4_096;

export function copyTransaction({ compare, then, otherwise }: RegistryTransaction): RegistryTransaction {
  const memory = new Pieces();
  const ownOp = (op: RegistryOp): RegistryOp => {
    if (op.kind !== 'put') return op;
    const { kind, key, lease } = op;
    const value = memory.copy(op.value);
    return lease === undefined ? { kind, key, value } : { kind, key, value, lease };
  };
  const ownCompare = (one: RegistryTransaction['compare'][number]): typeof one =>
    one.target === 'value' ? { ...one, than: new Uint8Array(one.than) } : one;
  return { compare: compare.map(ownCompare), then: then.map(ownOp), otherwise: otherwise.map(ownOp) };
}

class Pieces {
  #piece = new Uint8Array(0);
  #used = 0;

  copy(value: Uint8Array): Uint8Array {
    const { length } = value;
    if (length <= tinyBytesMax || length > sharedBytesMax) return new Uint8Array(value);
    if (this.#used + length > this.#piece.length) {
      this.#piece = new Uint8Array(pieceBytes);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += length;
    this.#piece.set(value, at);
    return this.#piece.subarray(at, this.#used);
  }
}
