/**
 * Owns the attempts that this worker was assigned or asked to stop, bounded. An attempt that is assigned twice runs
 * once; one below the fence of what was dropped is stale, so a dropped attempt never starts again.
 */
import type { AttemptId } from '../../messages/jobs.ts';

export type AttemptClass =
  | 'new'
  /** This attempt was assigned before. */
  | 'duplicate'
  /** The request to stop it arrived before the assignment. */
  | 'stopped'
  /** A later attempt of the unit is known. */
  | 'stale';

type KnownAttempt = { readonly attempt: number; readonly fence: bigint; isStopped: boolean };

/** Attempts recorded since the generation began; `fence` is the highest among them. */
type Generation = { readonly known: Map<string, KnownAttempt>; fence: bigint };

/**
 * Two generations; the older one is dropped as a whole, because thousands of units per second leave no time to move
 * entries.
 */
export class AttemptHistory {
  readonly #unitsMax: number;
  #young: Generation = { known: new Map(), fence: 0n };
  #old: Generation = { known: new Map(), fence: 0n };
  #floor = 0n;

  /** Keeps at least the latest `unitsMax` units, and at most twice as many. */
  constructor(unitsMax: number) {
    this.#unitsMax = unitsMax;
  }

  classify(key: string, id: AttemptId): AttemptClass {
    const known = this.#get(key);
    if (known === undefined) return id.fence < this.#floor ? 'stale' : 'new';
    const order = compareAttempts(id, known);
    if (order === 0) return known.isStopped ? 'stopped' : 'duplicate';
    return order < 0 ? 'stale' : 'new';
  }

  recordAssigned(key: string, { attempt, fence }: AttemptId): void {
    this.#set(key, { attempt, fence, isStopped: false });
  }

  /** No attempt of this unit up to this one starts any more. */
  recordStopped(key: string, id: AttemptId): void {
    const known = this.#get(key);
    const order = known === undefined ? 1 : compareAttempts(id, known);
    if (order > 0) this.#set(key, { attempt: id.attempt, fence: id.fence, isStopped: true });
    else if (order === 0 && known !== undefined) known.isStopped = true;
  }

  #get(key: string): KnownAttempt | undefined {
    return this.#young.known.get(key) ?? this.#old.known.get(key);
  }

  #set(key: string, known: KnownAttempt): void {
    if (this.#young.known.size >= this.#unitsMax) {
      if (this.#old.fence > this.#floor) this.#floor = this.#old.fence;
      this.#old = this.#young;
      this.#young = { known: new Map(), fence: 0n };
    }
    this.#young.known.set(key, known);
    if (known.fence > this.#young.fence) this.#young.fence = known.fence;
  }
}

/** Equal for all attempts of a unit. */
export function unitKey({ job, workflow, unit }: Pick<AttemptId, 'job' | 'workflow' | 'unit'>): string {
  return `${job}/${workflow}/${unit}`;
}

/** The fence decides before the attempt number: a later leader assigns under a higher fence. */
export function compareAttempts(
  a: Pick<AttemptId, 'attempt' | 'fence'>,
  b: Pick<AttemptId, 'attempt' | 'fence'>,
): number {
  if (a.fence !== b.fence) return a.fence < b.fence ? -1 : 1;
  return a.attempt - b.attempt;
}
