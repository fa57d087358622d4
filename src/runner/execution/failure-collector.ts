/**
 * Collects the failed items of one unit: the first with their errors, and the places of all of them where results are
 * kept. Bounded by the number of items. Never counts.
 */
import { isRemusterError } from '../../base/errors.ts';
import { errorBytesMax, failuresMax, nameBytesMax } from '../../jobs/report/bounds.ts';
import { type FailedRun, type ItemFailure, encodeFailures } from '../../jobs/report/item-failures.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { thrownError, thrownLocation, truncateUtf8 } from './user-errors.ts';

/** More items than this give no result that is small enough to be kept. */
const placesMax = jobLimits.resultBytesMax / 2;

export class FailureCollector {
  readonly #from: number;
  readonly #count: number;
  readonly #items: ItemFailure[] = [];
  /** One bit for each item of the unit. */
  #places: Uint8Array | undefined;

  /** The unit has `count` items from `from` on. Without results nothing needs the places. */
  constructor(from: number, count: number, keepsResults: boolean) {
    this.#from = from;
    this.#count = keepsResults && count <= placesMax ? count : 0;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  /** `place` counts from the first item of the unit. */
  add(place: number, thrown: unknown): void {
    if (this.#count > 0) {
      this.#places ??= new Uint8Array(Math.ceil(this.#count / 8));
      this.#places[place >> 3] = (this.#places[place >> 3] as number) | (1 << (place & 7));
    }
    if (this.#items.length >= failuresMax) return;
    const { name, message } = thrownError(thrown);
    const at = truncateUtf8(thrownLocation(thrown), errorBytesMax);
    this.#items.push({
      index: this.#from + place,
      error: {
        name: truncateUtf8(name, nameBytesMax * 3),
        message: truncateUtf8(message, errorBytesMax * 3),
        ...(at === '' ? {} : { at }),
      },
    });
  }

  /** Undefined if no item failed. */
  encode(): Uint8Array | undefined {
    if (this.isEmpty) return undefined;
    try {
      return encodeFailures({ runs: this.#runs(), items: this.#items });
    } catch (error) {
      if (!isRemusterError(error, 'TOO_LARGE')) throw error;
      // Millions of places that alternate: the errors say what went wrong, the places would fail the whole unit.
      return encodeFailures({ runs: [], items: this.#items });
    }
  }

  #runs(): readonly FailedRun[] {
    const places = this.#places;
    const runs: FailedRun[] = [];
    if (places === undefined) return runs;
    let count = 0;
    for (let place = 0; place <= this.#count; place++) {
      const hasFailed = place < this.#count && ((places[place >> 3] as number) & (1 << (place & 7))) !== 0;
      if (hasFailed) count += 1;
      else if (count > 0) {
        runs.push({ from: this.#from + place - count, count });
        count = 0;
      }
    }
    return runs;
  }
}
