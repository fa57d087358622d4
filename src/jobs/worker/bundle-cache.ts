/**
 * Caches bundles by hash, bounded by bytes; the least recently used goes first. Concurrent requests share one fetch,
 * which is retried with backoff. Never returns code that does not match its hash.
 */
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Registry, RegistryEntry } from '../../base/registry.ts';
import { jobRanges } from '../job-keys.ts';
import { jobLimits } from '../limits.ts';

export type BundleCachePorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: Pick<Registry, 'range'>;
  sha256(bytes: Uint8Array): string;
};

const bytesMaxDefault = 16 * jobLimits.bundleBytesMax;
const fetchTimeoutMs = 5_000;
const attemptsMax = 6;
const backoffMs = 200;
const partsMax = Math.ceil(jobLimits.bundleBytesMax / jobLimits.partBytesMax) + 1;
/** Parts that fit into one reply of the registry. */
const partsPerRead = 4;

export class BundleCache {
  readonly #ports: BundleCachePorts;
  readonly #bytesMax: number;
  /** From the least to the most recently used. */
  readonly #cached = new Map<string, Uint8Array>();
  readonly #waiting = new Map<string, Done<Uint8Array>[]>();
  #bytes = 0;

  constructor(ports: BundleCachePorts, bytesMax: number = bytesMaxDefault) {
    this.#ports = ports;
    this.#bytesMax = bytesMax;
  }

  /** The code if it is cached. */
  get(sha256: string): Uint8Array | undefined {
    const code = this.#cached.get(sha256);
    if (code === undefined) return undefined;
    this.#cached.delete(sha256);
    this.#cached.set(sha256, code);
    return code;
  }

  /** Ends with the code, or with UNKNOWN_BUNDLE, BUNDLE_INVALID, or the last error of the registry. */
  fetch(sha256: string, done: Done<Uint8Array>): void {
    const waiting = this.#waiting.get(sha256);
    if (waiting !== undefined) {
      waiting.push(done);
      return;
    }
    this.#waiting.set(sha256, [done]);
    this.#tryFetch(sha256, 1);
  }

  #tryFetch(sha256: string, attempt: number): void {
    this.#readParts(sha256, [], (outcome) => {
      const verified = outcome.ok ? this.#verify(sha256, outcome.value) : outcome;
      if (verified.ok || attempt >= attemptsMax || verified.error.code === 'BUNDLE_INVALID')
        return this.#finish(sha256, verified);
      const { clock, random } = this.#ports;
      clock.schedule(backoffMs * 2 ** attempt * random.between(0.5, 1), () => this.#tryFetch(sha256, attempt + 1));
    });
  }

  #readParts(sha256: string, before: readonly RegistryEntry[], done: Done<readonly RegistryEntry[]>): void {
    const all = jobRanges.bundleParts(sha256);
    const last = before.at(-1);
    const range = last === undefined ? all : { from: `${last.key}\0`, to: all.to };
    this.#ports.registry.range(range, { limit: partsPerRead, timeoutMs: fetchTimeoutMs }, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const parts = [...before, ...outcome.value.entries];
      if (outcome.value.more && parts.length < partsMax) this.#readParts(sha256, parts, done);
      else done(success(parts));
    });
  }

  #verify(sha256: string, parts: readonly RegistryEntry[]): Outcome<Uint8Array> {
    if (parts.length === 0) return failure('UNKNOWN_BUNDLE', `no bundle with the hash ${sha256} is stored`);
    const code = concatenate(parts.map(({ value }) => value));
    if (code.length > jobLimits.bundleBytesMax)
      return failure(
        'BUNDLE_INVALID',
        `the bundle has ${code.length} bytes; at most ${jobLimits.bundleBytesMax} are allowed`,
      );
    if (this.#ports.sha256(code) !== sha256)
      return failure('BUNDLE_INVALID', `the stored code does not match its hash ${sha256}`);
    return success(code);
  }

  #finish(sha256: string, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) this.#insert(sha256, outcome.value);
    const waiting = this.#waiting.get(sha256) ?? [];
    this.#waiting.delete(sha256);
    for (const done of waiting) done(outcome);
  }

  #insert(sha256: string, code: Uint8Array): void {
    this.#cached.set(sha256, code);
    this.#bytes += code.length;
    for (const [oldest, { length }] of this.#cached) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#cached.delete(oldest);
      this.#bytes -= length;
    }
  }
}

function concatenate(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
