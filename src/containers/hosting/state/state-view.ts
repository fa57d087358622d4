/**
 * `ctx.state`: a read view, and a write view whose changes are dropped unless the method returns. An ended view refuses
 * everything, so no method can write during a later turn.
 */
import { RemusterError } from '../../../base/errors.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import { utf8Length } from '../../../base/registry-validation.ts';
import { decodeValue, encodeValue } from '../../../messages/codec/value.ts';
import { OrderedMap } from '../../../base/collections/ordered-map.ts';
import type { State, StateRange } from '../../module.ts';
import { StateChangeList } from './state-changes.ts';
import { type ContainerState, keyBytesOf, type StateChangeMap, visitMerged } from './container-state.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import { rowBytes, stateRow } from './state-rows.ts';

// Only the module knows the types of its values: the type parameters are those of `State`.
// oxlint-disable typescript/no-unnecessary-type-parameters

const entriesDefault = 1_000;

type Entries = (readonly [key: string, value: unknown])[];

export class ReadStateView implements State {
  readonly #state: ContainerState;
  #isOpen = true;

  constructor(state: ContainerState) {
    this.#state = state;
  }

  get size(): number {
    return this.#open().size;
  }

  get<T>(key: string): T | undefined {
    const value = this.#open().get(key);
    return value === undefined ? undefined : (decodeValue(value) as T);
  }

  has(key: string): boolean {
    return this.#open().get(key) !== undefined;
  }

  entries<T>(range: StateRange = {}): readonly (readonly [key: string, value: T])[] {
    const state = this.#open();
    return collect(range, (visitor) => state.visit(range, visitor)) as [string, T][];
  }

  set(): void {
    throw readonlyError();
  }

  delete(): boolean {
    throw readonlyError();
  }

  end(): void {
    this.#isOpen = false;
  }

  #open(): ContainerState {
    if (!this.#isOpen) throw viewEndedError();
    return this.#state;
  }
}

export class WriteStateView implements State {
  readonly #state: ContainerState;
  readonly #limits: HostingLimits;
  readonly #changes = new StateChangeList();
  /** The same changes in key order, built for the first range read. */
  #ordered: StateChangeMap | undefined;
  #sizeChange = 0;
  #bytesChange = 0;
  /** Bytes of `#changes` in a commit. */
  #writtenBytes = 0;
  #isOpen = true;

  constructor(state: ContainerState, limits: HostingLimits) {
    this.#state = state;
    this.#limits = limits;
  }

  get size(): number {
    this.#open();
    return this.#state.size + this.#sizeChange;
  }

  get<T>(key: string): T | undefined {
    const value = this.#find(key);
    return value === undefined ? undefined : (decodeValue(value) as T);
  }

  has(key: string): boolean {
    return this.#find(key) !== undefined;
  }

  set(key: string, value: unknown): void {
    const old = this.#find(key);
    this.#checkKey(key);
    const bytes = encodeValue(value, this.#limits.valueBytesMax);
    const growth = bytes.length - (old === undefined ? -keyBytesOf(key) : old.length);
    if (growth > 0 && this.#state.bytes + this.#bytesChange + growth > this.#limits.stateBytesMax) {
      throw new RemusterError(
        'STORE_FULL',
        `the state of the container would exceed ${this.#limits.stateBytesMax} bytes`,
      );
    }
    this.#write(key, bytes);
    this.#bytesChange += growth;
    if (old === undefined) this.#sizeChange += 1;
  }

  delete(key: string): boolean {
    const old = this.#find(key);
    if (old === undefined) return false;
    this.#write(key, null);
    this.#bytesChange -= keyBytesOf(key) + old.length;
    this.#sizeChange -= 1;
    return true;
  }

  entries<T>(range: StateRange = {}): readonly (readonly [key: string, value: T])[] {
    this.#open();
    const visit = (visitor: (value: Uint8Array, key: string) => boolean): void => {
      if (this.#changes.size === 0) this.#state.visit(range, visitor);
      else visitMerged(this.#state, this.#inOrder(), range, visitor);
    };
    return collect(range, visit) as [string, T][];
  }

  end(): void {
    this.#isOpen = false;
  }

  /** Makes the changes visible to all. */
  apply(): void {
    for (const { key, value } of this.#changes.all) {
      if (value === null) this.#state.delete(key);
      else this.#state.set(key, value);
    }
  }

  /** Adds the changes as rows of a commit. */
  collectRows(rows: StoreWrite[]): void {
    for (const { key, value } of this.#changes.all) rows.push({ key: stateRow(key), value });
  }

  /** Bytes of the changes in a commit. */
  get writtenBytes(): number {
    return this.#writtenBytes;
  }

  #find(key: string): Uint8Array | undefined {
    this.#open();
    const change = this.#changes.find(key);
    return change === undefined ? this.#state.get(key) : (change.value ?? undefined);
  }

  #write(key: string, value: Uint8Array | null): void {
    const { commitBytesMax, commitRowsMax } = this.#limits;
    const previous = this.#changes.find(key);
    const replacedBytes = previous === undefined ? 0 : rowBytes(key, previous.value?.length ?? 0);
    const bytes = this.#writtenBytes + rowBytes(key, value?.length ?? 0) - replacedBytes;
    if (bytes > commitBytesMax || (previous === undefined && this.#changes.size >= commitRowsMax)) {
      throw new RemusterError('TOO_LARGE', `a call writes at most ${commitBytesMax} bytes and ${commitRowsMax} keys`);
    }
    this.#writtenBytes = bytes;
    if (previous === undefined) this.#changes.add(key, value);
    else previous.value = value;
    this.#ordered?.set(key, value);
  }

  #inOrder(): StateChangeMap {
    if (this.#ordered === undefined) {
      this.#ordered = new OrderedMap();
      for (const { key, value } of this.#changes.all) this.#ordered.set(key, value);
    }
    return this.#ordered;
  }

  #checkKey(key: string): void {
    if (typeof key !== 'string')
      throw new RemusterError('BAD_ARGUMENT', `a key of the state is a ${typeof key}: give a string`);
    const { keyBytesMax } = this.#limits;
    // UTF-8 has at most three bytes per UTF-16 unit.
    if (key.length * 3 > keyBytesMax && utf8Length(key) > keyBytesMax) {
      throw new RemusterError('TOO_LARGE', `a key of the state exceeds ${keyBytesMax} bytes`);
    }
    if (!key.isWellFormed()) throw new RemusterError('BAD_ARGUMENT', 'a key of the state is not well-formed text');
  }

  #open(): void {
    if (!this.#isOpen) throw viewEndedError();
  }
}

function collect(
  { limit = entriesDefault }: StateRange,
  visit: (visitor: (value: Uint8Array, key: string) => boolean) => void,
): Entries {
  const out: Entries = [];
  if (!(limit > 0)) return out;
  visit((value, key) => out.push([key, decodeValue(value)]) < limit);
  return out;
}

function readonlyError(): Error {
  return new TypeError('a readonly method cannot write: remove `readonly` from the method');
}

export function viewEndedError(): Error {
  return new TypeError('the call has ended: its context cannot be used any more');
}
