/**
 * Caches bundles by hash, bounded by bytes, least recently used first out. Fetches each once, verifies its hash, and
 * retries with backoff.
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
const triesMax = 6;
const pauseMs = 200;
const partsMax = Math.ceil(jobLimits.bundleBytesMax / jobLimits.partBytesMax) + 1;
/** So many parts fit into one answer of the registry. */
const partsAtOnce = 4;

export class BundleCache {
  readonly #ports: BundleCachePorts;
  readonly #bytesMax: number;
  /** From the longest unused to the latest used. */
  readonly #kept = new Map<string, Uint8Array>();
  readonly #wanted = new Map<string, Done<Uint8Array>[]>();
  #bytes = 0;

  constructor(ports: BundleCachePorts, bytesMax: number = bytesMaxDefault) {
    this.#ports = ports;
    this.#bytesMax = bytesMax;
  }

  /** What is here already. */
  get(sha256: string): Uint8Array | undefined {
    const code = this.#kept.get(sha256);
    if (code === undefined) return undefined;
    this.#kept.delete(sha256);
    this.#kept.set(sha256, code);
    return code;
  }

  /** Ends in the code, or after some tries in an error: UNKNOWN_BUNDLE, BUNDLE_INVALID, or what the registry said. */
  fetch(sha256: string, done: Done<Uint8Array>): void {
    const waiting = this.#wanted.get(sha256);
    if (waiting !== undefined) {
      waiting.push(done);
      return;
    }
    this.#wanted.set(sha256, [done]);
    this.#fetch(sha256, 1);
  }

  #fetch(sha256: string, tries: number): void {
    this.#readParts(sha256, [], (outcome) => {
      const checked = outcome.ok ? this.#checked(sha256, outcome.value) : outcome;
      if (checked.ok || tries >= triesMax || checked.error.code === 'BUNDLE_INVALID') return this.#end(sha256, checked);
      const { clock, random } = this.#ports;
      clock.schedule(pauseMs * 2 ** tries * random.between(0.5, 1), () => this.#fetch(sha256, tries + 1));
    });
  }

  #readParts(sha256: string, before: readonly RegistryEntry[], done: Done<readonly RegistryEntry[]>): void {
    const all = jobRanges.bundleParts(sha256);
    const last = before.at(-1);
    const range = last === undefined ? all : { from: `${last.key}\0`, to: all.to };
    this.#ports.registry.range(range, { limit: partsAtOnce, timeoutMs: fetchTimeoutMs }, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const parts = [...before, ...outcome.value.entries];
      if (outcome.value.more && parts.length < partsMax) this.#readParts(sha256, parts, done);
      else done(success(parts));
    });
  }

  #checked(sha256: string, parts: readonly RegistryEntry[]): Outcome<Uint8Array> {
    if (parts.length === 0) return failure('UNKNOWN_BUNDLE', `nobody keeps the code ${sha256}`);
    const code = joined(parts.map(({ value }) => value));
    if (code.length > jobLimits.bundleBytesMax) return failure('BUNDLE_INVALID', 'the code is too large');
    if (this.#ports.sha256(code) !== sha256) return failure('BUNDLE_INVALID', 'the code does not match its hash');
    return success(code);
  }

  #end(sha256: string, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) this.#keep(sha256, outcome.value);
    const waiting = this.#wanted.get(sha256) ?? [];
    this.#wanted.delete(sha256);
    for (const done of waiting) done(outcome);
  }

  #keep(sha256: string, code: Uint8Array): void {
    this.#kept.set(sha256, code);
    this.#bytes += code.length;
    for (const [oldest, { length }] of this.#kept) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#kept.delete(oldest);
      this.#bytes -= length;
    }
  }
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
