/**
 * Remembers which attempts this worker was assigned or told to stop, bounded. A duplicate runs once; an attempt below
 * the forgotten fence floor is refused as stale.
 */
import type { AttemptId } from '../../messages/jobs.ts';

export type AttemptClass =
  | 'new'
  /** The very same was given before. */
  | 'again'
  /** It was to be stopped before it came. */
  | 'stopped'
  /** A later attempt is known. */
  | 'old';

type Known = { readonly attempt: number; readonly fence: bigint; isStopped: boolean };

/** Those that were used since it began, and the highest fence among them. */
type Generation = { readonly known: Map<string, Known>; fence: bigint };

/** Two generations, of which the older one is forgotten whole: at thousands of units per second no single one is moved. */
export class AttemptHistory {
  readonly #unitsMax: number;
  #young: Generation = { known: new Map(), fence: 0n };
  #old: Generation = { known: new Map(), fence: 0n };
  #floor = 0n;

  /** It keeps at least so many of the latest, and at most twice as many. */
  constructor(unitsMax: number) {
    this.#unitsMax = unitsMax;
  }

  classify(key: string, name: AttemptId): AttemptClass {
    const known = this.#get(key);
    if (known === undefined) return name.fence < this.#floor ? 'old' : 'new';
    const order = compareAttempts(name, known);
    if (order === 0) return known.isStopped ? 'stopped' : 'again';
    return order < 0 ? 'old' : 'new';
  }

  recordAssigned(key: string, { attempt, fence }: AttemptId): void {
    this.#set(key, { attempt, fence, isStopped: false });
  }

  /** Whatever was given of this unit up to this attempt does not begin any more. */
  recordStopped(key: string, name: AttemptId): void {
    const known = this.#get(key);
    const order = known === undefined ? 1 : compareAttempts(name, known);
    if (order > 0) this.#set(key, { attempt: name.attempt, fence: name.fence, isStopped: true });
    else if (order === 0 && known !== undefined) known.isStopped = true;
  }

  #get(key: string): Known | undefined {
    return this.#young.known.get(key) ?? this.#old.known.get(key);
  }

  #set(key: string, known: Known): void {
    if (this.#young.known.size >= this.#unitsMax) {
      if (this.#old.fence > this.#floor) this.#floor = this.#old.fence;
      this.#old = this.#young;
      this.#young = { known: new Map(), fence: 0n };
    }
    this.#young.known.set(key, known);
    if (known.fence > this.#young.fence) this.#young.fence = known.fence;
  }
}

/** All attempts of a unit have this in common. */
export function unitKey({ job, workflow, unit }: Pick<AttemptId, 'job' | 'workflow' | 'unit'>): string {
  return `${job}/${workflow}/${unit}`;
}

/** A later fence counts more than a later number: it was given under a later decision. */
export function compareAttempts(
  a: Pick<AttemptId, 'attempt' | 'fence'>,
  b: Pick<AttemptId, 'attempt' | 'fence'>,
): number {
  if (a.fence !== b.fence) return a.fence < b.fence ? -1 : 1;
  return a.attempt - b.attempt;
}
