/**
 * History of kv calls, and the model that checks it for linearizability. Every written value is unique, so no order
 * explains a history with a write that is lost, returns or is repeated. Pure.
 */
import type { RemusterError } from '../../../src/base/errors.ts';
import type { SequentialModel, HistoryOperation } from '../../simulation/checking/linearizability.ts';

export type KvRead = { readonly value: string; readonly version: number };

export type KvAction =
  | { readonly kind: 'get'; returned?: KvRead | undefined }
  /** `at`: the write requires this item. `version`: the version of the written item. */
  | {
      readonly kind: 'put';
      readonly value: string;
      readonly at?: KvRead | undefined;
      version?: number;
      refused?: boolean;
    };

/** The version is unknown until a reply contains it; it is higher than `above`. */
export type KvState = { readonly value: string; readonly version: number | undefined; readonly above: number };

export const absentKey: KvRead = { value: '', version: 0 };

export const kvModel: SequentialModel<KvState, KvAction> = {
  initial: { ...absentKey, above: -1 },
  after: (state, action, hasReply) => (hasReply ? afterReply(state, action) : afterLostReply(state, action)),
  print: ({ value, version, above }) => `${value}@${version ?? `above ${above}`}`,
  dependsOn: (action, hasReply, { value }) => {
    if (action.kind === 'get') return hasReply && action.returned?.value === value;
    if (action.at === undefined) return false;
    return action.refused === true ? action.at.value !== value : action.at.value === value;
  },
};

function afterReply(state: KvState, action: KvAction): KvState | undefined {
  if (action.kind === 'get')
    return action.returned !== undefined && matches(state, action.returned) ? stateOf(action.returned) : undefined;
  const { at, value, version, refused } = action;
  if (refused === true) return at !== undefined && state.version !== at.version ? state : undefined;
  if (at !== undefined && !matches(state, at)) return undefined;
  return version !== undefined && version > versionBound(state) ? stateOf({ value, version }) : undefined;
}

function afterLostReply(state: KvState, action: KvAction): KvState {
  if (action.kind === 'get' || (action.at !== undefined && !matches(state, action.at))) return state;
  return { value: action.value, version: undefined, above: versionBound(state) };
}

function matches(state: KvState, { value, version }: KvRead): boolean {
  return state.value === value && (state.version === undefined ? version > state.above : version === state.version);
}

function stateOf(item: KvRead): KvState {
  return { ...item, above: item.version - 1 };
}

/** A lower bound of the version. */
function versionBound({ version, above }: KvState): number {
  return version ?? above;
}

type Recorded = HistoryOperation<KvAction> & { readonly key: string };
type Open = { -readonly [F in keyof Recorded]: Recorded[F] };

/** All calls in the order of their starts and ends, as one process sees it. */
export class KvHistory {
  readonly operations: Recorded[] = [];
  /** The number of calls by their code. */
  readonly codes = new Map<string, number>();
  acknowledged = 0;
  /** Writes with an unknown outcome. */
  unknown = 0;
  #now = 0;

  async get(key: string, send: () => Promise<KvRead>): Promise<KvRead | undefined> {
    const action: KvAction = { kind: 'get' };
    return await this.#run({ key, action }, async () => (action.returned = await send()));
  }

  async put(
    key: string,
    { value, at }: { readonly value: string; readonly at?: KvRead },
    send: () => Promise<{ readonly version: number }>,
  ): Promise<KvRead | undefined> {
    const action: KvAction = { kind: 'put', value, at };
    return await this.#run({ key, action }, async () => {
      const { version } = await send();
      action.version = version;
      this.acknowledged += 1;
      return { value, version };
    });
  }

  async #run<T>(of: Pick<Recorded, 'key' | 'action'>, send: () => Promise<T>): Promise<T | undefined> {
    const operation: Open = { ...of, calledAt: ++this.#now, endedAt: Infinity };
    this.operations.push(operation);
    try {
      const result = await send();
      operation.endedAt = ++this.#now;
      this.#count('OK');
      return result;
    } catch (error) {
      this.#failed(operation, error as RemusterError);
      return undefined;
    }
  }

  #failed(operation: Open, error: RemusterError): void {
    // An error without a code is counted too: a caller must never get one.
    this.#count(error.code ?? String(error));
    const { action } = operation;
    if (action.kind === 'get') return;
    if (error.code === 'PRECONDITION' && action.at !== undefined) {
      action.refused = true;
      operation.endedAt = ++this.#now;
    } else if (error.stateChanged === 'no') {
      // A refused write has no effect: a read that returns its value violates linearizability.
      this.operations.splice(this.operations.indexOf(operation), 1);
    } else {
      this.unknown += 1;
    }
  }

  #count(code: string): void {
    this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
  }
}
