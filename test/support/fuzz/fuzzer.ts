/**
 * Mutates valid inputs of a decoder. Anything but acceptance or a coded refusal (another exception, a value that does
 * not survive being encoded again, memory that grows) ends the run with the input, so that it can become a test.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Random } from '../../../src/base/random.ts';

export type FuzzTarget = {
  readonly name: string;
  /** Valid inputs, from which the mutations start. */
  readonly corpus: readonly Uint8Array[];
  /** So many bytes at the front are mostly left alone, or nearly everything would be refused by its header. */
  readonly headerBytes: number;
  /** Decodes. Refuses as it does in production; throws anything else if what it accepted is wrong. */
  readonly attempt: (input: Uint8Array) => void;
  /** The word that a refusal is counted under; undefined if the error is not a refusal but a fault. */
  readonly reasonOf: (error: unknown) => string | undefined;
};

export type FuzzReport = {
  readonly family: string;
  readonly iterations: number;
  readonly accepted: number;
  readonly rejected: ReadonlyMap<string, number>;
  /** Of processor time, so that a busy machine does not look like a slow decoder. */
  readonly slowestMs: number;
  readonly slowestBytes: number;
  readonly grownBytesMax: number;
};

const breatheEvery = 500;
const inputBytesMax = 16_384;
/** Decoders hold nothing between two inputs. */
const grownBytesLimit = 256 * 1_024 * 1_024;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

export async function fuzz(
  family: FuzzTarget,
  options: { readonly iterations: number; readonly seed: string },
): Promise<FuzzReport> {
  const random = new Random(options.seed).fork(family.name);
  const rejected = new Map<string, number>();
  const before = memoryBytes();
  let [accepted, slowestMs, slowestBytes, grownBytesMax] = [0, 0, 0, 0];
  for (let i = 0; i < options.iterations; i++) {
    const input = mutated(family, random);
    const start = process.threadCpuUsage();
    const reason = runInput(family, input, `--seed ${options.seed} --iterations ${i + 1}`);
    const { user, system } = process.threadCpuUsage(start);
    const tookMs = (user + system) / 1_000;
    if (tookMs > slowestMs) [slowestMs, slowestBytes] = [tookMs, input.length];
    if (reason === undefined) accepted += 1;
    else rejected.set(reason, (rejected.get(reason) ?? 0) + 1);
    if (i % breatheEvery !== 0) continue;
    // What a decoder has put off until later happens now, and lets go of what it held.
    await nextTurn();
    grownBytesMax = Math.max(grownBytesMax, grownBytes(before));
    if (grownBytesMax > grownBytesLimit) throw new Error(`${family.name}: memory grew by ${grownBytesMax} bytes`);
  }
  const { iterations } = options;
  return { family: family.name, iterations, accepted, rejected, slowestMs, slowestBytes, grownBytesMax };
}

/** The reason of a refusal, undefined for an acceptance. */
export function runInput(family: FuzzTarget, input: Uint8Array, replay = ''): string | undefined {
  try {
    family.attempt(input);
    return undefined;
  } catch (error) {
    const reason = family.reasonOf(error);
    if (reason !== undefined) return reason;
    const hex = Array.from(input, (byte) => byte.toString(16).padStart(2, '0')).join('');
    throw new Error(`a fault of ${family.name}, --family ${family.name} ${replay}, input ${hex}`, { cause: error });
  }
}

/** What counts is what is still held: garbage that nobody has collected yet is no growth. */
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
function mutated(family: FuzzTarget, random: Random): Uint8Array {
  const original = random.pick(family.corpus);
  const kept = random.chance(0.85) ? Math.min(family.headerBytes, original.length) : 0;
  // A Buffer's own `slice` would be a view, and the mutations would damage the corpus.
  let body = new Uint8Array(original.subarray(kept));
  for (let changes = 1 + random.below(4); changes > 0; changes--) {
    body = random.pick(mutations)(body, random, family);
  }
  const out = new Uint8Array(Math.min(kept + body.length, inputBytesMax));
  out.set(original.subarray(0, kept));
  out.set(body.subarray(0, out.length - kept), kept);
  return out;
}

type Mutation = (input: Bytes, random: Random, family: FuzzTarget) => Bytes;
type Bytes = Uint8Array<ArrayBuffer>;

const interestingBytes = [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff];
/** What a length or number may be blown up to, in the spellings of varints and of fixed integers. */
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
  // A length that promises far too much.
  (input, random) => spliced(input, random.below(input.length + 1), random.below(5), random.pick(hugeNumbers)),
  // A part that is missing.
  (input, random) => spliced(input, random.below(input.length + 1), 1 + random.below(16), new Uint8Array(0)),
  // A part that comes twice.
  (input, random) => {
    const from = random.below(input.length + 1);
    return spliced(input, from, 0, input.slice(from, from + 1 + random.below(32)));
  },
  // Nothing but noise, or nothing at all.
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
