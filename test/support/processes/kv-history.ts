/**
 * History of kv calls and the model that checks it for linearizability. Every written value is unique, so a lost,
 * returned or repeated write leaves a history that no order explains. Pure.
 */
import type { RemusterError } from '../../../src/base/errors.ts';
import type { SequentialModel, HistoryOperation } from '../../simulation/checking/linearizability.ts';

export type KvRead = { readonly value: string; readonly version: number };

export type KvAction =
  | { readonly kind: 'get'; saw?: KvRead | undefined }
  /** `at`: only if the item is still this one. `version`: of the written item. */
  | {
      readonly kind: 'put';
      readonly value: string;
      readonly at?: KvRead | undefined;
      version?: number;
      refused?: boolean;
    };

/** The version is not known while nobody has seen it; it is above the one before. */
export type KvState = { readonly value: string; readonly version: number | undefined; readonly above: number };

export const absentKey: KvRead = { value: '', version: 0 };

export const kvModel: SequentialModel<KvState, KvAction> = {
  initial: { ...absentKey, above: -1 },
  after: (state, action, answered) => (answered ? afterAnswer(state, action) : afterSilence(state, action)),
  print: ({ value, version, above }) => `${value}@${version ?? `above ${above}`}`,
  dependsOn: (action, answered, { value }) => {
    if (action.kind === 'get') return answered && action.saw?.value === value;
    if (action.at === undefined) return false;
    return action.refused === true ? action.at.value !== value : action.at.value === value;
  },
};

function afterAnswer(state: KvState, action: KvAction): KvState | undefined {
  if (action.kind === 'get')
    return action.saw !== undefined && isThat(state, action.saw) ? pinned(action.saw) : undefined;
  const { at, value, version, refused } = action;
  if (refused === true) return at !== undefined && state.version !== at.version ? state : undefined;
  if (at !== undefined && !isThat(state, at)) return undefined;
  return version !== undefined && version > leastOf(state) ? pinned({ value, version }) : undefined;
}

function afterSilence(state: KvState, action: KvAction): KvState {
  if (action.kind === 'get' || (action.at !== undefined && !isThat(state, action.at))) return state;
  return { value: action.value, version: undefined, above: leastOf(state) };
}

function isThat(state: KvState, { value, version }: KvRead): boolean {
  return state.value === value && (state.version === undefined ? version > state.above : version === state.version);
}

function pinned(seen: KvRead): KvState {
  return { ...seen, above: seen.version - 1 };
}

/** Its version is at least this one. */
function leastOf({ version, above }: KvState): number {
  return version ?? above;
}

type Recorded = HistoryOperation<KvAction> & { readonly key: string };
type Open = { -readonly [F in keyof Recorded]: Recorded[F] };

/** All calls in the order in which they began and ended, as one process sees it. */
export class KvHistory {
  readonly operations: Recorded[] = [];
  /** How calls ended, by code. */
  readonly codes = new Map<string, number>();
  acknowledged = 0;
  /** Writes of which nobody knows whether they happened. */
  unknown = 0;
  #now = 0;

  async get(key: string, ask: () => Promise<KvRead>): Promise<KvRead | undefined> {
    const action: KvAction = { kind: 'get' };
    return await this.#run({ key, action }, async () => (action.saw = await ask()));
  }

  async put(
    key: string,
    { value, at }: { readonly value: string; readonly at?: KvRead },
    ask: () => Promise<{ readonly version: number }>,
  ): Promise<KvRead | undefined> {
    const action: KvAction = { kind: 'put', value, at };
    return await this.#run({ key, action }, async () => {
      const { version } = await ask();
      action.version = version;
      this.acknowledged += 1;
      return { value, version };
    });
  }

  async #run<T>(of: Pick<Recorded, 'key' | 'action'>, ask: () => Promise<T>): Promise<T | undefined> {
    const operation: Open = { ...of, calledAt: ++this.#now, endedAt: Infinity };
    this.operations.push(operation);
    try {
      const result = await ask();
      operation.endedAt = ++this.#now;
      this.#count('OK');
      return result;
    } catch (error) {
      this.#failed(operation, error as RemusterError);
      return undefined;
    }
  }

  #failed(operation: Open, error: RemusterError): void {
    // Also whoever throws something else: a caller must never see that.
    this.#count(error.code ?? String(error));
    const { action } = operation;
    if (action.kind === 'get') return;
    if (error.code === 'PRECONDITION' && action.at !== undefined) {
      action.refused = true;
      operation.endedAt = ++this.#now;
    } else if (error.stateChanged === 'no') {
      // It is promised that it never happened: whoever sees it later finds a value that nobody wrote.
      this.operations.splice(this.operations.indexOf(operation), 1);
    } else {
      this.unknown += 1;
    }
  }

  #count(code: string): void {
    this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
  }
}
