/**
 * Processes the items of a unit with bounded concurrency and keeps results in item order. An item fails when its
 * function throws, and then it gives nothing. No promise for a synchronous function.
 */
import { RemusterError } from '../../base/errors.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { eachName } from '../../jobs/report/report-failures.ts';
import type { StepCounts } from '../../jobs/report/summary.ts';
import type { CheckedBatch } from '../definition/checked-workflow.ts';
import { AuthorContext } from './author-context.ts';
import { FailureCollector } from './failure-collector.ts';
import type { RunScope } from './run-scope.ts';
import { isThenable } from '../../base/thenable.ts';
import { thrownMessage } from './user-errors.ts';

/** The items of a unit: places among all, from `from` on, and what they are unless they are numbers. */
export type UnitItems = {
  readonly from: number;
  readonly count: number;
  readonly list: readonly unknown[] | undefined;
};

/** A digit and a comma. */
const valueBytesMin = 2;

export class BatchWork {
  readonly #run: RunScope;
  readonly #items: UnitItems;
  readonly #each: CheckedBatch['each'];
  readonly #firstOnly: boolean;
  readonly #keeps: boolean;
  readonly #stopsOnFailure: boolean;
  readonly #failures: FailureCollector;
  readonly #counts: StepCounts;
  #next = 0;
  /** JSON by place, made with the first value: most functions for their effects give none. */
  #values: string[] | undefined;
  /** Characters of all values. */
  #size = 0;
  /** JSON of the place and the value. */
  #found: string | undefined;
  /** The values are larger than a result may be. */
  #exceedsResultLimit = false;

  constructor(run: RunScope, batch: CheckedBatch, items: UnitItems) {
    const { facts } = run;
    this.#run = run;
    this.#items = items;
    this.#each = batch.each;
    this.#firstOnly = facts.batch?.firstOnly ?? false;
    this.#keeps = (facts.batch?.keepResults ?? true) && !this.#firstOnly;
    this.#stopsOnFailure = facts.batch?.onItemError === 'stop';
    this.#failures = new FailureCollector(items.from, items.count, this.#keeps);
    this.#counts = run.summary.step(eachName);
    run.summary.iterationTimes = this.#counts.durations;
  }

  get isFound(): boolean {
    return this.#found !== undefined;
  }

  async run(): Promise<void> {
    const lanes = Math.min(this.#run.facts.batch?.concurrency ?? 1, this.#items.count);
    const working: Promise<void>[] = [];
    for (let i = 0; i < lanes; i++) working.push(this.#lane());
    await Promise.all(working);
    if (this.#exceedsResultLimit) throw tooLarge();
  }

  /**
   * JSON: `{index, value}` of what was found first, or all values in order (null where there is none); undefined if no
   * item gave any.
   */
  output(): string | undefined {
    if (this.#firstOnly) return withinLimit(this.#found ?? 'null');
    if (this.#values === undefined) return undefined;
    // Items that never began have no value, not even null.
    if (this.#stopsOnFailure) this.#values.length = this.#next;
    return withinLimit(`[${this.#values.join(',')}]`);
  }

  /** Which items failed, encoded; undefined if none did. */
  failures(): Uint8Array | undefined {
    return this.#failures.encode();
  }

  get #isOver(): boolean {
    return (
      this.#next >= this.#items.count ||
      this.#run.isStopped ||
      this.#found !== undefined ||
      this.#exceedsResultLimit ||
      (this.#stopsOnFailure && !this.#failures.isEmpty)
    );
  }

  async #lane(): Promise<void> {
    const run = this.#run;
    const { clock, pacer, summary } = run;
    const { from, list } = this.#items;
    const { durations } = this.#counts;
    const each = this.#each;
    const ctx = new AuthorContext(run, eachName);
    let startMs = clock.nowMs();
    while (!this.#isOver) {
      const place = this.#next++;
      ctx.beginItem(from + place);
      let hasFailed = false;
      try {
        let value = each(list === undefined ? from + place : list[place], ctx);
        if (isThenable(value)) value = await value;
        if (value !== undefined) this.#keep(place, value);
      } catch (error) {
        hasFailed = true;
        run.recordError(eachName, error);
        if (!run.isAborted) this.#failures.add(place, error);
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
      if (endMs >= pacer.yieldDueMs) {
        await pacer.yieldToLoop();
        startMs = clock.nowMs();
      }
    }
  }

  #keep(place: number, value: unknown): void {
    if (this.#firstOnly) {
      if (value === null || value === false || this.#run.isAborted) return;
      const json = itemJson(value);
      this.#found ??= `{"index":${this.#items.from + place},"value":${json}}`;
    } else if (this.#keeps) {
      const json = itemJson(value);
      this.#values ??= this.#emptyValues();
      this.#size += json.length;
      if (this.#size > jobLimits.resultBytesMax) this.#exceedsResultLimit = true;
      if (!this.#exceedsResultLimit) this.#values[place] = json;
    }
  }

  /** That those of the unit are too large is said with the first value, not after hours. */
  #emptyValues(): string[] {
    const { count } = this.#items;
    this.#exceedsResultLimit = count * valueBytesMin > jobLimits.resultBytesMax;
    return this.#exceedsResultLimit ? [] : Array.from({ length: count }, () => 'null');
  }
}

/** One value, so that what is no JSON fails its item and no other. */
function itemJson(value: unknown): string {
  try {
    const json: string | undefined = JSON.stringify(value);
    return json ?? 'null';
  } catch (error) {
    const [why = ''] = thrownMessage(error).split('\n');
    const wrong = new TypeError(`its result is no JSON: ${why}`);
    // The line of the author, if a toJSON threw.
    if (error instanceof Error && error.stack !== undefined) wrong.stack = error.stack;
    throw wrong;
  }
}

/** TOO_LARGE beyond what a result may be; WORKFLOW_FAILED for what is no JSON. */
export function resultJson(value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new RemusterError('WORKFLOW_FAILED', `a result is no JSON: ${error instanceof Error ? error.message : ''}`);
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
    `results are larger than ${jobLimits.resultBytesMax} bytes; say \`results: false\``,
  );
}
