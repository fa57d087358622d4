/**
 * Processes the items of a unit with bounded concurrency and keeps results in item order. An item fails when its
 * function throws or returns a value that is not JSON, and then it has no result. Synchronous functions cost no
 * promise.
 */
import { RemusterError } from '../../base/errors.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { eachName } from '../../jobs/report/report-failures.ts';
import type { StepCounts } from '../../jobs/report/summary.ts';
import type { CheckedBatch } from '../definition/checked-workflow.ts';
import { AuthorContext } from './author-context.ts';
import { FailureCollector } from './failure-collector.ts';
import type { RunScope } from './run-scope.ts';
import { isThenable } from '../../base/runtime/thenable.ts';
import { thrownMessage } from './user-errors.ts';

/** The items of a unit: `count` indexes from `from` on; without a `list` the items are their indexes. */
export type UnitItems = {
  readonly from: number;
  readonly count: number;
  readonly list: readonly unknown[] | undefined;
};

/** JSON of the shortest value and a comma. */
const valueBytesMin = 2;

export class BatchWork {
  readonly #run: RunScope;
  readonly #items: UnitItems;
  readonly #each: CheckedBatch['each'];
  readonly #firstOnly: boolean;
  readonly #keepsResults: boolean;
  readonly #stopsOnFailure: boolean;
  readonly #failures: FailureCollector;
  readonly #counts: StepCounts;
  #next = 0;
  /** JSON by offset in the unit; created with the first value, because functions called for an effect return none. */
  #values: string[] | undefined;
  /** Characters of all values. */
  #size = 0;
  /** JSON of the index and value of a found item. */
  #found: string | undefined;
  #exceedsResultLimit = false;

  constructor(run: RunScope, batch: CheckedBatch, items: UnitItems) {
    const { facts } = run;
    this.#run = run;
    this.#items = items;
    this.#each = batch.each;
    this.#firstOnly = facts.batch?.firstOnly ?? false;
    this.#keepsResults = (facts.batch?.keepResults ?? true) && !this.#firstOnly;
    this.#stopsOnFailure = facts.batch?.onItemError === 'stop';
    this.#failures = new FailureCollector(items.from, items.count, this.#keepsResults);
    this.#counts = run.summary.step(eachName);
    run.summary.iterationTimes = this.#counts.durations;
  }

  get isFound(): boolean {
    return this.#found !== undefined;
  }

  async run(): Promise<void> {
    const slots = Math.min(this.#run.facts.batch?.concurrency ?? 1, this.#items.count);
    const running: Promise<void>[] = [];
    for (let i = 0; i < slots; i++) running.push(this.#runSlot());
    await Promise.all(running);
    if (this.#exceedsResultLimit) throw tooLarge();
  }

  /**
   * JSON: `{index, value}` of the first found item, or all values in order, null for an item without one; undefined if
   * no item returned a value.
   */
  output(): string | undefined {
    if (this.#firstOnly) return withinLimit(this.#found ?? 'null');
    if (this.#values === undefined) return undefined;
    // Items that were not started have no entry.
    if (this.#stopsOnFailure) this.#values.length = this.#next;
    return withinLimit(`[${this.#values.join(',')}]`);
  }

  /** The failed items, encoded; undefined if there are none. */
  failures(): Uint8Array | undefined {
    return this.#failures.encode();
  }

  get #isDone(): boolean {
    return (
      this.#next >= this.#items.count ||
      this.#run.isStopped ||
      this.#found !== undefined ||
      this.#exceedsResultLimit ||
      (this.#stopsOnFailure && !this.#failures.isEmpty)
    );
  }

  async #runSlot(): Promise<void> {
    const run = this.#run;
    const { clock, yielder, summary } = run;
    const { from, list } = this.#items;
    const { durations } = this.#counts;
    const each = this.#each;
    const ctx = new AuthorContext(run, eachName);
    let startMs = clock.nowMs();
    while (!this.#isDone) {
      const offset = this.#next++;
      ctx.startItem(from + offset);
      let hasFailed = false;
      try {
        let value = each(list === undefined ? from + offset : list[offset], ctx);
        if (isThenable(value)) value = await value;
        if (value !== undefined) this.#keepValue(offset, value);
      } catch (error) {
        hasFailed = true;
        run.recordError(eachName, error);
        if (!run.isAborted) this.#failures.add(offset, error);
      }
      if (run.isAborted) {
        summary.interrupted += 1;
        return;
      }
      const endMs = clock.nowMs();
      durations.record((endMs - startMs) * 1_000);
      summary.iterations += 1;
      if (hasFailed) {
        summary.failed += 1;
        this.#counts.failed += 1;
      }
      startMs = endMs;
      if (endMs >= yielder.yieldDueMs) {
        await yielder.yieldToLoop();
        startMs = clock.nowMs();
      }
    }
  }

  #keepValue(offset: number, value: unknown): void {
    if (this.#firstOnly) {
      if (value === null || value === false || this.#run.isAborted) return;
      const json = itemJson(value);
      this.#found ??= `{"index":${this.#items.from + offset},"value":${json}}`;
    } else if (this.#keepsResults) {
      const json = itemJson(value);
      this.#values ??= this.#emptyValues();
      this.#size += json.length;
      if (this.#size > jobLimits.resultBytesMax) this.#exceedsResultLimit = true;
      if (!this.#exceedsResultLimit) this.#values[offset] = json;
    }
  }

  /** If even the shortest values would be too large, the unit fails with the first value and not after hours. */
  #emptyValues(): string[] {
    const { count } = this.#items;
    this.#exceedsResultLimit = count * valueBytesMin > jobLimits.resultBytesMax;
    return this.#exceedsResultLimit ? [] : Array.from({ length: count }, () => 'null');
  }
}

/** Encodes one value, so that a value that is not JSON fails its item only. */
function itemJson(value: unknown): string {
  try {
    const json: string | undefined = JSON.stringify(value);
    return json ?? 'null';
  } catch (error) {
    const [why = ''] = thrownMessage(error).split('\n');
    const invalid = new TypeError(`the result of the item is not JSON: ${why}`);
    // The stack of a toJSON that threw has the line of the author.
    if (error instanceof Error && error.stack !== undefined) invalid.stack = error.stack;
    throw invalid;
  }
}

/** Throws TOO_LARGE beyond the limit of results, WORKFLOW_FAILED for a value that is not JSON. */
export function resultJson(value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new RemusterError('WORKFLOW_FAILED', `a result is not JSON: ${error instanceof Error ? error.message : ''}`);
  }
  return withinLimit(json ?? 'null');
}

function withinLimit(text: string): string {
  if (text.length > jobLimits.resultBytesMax) throw tooLarge();
  return text;
}

function tooLarge(): RemusterError {
  return new RemusterError(
    'TOO_LARGE',
    `the results are larger than ${jobLimits.resultBytesMax} bytes: set \`results: false\` to drop them`,
  );
}
