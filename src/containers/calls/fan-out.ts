/**
 * One call of many containers: at most a neighbourhood per owner at once, each with its own retries, so a silent owner
 * delays only its own containers, results in container order. Ends when every part has ended.
 */
import { type Done, type ErrorCode, type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { CallOutput, ContainerCallResult } from '../contract.ts';
import { discardOutput } from './container-call.ts';

export type CallContainer = (container: number, done: Done<CallOutput>) => { cancel(): void };

export type FanOutPlan = {
  readonly first: number;
  readonly count: number;
  readonly neighbourhood: number;
  readonly bytesMax: number;
  readonly call: CallContainer;
  /** As far as is known now: only to spread the asking. */
  ownerOf(container: number): NodeId | undefined;
};

/** Containers of one owner, as they are known at the beginning. */
type Group = { readonly containers: readonly number[]; next: number; open: number };

export type SuccessfulPart = Extract<ContainerCallResult, { ok: true }>;

const namedMax = 20;
const wordsMax = 80;

export class FanOut {
  readonly #plan: FanOutPlan;
  readonly #done: Done<readonly SuccessfulPart[]>;
  readonly #parts: (ContainerCallResult | undefined)[];
  readonly #open = new Map<number, { cancel(): void }>();
  #left: number;
  #bytes = 0;
  #over = false;

  constructor(plan: FanOutPlan, done: Done<readonly SuccessfulPart[]>) {
    this.#plan = plan;
    this.#done = done;
    this.#left = plan.count;
    this.#parts = Array.from({ length: plan.count });
  }

  /** `done` may be called before this returns. */
  start(): void {
    for (const group of this.#groups()) this.#fill(group);
  }

  cancel(): void {
    this.#end(failure('CANCELLED'));
  }

  #groups(): readonly Group[] {
    const { first, count } = this.#plan;
    const groups = new Map<NodeId | undefined, number[]>();
    for (let container = first; container < first + count; container++) {
      const owner = this.#plan.ownerOf(container);
      const group = groups.get(owner);
      if (group === undefined) groups.set(owner, [container]);
      else group.push(container);
    }
    return Array.from(groups.values(), (containers) => ({ containers, next: 0, open: 0 }));
  }

  /** A loop and no recursion: containers of this node may answer before `ask` returns. */
  #fill(group: Group): void {
    while (!this.#over && group.open < this.#plan.neighbourhood && group.next < group.containers.length) {
      const container = group.containers[group.next] as number;
      group.next += 1;
      group.open += 1;
      let isStarting = true;
      const part = this.#plan.call(container, (outcome) => {
        this.#open.delete(container);
        group.open -= 1;
        this.#ended(container, outcome);
        if (!isStarting) this.#fill(group);
      });
      isStarting = false;
      if (this.#parts[container - this.#plan.first] === undefined && !this.#over) this.#open.set(container, part);
    }
  }

  #ended(container: number, outcome: Outcome<CallOutput>): void {
    const at = container - this.#plan.first;
    if (this.#over || this.#parts[at] !== undefined) return outcome.ok ? discardOutput(outcome.value) : undefined;
    const part = partOf(container, outcome);
    this.#parts[at] = part;
    this.#left -= 1;
    if (part.ok) this.#bytes += part.value.length;
    if (this.#bytes > this.#plan.bytesMax) {
      return this.#end(failure('TOO_LARGE', `the answers add up to more than ${this.#plan.bytesMax} bytes`, 'maybe'));
    }
    if (this.#left === 0) this.#end(gathered(this.#parts as ContainerCallResult[]));
  }

  #end(outcome: Outcome<readonly SuccessfulPart[]>): void {
    if (this.#over) return;
    this.#over = true;
    for (const part of [...this.#open.values()]) part.cancel();
    this.#open.clear();
    this.#done(outcome);
  }
}

function partOf(container: number, outcome: Outcome<CallOutput>): ContainerCallResult {
  if (!outcome.ok) {
    const { code, message, stateChanged } = outcome.error;
    return { container, ok: false, code, message, stateChanged };
  }
  if ('value' in outcome.value) return { container, ok: true, value: outcome.value.value };
  discardOutput(outcome.value);
  const message = 'the method gives a flow: ask one container at a time';
  // Only a readonly method gives a flow.
  return { container, ok: false, code: 'BAD_ARGUMENT', message, stateChanged: 'no' };
}

function gathered(parts: readonly ContainerCallResult[]): Outcome<readonly SuccessfulPart[]> {
  const failed = parts.filter((part) => !part.ok);
  const [first] = failed;
  if (first === undefined) return success(parts as readonly SuccessfulPart[]);
  // One that has ended well has run, and one that may have run is enough.
  const stateChanged =
    failed.length === parts.length && failed.every((part) => part.stateChanged === 'no') ? 'no' : 'maybe';
  const isSame = failed.length === parts.length && failed.every(({ code }) => code === first.code);
  // Nobody answered, and all for one reason: that is the reason, not that a part is missing.
  if (isSame) return { ok: false, error: new RemusterError(first.code as ErrorCode, namesOf(failed), stateChanged) };
  return failure('PARTIAL', `${failed.length} of ${parts.length} containers failed: ${namesOf(failed)}`, stateChanged);
}

function namesOf(failed: readonly Extract<ContainerCallResult, { ok: false }>[]): string {
  const named = failed.slice(0, namedMax);
  const words = named.map(({ container, code, message }) => `${container} (${code}: ${message.slice(0, wordsMax)})`);
  const more = failed.length > named.length ? ` and ${failed.length - named.length} more` : '';
  return words.join(', ') + more;
}
