/**
 * Checks a history for linearizability. The search places one operation after the other and backtracks when it is
 * stuck (Wing and Gong), never visits the same set of placed operations with the same state twice (Lowe), and places
 * operations with a reply before those without. After `stepsMax` it returns `undecided`, which callers treat as a
 * failure.
 *
 * Times are positions in one order of events, not milliseconds: no two events share one. A history of independent keys
 * is checked key by key with `checkByKey`.
 */
import { assert } from '../../../src/base/assert.ts';

export type HistoryOperation<Action> = {
  readonly calledAt: number;
  /** Infinity: the client got no reply, so the outcome is unknown. */
  readonly endedAt: number;
  /** The request and its reply. */
  readonly action: Action;
};

export type SequentialModel<State, Action> = {
  readonly initial: State;
  /** The state after the action, or undefined if its reply is impossible here. */
  after(state: State, action: Action, hasReply: boolean): State | undefined;
  /** Equal texts for equal states, different texts for different states. */
  print(state: State): string;
  /**
   * Can this action, placed later, depend on that state? An action without a reply is only tried where a later one
   * depends on its effect: otherwise the history is the same without it.
   */
  dependsOn(action: Action, hasReply: boolean, state: State): boolean;
};

export type LinearizabilityResult<Action> =
  | { readonly kind: 'linearizable' }
  /**
   * No order explains all replies. The longest attempt placed `placed` operations; none of the blocked ones fits next.
   */
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

/** The first key whose history is not linearizable, with the result. */
export function checkByKey<State, Action>(
  model: SequentialModel<State, Action>,
  operations: readonly (HistoryOperation<Action> & { readonly key: string })[],
  stepsMax = stepsMaxDefault,
): { readonly key: string; readonly result: LinearizabilityResult<Action> } | undefined {
  for (const [key, ofKey] of Map.groupBy(operations, ({ key }) => key)) {
    const result = checkLinearizable(model, ofKey, stepsMax);
    if (result.kind !== 'linearizable') return { key, result };
  }
  return undefined;
}

/** One placed operation, with what backtracking needs to remove it and try the next candidate. */
type Frame<State> = { readonly before: State; readonly candidates: readonly number[]; next: number; placed: number };

class Search<State, Action> {
  readonly #model: SequentialModel<State, Action>;
  /** Operations with a reply in the order of their ends, then the others in the order of their calls. */
  readonly #operations: readonly HistoryOperation<Action>[];
  readonly #repliedCount: number;
  /** For each operation with a reply: the earliest call among it and those behind it. */
  readonly #earliestCall: readonly number[];
  readonly #isPlaced: Uint8Array;
  readonly #visited = new Set<string>();
  /** All operations before it are placed. */
  #firstOpen = 0;
  #placed = 0;

  constructor(model: SequentialModel<State, Action>, operations: readonly HistoryOperation<Action>[]) {
    this.#model = model;
    this.#operations = operations.toSorted((a, b) =>
      a.endedAt === b.endedAt ? a.calledAt - b.calledAt : a.endedAt - b.endedAt,
    );
    for (const { calledAt, endedAt } of operations) assert(calledAt < endedAt, 'an operation ends after its call');
    this.#repliedCount = operations.filter(({ endedAt }) => endedAt < Infinity).length;
    const earliest: number[] = [];
    for (let at = this.#repliedCount - 1, least = Infinity; at >= 0; at--) {
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
    for (let steps = 0; this.#firstOpen < this.#repliedCount; steps++) {
      if (steps >= stepsMax) return { kind: 'undecided', steps };
      const at = frame.candidates[frame.next++];
      if (at === undefined) {
        if (this.#placed > best.placed) best = { placed: this.#placed, stuck: frame.candidates };
        const above = stack.pop();
        if (above === undefined) return this.#violated(best);
        this.#unplace(above.placed);
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
      } else this.#unplace(at);
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

  /** Candidates for the next place: operations that were called before the first end among the unplaced ones. */
  #frame(before: State): Frame<State> {
    const candidates: number[] = [];
    const limit = this.#operations[this.#firstOpen]?.endedAt ?? Infinity;
    for (let at = this.#firstOpen; at < this.#repliedCount; at++) {
      if ((this.#earliestCall[at] as number) > limit) break;
      if (this.#isPlaced[at] === 0 && this.#operation(at).calledAt < limit) candidates.push(at);
    }
    for (let at = this.#repliedCount; at < this.#operations.length; at++) {
      if (this.#operation(at).calledAt > limit) break;
      if (this.#isPlaced[at] === 0) candidates.push(at);
    }
    return { before, candidates, next: 0, placed: -1 };
  }

  #after(before: State, at: number): State | undefined {
    const hasReply = at < this.#repliedCount;
    const after = this.#model.after(before, this.#operation(at).action, hasReply);
    if (after === undefined || hasReply) return after;
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
    if (this.#visited.has(text)) return false;
    this.#visited.add(text);
    return true;
  }

  #place(at: number): void {
    this.#isPlaced[at] = 1;
    this.#placed += 1;
    while (this.#isPlaced[this.#firstOpen] === 1) this.#firstOpen += 1;
  }

  #unplace(at: number): void {
    this.#isPlaced[at] = 0;
    this.#placed -= 1;
    this.#firstOpen = Math.min(this.#firstOpen, at);
  }

  #operation(at: number): HistoryOperation<Action> {
    return this.#operations[at] as HistoryOperation<Action>;
  }
}
