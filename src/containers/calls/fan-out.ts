/**
 * One call of many containers, at most `callsPerOwnerMax` at once per owner, each with its own retries: a silent owner
 * delays only its own containers. The results are in container order. Ends when every part has ended.
 */
import { type Done, type ErrorCode, type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { CallOutput, ContainerCallResult } from '../contract.ts';
import { discardOutput } from './container-call.ts';

export type CallContainer = (container: number, done: Done<CallOutput>) => { cancel(): void };

export type FanOutPlan = {
  readonly first: number;
  readonly count: number;
  readonly callsPerOwnerMax: number;
  readonly bytesMax: number;
  readonly call: CallContainer;
  /** The owner as known now; used only to group the containers. */
  ownerOf(container: number): NodeId | undefined;
};

/** The containers of one owner, as known at the start. */
type Group = { readonly containers: readonly number[]; next: number; open: number };

export type SuccessfulPart = Extract<ContainerCallResult, { ok: true }>;

const failedPartsShownMax = 20;
const messageCharactersMax = 80;

export class FanOut {
  readonly #plan: FanOutPlan;
  readonly #done: Done<readonly SuccessfulPart[]>;
  readonly #parts: (ContainerCallResult | undefined)[];
  readonly #open = new Map<number, { cancel(): void }>();
  #remaining: number;
  #bytes = 0;
  #hasEnded = false;

  constructor(plan: FanOutPlan, done: Done<readonly SuccessfulPart[]>) {
    this.#plan = plan;
    this.#done = done;
    this.#remaining = plan.count;
    this.#parts = Array.from({ length: plan.count });
  }

  /** `done` may be called before this returns. */
  start(): void {
    for (const group of this.#groups()) this.#startCalls(group);
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

  /** A loop instead of recursion: containers of this node may reply before `call` returns. */
  #startCalls(group: Group): void {
    while (!this.#hasEnded && group.open < this.#plan.callsPerOwnerMax && group.next < group.containers.length) {
      const container = group.containers[group.next] as number;
      group.next += 1;
      group.open += 1;
      let isStarting = true;
      const part = this.#plan.call(container, (outcome) => {
        this.#open.delete(container);
        group.open -= 1;
        this.#onPartEnded(container, outcome);
        if (!isStarting) this.#startCalls(group);
      });
      isStarting = false;
      if (this.#parts[container - this.#plan.first] === undefined && !this.#hasEnded) this.#open.set(container, part);
    }
  }

  #onPartEnded(container: number, outcome: Outcome<CallOutput>): void {
    const at = container - this.#plan.first;
    if (this.#hasEnded || this.#parts[at] !== undefined) return outcome.ok ? discardOutput(outcome.value) : undefined;
    const part = partOf(container, outcome);
    this.#parts[at] = part;
    this.#remaining -= 1;
    if (part.ok) this.#bytes += part.value.length;
    if (this.#bytes > this.#plan.bytesMax) {
      return this.#end(failure('TOO_LARGE', `the results add up to more than ${this.#plan.bytesMax} bytes`, 'maybe'));
    }
    if (this.#remaining === 0) this.#end(combineParts(this.#parts as ContainerCallResult[]));
  }

  #end(outcome: Outcome<readonly SuccessfulPart[]>): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
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
  const message = 'the method returns a result stream: call one container at a time';
  // Only readonly methods return result streams.
  return { container, ok: false, code: 'BAD_ARGUMENT', message, stateChanged: 'no' };
}

function combineParts(parts: readonly ContainerCallResult[]): Outcome<readonly SuccessfulPart[]> {
  const failed = parts.filter((part) => !part.ok);
  const [first] = failed;
  if (first === undefined) return success(parts as readonly SuccessfulPart[]);
  // A part that succeeded has run; one part that may have changed state is enough.
  const stateChanged =
    failed.length === parts.length && failed.every((part) => part.stateChanged === 'no') ? 'no' : 'maybe';
  const allSameCode = failed.length === parts.length && failed.every(({ code }) => code === first.code);
  // All parts failed with the same code: the call fails with that code, not with PARTIAL.
  if (allSameCode)
    return { ok: false, error: new RemusterError(first.code as ErrorCode, describeFailures(failed), stateChanged) };
  return failure(
    'PARTIAL',
    `${failed.length} of ${parts.length} containers failed: ${describeFailures(failed)}`,
    stateChanged,
  );
}

function describeFailures(failed: readonly Extract<ContainerCallResult, { ok: false }>[]): string {
  const shown = failed.slice(0, failedPartsShownMax);
  const texts = shown.map(
    ({ container, code, message }) => `${container} (${code}: ${message.slice(0, messageCharactersMax)})`,
  );
  const more = failed.length > shown.length ? ` and ${failed.length - shown.length} more` : '';
  return texts.join(', ') + more;
}
