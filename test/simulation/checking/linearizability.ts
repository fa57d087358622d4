/**
 * Checks a history for linearizability (Wing and Gong, with Lowe's cache). Returns `undecided` after a step limit;
 * callers treat it as a failure.
 *
 * The search places one operation after the other and goes back when it is stuck (Wing and Gong), never looks at the
 * same set of placed operations with the same state twice (Lowe), and places what has an answer before what has none.
 * It gives up after `stepsMax` with the verdict `undecided`, which says nothing and must count as a failure.
 *
 * Times are places in one order of events, not milliseconds: no two events may share one. It knows nothing of keys; who
 * has operations on independent keys checks each key for itself, see `checkByKey`.
 */
import { assert } from '../../../src/base/assert.ts';

export type HistoryOperation<Action> = {
  readonly calledAt: number;
  /** Infinity: nobody knows whether it happened. */
  readonly endedAt: number;
  /** What was asked, and what was answered. */
  readonly action: Action;
};

export type SequentialModel<State, Action> = {
  readonly initial: State;
  /** The state after the action, or nothing if its answer is impossible here. `answered` is false when there is none. */
  after(state: State, action: Action, answered: boolean): State | undefined;
  /** Equal texts for equal states, different ones for others. */
  print(state: State): string;
  /**
   * Could this action, placed later, depend on the cell having come through that state? An action without answer is only
   * tried where a later one depends on what it leaves behind: otherwise it may as well never have happened.
   */
  dependsOn(action: Action, answered: boolean, state: State): boolean;
};

export type LinearizabilityResult<Action> =
  | { readonly kind: 'linearizable' }
  /** No order explains all answers. The longest attempt got as far as to these, of which none fits. */
  | {
      readonly kind: 'violated';
      readonly placed: number;
      readonly blockedOperations: readonly HistoryOperation<Action>[];
    }
  | { readonly kind: 'undecided'; readonly steps: number };

const stepsMaxDefault = 200_000;

export function checkLinearizable<State, Action>(
  model: SequentialModel<State, Action>,
  operations: readonly HistoryOperation<Action>[],
  stepsMax = stepsMaxDefault,
): LinearizabilityResult<Action> {
  return new Search(model, operations).run(stepsMax);
}

/** The first key whose operations are not explained, with what is wrong. */
export function checkByKey<State, Action>(
  model: SequentialModel<State, Action>,
  operations: readonly (HistoryOperation<Action> & { readonly key: string })[],
  stepsMax = stepsMaxDefault,
): { readonly key: string; readonly verdict: LinearizabilityResult<Action> } | undefined {
  for (const [key, ofKey] of Map.groupBy(operations, ({ key }) => key)) {
    const verdict = checkLinearizable(model, ofKey, stepsMax);
    if (verdict.kind !== 'linearizable') return { key, verdict };
  }
  return undefined;
}

/** One placed operation, with what is needed to take it back and go on with the next one. */
type Frame<State> = { readonly before: State; readonly candidates: readonly number[]; next: number; placed: number };

class Search<State, Action> {
  readonly #model: SequentialModel<State, Action>;
  /** Answered ones in the order of their ends, then the others in the order of their calls. */
  readonly #operations: readonly HistoryOperation<Action>[];
  readonly #answered: number;
  /** For each answered one: the earliest call among it and all answered ones behind it. */
  readonly #earliestCall: readonly number[];
  readonly #isPlaced: Uint8Array;
  readonly #seen = new Set<string>();
  /** All before it are placed. */
  #firstOpen = 0;
  #placed = 0;

  constructor(model: SequentialModel<State, Action>, operations: readonly HistoryOperation<Action>[]) {
    this.#model = model;
    this.#operations = operations.toSorted((a, b) =>
      a.endedAt === b.endedAt ? a.calledAt - b.calledAt : a.endedAt - b.endedAt,
    );
    for (const { calledAt, endedAt } of operations) assert(calledAt < endedAt, 'an operation ends after its call');
    this.#answered = operations.filter(({ endedAt }) => endedAt < Infinity).length;
    const earliest: number[] = [];
    for (let at = this.#answered - 1, least = Infinity; at >= 0; at--) {
      least = Math.min(least, this.#operation(at).calledAt);
      earliest[at] = least;
    }
    this.#earliestCall = earliest;
    this.#isPlaced = new Uint8Array(operations.length);
  }

  run(stepsMax: number): LinearizabilityResult<Action> {
    let state = this.#model.initial;
    let best: { readonly placed: number; readonly stuck: readonly number[] } = { placed: -1, stuck: [] };
    const stack: Frame<State>[] = [];
    let frame = this.#frame(state);
    for (let steps = 0; this.#firstOpen < this.#answered; steps++) {
      if (steps >= stepsMax) return { kind: 'undecided', steps };
      const at = frame.candidates[frame.next++];
      if (at === undefined) {
        if (this.#placed > best.placed) best = { placed: this.#placed, stuck: frame.candidates };
        const above = stack.pop();
        if (above === undefined) return this.#violated(best);
        this.#take(above.placed);
        frame = above;
        continue;
      }
      const after = this.#after(frame.before, at);
      if (after === undefined) continue;
      this.#place(at);
      if (this.#isNew(after)) {
        frame.placed = at;
        stack.push(frame);
        state = after;
        frame = this.#frame(state);
      } else this.#take(at);
    }
    return { kind: 'linearizable' };
  }

  #violated({
    placed,
    stuck,
  }: {
    readonly placed: number;
    readonly stuck: readonly number[];
  }): LinearizabilityResult<Action> {
    return { kind: 'violated', placed, blockedOperations: stuck.map((at) => this.#operation(at)) };
  }

  /** What may come next: whatever was called before the first end among those that are still open. */
  #frame(before: State): Frame<State> {
    const candidates: number[] = [];
    const limit = this.#operations[this.#firstOpen]?.endedAt ?? Infinity;
    for (let at = this.#firstOpen; at < this.#answered; at++) {
      if ((this.#earliestCall[at] as number) > limit) break;
      if (this.#isPlaced[at] === 0 && this.#operation(at).calledAt < limit) candidates.push(at);
    }
    for (let at = this.#answered; at < this.#operations.length; at++) {
      if (this.#operation(at).calledAt > limit) break;
      if (this.#isPlaced[at] === 0) candidates.push(at);
    }
    return { before, candidates, next: 0, placed: -1 };
  }

  #after(before: State, at: number): State | undefined {
    const isAnswered = at < this.#answered;
    const after = this.#model.after(before, this.#operation(at).action, isAnswered);
    if (after === undefined || isAnswered) return after;
    const changes = this.#model.print(after) !== this.#model.print(before);
    return changes && this.#matters(after, at) ? after : undefined;
  }

  #matters(state: State, at: number): boolean {
    return this.#operations.some(
      ({ action, endedAt }, other) =>
        other !== at && this.#isPlaced[other] === 0 && this.#model.dependsOn(action, endedAt < Infinity, state),
    );
  }

  #isNew(state: State): boolean {
    let text = String(this.#firstOpen);
    for (let at = this.#firstOpen + 1, left = this.#placed - this.#firstOpen; left > 0; at++) {
      if (this.#isPlaced[at] === 0) continue;
      text += `,${at}`;
      left -= 1;
    }
    text += `|${this.#model.print(state)}`;
    if (this.#seen.has(text)) return false;
    this.#seen.add(text);
    return true;
  }

  #place(at: number): void {
    this.#isPlaced[at] = 1;
    this.#placed += 1;
    while (this.#isPlaced[this.#firstOpen] === 1) this.#firstOpen += 1;
  }

  #take(at: number): void {
    this.#isPlaced[at] = 0;
    this.#placed -= 1;
    this.#firstOpen = Math.min(this.#firstOpen, at);
  }

  #operation(at: number): HistoryOperation<Action> {
    return this.#operations[at] as HistoryOperation<Action>;
  }
}
