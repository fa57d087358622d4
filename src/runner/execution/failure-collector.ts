/**
 * Collects the failed items of one unit: the first ones with their errors, and where results are kept, the indexes of
 * all of them as runs. Bounded by the number of items.
 */
import { isRemusterError } from '../../base/errors.ts';
import { errorBytesMax, failuresMax, nameBytesMax } from '../../jobs/report/bounds.ts';
import { type FailedRun, type ItemFailure, encodeFailures } from '../../jobs/report/item-failures.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { thrownError, thrownLocation, truncateUtf8 } from './user-errors.ts';

/** The results of more items would be too large to keep. */
const itemsMax = jobLimits.resultBytesMax / 2;

export class FailureCollector {
  readonly #from: number;
  readonly #count: number;
  readonly #items: ItemFailure[] = [];
  /** One bit per item of the unit. */
  #failed: Uint8Array | undefined;

  /** The unit has `count` items from `from` on. Without results the runs are not needed. */
  constructor(from: number, count: number, keepsResults: boolean) {
    this.#from = from;
    this.#count = keepsResults && count <= itemsMax ? count : 0;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  /** `offset` counts from the first item of the unit. */
  add(offset: number, thrown: unknown): void {
    if (this.#count > 0) {
      this.#failed ??= new Uint8Array(Math.ceil(this.#count / 8));
      this.#failed[offset >> 3] = (this.#failed[offset >> 3] as number) | (1 << (offset & 7));
    }
    if (this.#items.length >= failuresMax) return;
    const { name, message } = thrownError(thrown);
    const at = truncateUtf8(thrownLocation(thrown), errorBytesMax);
    this.#items.push({
      index: this.#from + offset,
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
      // Millions of alternating runs would fail the whole unit; the errors alone are enough.
      return encodeFailures({ runs: [], items: this.#items });
    }
  }

  #runs(): readonly FailedRun[] {
    const failed = this.#failed;
    const runs: FailedRun[] = [];
    if (failed === undefined) return runs;
    let count = 0;
    for (let offset = 0; offset <= this.#count; offset++) {
      const hasFailed = offset < this.#count && ((failed[offset >> 3] as number) & (1 << (offset & 7))) !== 0;
      if (hasFailed) count += 1;
      else if (count > 0) {
        runs.push({ from: this.#from + offset - count, count });
        count = 0;
      }
    }
    return runs;
  }
}
