/**
 * Mutates valid inputs of a decoder. Any other result than acceptance or a coded refusal (another exception, a value
 * that changes when it is encoded and decoded again, growing memory) ends the run and prints the input for a test.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Random } from '../../../src/base/random.ts';

export type FuzzTarget = {
  readonly name: string;
  /** Valid inputs, from which the mutations start. */
  readonly corpus: readonly Uint8Array[];
  /** This many leading bytes are mostly kept, or the header check would refuse nearly every input. */
  readonly headerBytes: number;
  /** Decodes the input. Throws its refusal as in production, and another error if the accepted value is wrong. */
  readonly attempt: (input: Uint8Array) => void;
  /** The reason under which a refusal is counted; undefined if the error is a bug. */
  readonly reasonOf: (error: unknown) => string | undefined;
};

export type FuzzReport = {
  readonly target: string;
  readonly iterations: number;
  readonly accepted: number;
  readonly rejected: ReadonlyMap<string, number>;
  /** CPU time, so that a busy machine does not look like a slow decoder. */
  readonly slowestMs: number;
  readonly slowestBytes: number;
  readonly grownBytesMax: number;
};

const memoryCheckEvery = 500;
const inputBytesMax = 16_384;
/** Decoders keep no memory between two inputs; this is the tolerance. */
const grownBytesLimit = 256 * 1_024 * 1_024;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

export async function fuzz(
  target: FuzzTarget,
  options: { readonly iterations: number; readonly seed: string },
): Promise<FuzzReport> {
  const random = new Random(options.seed).fork(target.name);
  const rejected = new Map<string, number>();
  const before = memoryBytes();
  let [accepted, slowestMs, slowestBytes, grownBytesMax] = [0, 0, 0, 0];
  for (let i = 0; i < options.iterations; i++) {
    const input = mutated(target, random);
    const start = process.threadCpuUsage();
    const reason = runInput(target, input, `--seed ${options.seed} --iterations ${i + 1}`);
    const { user, system } = process.threadCpuUsage(start);
    const tookMs = (user + system) / 1_000;
    if (tookMs > slowestMs) [slowestMs, slowestBytes] = [tookMs, input.length];
    if (reason === undefined) accepted += 1;
    else rejected.set(reason, (rejected.get(reason) ?? 0) + 1);
    if (i % memoryCheckEvery !== 0) continue;
    // Deferred work of a decoder runs now and releases its memory.
    await nextTurn();
    grownBytesMax = Math.max(grownBytesMax, grownBytes(before));
    if (grownBytesMax > grownBytesLimit) throw new Error(`${target.name}: memory grew by ${grownBytesMax} bytes`);
  }
  const { iterations } = options;
  return { target: target.name, iterations, accepted, rejected, slowestMs, slowestBytes, grownBytesMax };
}

/** The reason of a refusal, undefined for an acceptance. */
export function runInput(target: FuzzTarget, input: Uint8Array, replay = ''): string | undefined {
  try {
    target.attempt(input);
    return undefined;
  } catch (error) {
    const reason = target.reasonOf(error);
    if (reason !== undefined) return reason;
    const hex = Array.from(input, (byte) => byte.toString(16).padStart(2, '0')).join('');
    throw new Error(`a bug of ${target.name}, --target ${target.name} ${replay}, input ${hex}`, { cause: error });
  }
}

/** Growth of live memory: collects garbage before it reports a large growth. */
function grownBytes(before: number): number {
  const grown = memoryBytes() - before;
  if (grown < grownBytesLimit / 4) return grown;
  collectGarbage();
  return memoryBytes() - before;
}

function memoryBytes(): number {
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}

/** One valid input, changed in one to four ways. */
function mutated(target: FuzzTarget, random: Random): Uint8Array {
  const original = random.pick(target.corpus);
  const kept = random.chance(0.85) ? Math.min(target.headerBytes, original.length) : 0;
  // A copy: `slice` of a Buffer is a view, and the mutations would corrupt the corpus.
  let body = new Uint8Array(original.subarray(kept));
  for (let changes = 1 + random.below(4); changes > 0; changes--) {
    body = random.pick(mutations)(body, random, target);
  }
  const out = new Uint8Array(Math.min(kept + body.length, inputBytesMax));
  out.set(original.subarray(0, kept));
  out.set(body.subarray(0, out.length - kept), kept);
  return out;
}

type Mutation = (input: Bytes, random: Random, target: FuzzTarget) => Bytes;
type Bytes = Uint8Array<ArrayBuffer>;

const interestingBytes = [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff];
/** Huge lengths and numbers, encoded as varints and as fixed integers. */
const hugeNumbers = [
  [0xff, 0xff, 0xff, 0xff, 0x0f],
  [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
  [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
  [0x7f, 0xff, 0xff, 0xff],
  [0xff, 0xff, 0xff, 0xff],
  [0x80, 0x80, 0x80, 0x00],
].map((numbers) => Uint8Array.from(numbers));

const mutations: readonly Mutation[] = [
  // Bit flips.
  (input, random) => {
    for (let flips = 1 + random.below(8); flips > 0 && input.length > 0; flips--) {
      const at = random.below(input.length);
      input[at] = (input[at] as number) ^ (1 << random.below(8));
    }
    return input;
  },
  // A byte at the edge of its range.
  (input, random) => {
    if (input.length > 0) input[random.below(input.length)] = random.pick(interestingBytes);
    return input;
  },
  // Cut off.
  (input, random) => input.slice(0, random.below(input.length + 1)),
  // Trailing bytes.
  (input, random) => spliced(input, input.length, 0, random.bytes(1 + random.below(16))),
  // A piece of another input.
  (input, random, { corpus }) => {
    const other = random.pick(corpus);
    const from = random.below(other.length + 1);
    const piece = other.subarray(from, from + random.below(64));
    return spliced(input, random.below(input.length + 1), random.below(8), piece);
  },
  // A huge length.
  (input, random) => spliced(input, random.below(input.length + 1), random.below(5), random.pick(hugeNumbers)),
  // A missing part.
  (input, random) => spliced(input, random.below(input.length + 1), 1 + random.below(16), new Uint8Array(0)),
  // A repeated part.
  (input, random) => {
    const from = random.below(input.length + 1);
    return spliced(input, from, 0, input.slice(from, from + 1 + random.below(32)));
  },
  // Random bytes, or zeros.
  (input, random) => (random.chance(0.2) ? new Uint8Array(random.bytes(random.below(64))) : input),
  (input, random) => (random.chance(0.2) ? new Uint8Array(random.below(64)) : input),
];

function spliced(input: Uint8Array, at: number, remove: number, insert: Uint8Array): Bytes {
  const rest = input.subarray(at + remove);
  const out = new Uint8Array(at + insert.length + rest.length);
  out.set(input.subarray(0, at));
  out.set(insert, at);
  out.set(rest, at + insert.length);
  return out;
}
