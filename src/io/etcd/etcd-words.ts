/**
 * Our words in etcd's JSON and back: keys and values in base64 behind the namespace, 64-bit numbers as text, and what
 * is zero, empty or false left out. Below the namespace `k/` holds the keys of the port and `g/` the marks of executed
 * transactions, which no range of the port can reach.
 */
import { assert } from '../../base/assert.ts';
import type { KeyRange, LeaseId, RegistryChange, RegistryCompare, RegistryEntry } from '../../base/registry.ts';
import { utf8SortKey } from '../../base/registry-validation.ts';

export type WireRange = { readonly key: string; readonly range_end?: string };

export type WireEntry = {
  readonly key?: string;
  readonly value?: string;
  readonly create_revision?: string;
  readonly mod_revision?: string;
  readonly version?: string;
  readonly lease?: string;
};

export type WireEvent = { readonly type?: string; readonly kv?: WireEntry };

const targets = { version: 'VERSION', createRevision: 'CREATE', modRevision: 'MOD' } as const;
const fields = { version: 'version', createRevision: 'create_revision', modRevision: 'mod_revision' } as const;
const relations = { equal: 'EQUAL', less: 'LESS', greater: 'GREATER', notEqual: 'NOT_EQUAL' } as const;

export class EtcdWords {
  readonly #namespace: string;
  readonly #prefix: string;

  constructor(namespace: string) {
    this.#namespace = namespace;
    this.#prefix = `${namespace}k/`;
  }

  key(key: string): string {
    return base64(this.#prefix + key);
  }

  /** A range that holds nothing is the one key that is never written: for etcd an empty end would mean something else. */
  range({ from, to }: KeyRange): WireRange {
    if (utf8SortKey(from) >= utf8SortKey(to)) return { key: this.nothing };
    return { key: this.key(from), range_end: this.key(to) };
  }

  get nothing(): string {
    return base64(`${this.#namespace}nothing`);
  }

  guard(session: string, slot: number): string {
    return base64(`${this.#namespace}g/${session}/${slot}`);
  }

  compare(compare: RegistryCompare): Readonly<Record<string, string>> {
    const { key, target, is } = compare;
    const both = { key: this.key(key), result: relations[is] };
    if (target === 'value') return { ...both, target: 'VALUE', value: base64(compare.than) };
    return { ...both, target: targets[target], [fields[target]]: String(compare.than) };
  }

  entry(wire: WireEntry): RegistryEntry {
    const key = Buffer.from(wire.key ?? '', 'base64').toString('utf8');
    assert(key.startsWith(this.#prefix), 'etcd gave a key outside of the range that was asked for');
    return {
      key: key.slice(this.#prefix.length),
      value: bytesOf(wire.value),
      createRevision: numberOf(wire.create_revision),
      modRevision: numberOf(wire.mod_revision),
      version: numberOf(wire.version),
      lease: wire.lease === undefined || wire.lease === '0' ? undefined : (wire.lease as LeaseId),
    };
  }

  change({ type, kv = {} }: WireEvent): RegistryChange {
    const entry = this.entry(kv);
    if (type !== 'DELETE') return { kind: 'put', entry };
    return { kind: 'delete', key: entry.key, modRevision: entry.modRevision };
  }
}

/** The revision of the key space, from the header of any answer. */
export function revisionOf(body: Readonly<Record<string, unknown>>): number {
  return numberOf((body['header'] as { revision?: unknown } | undefined)?.revision);
}

export function numberOf(wire: unknown): number {
  const value = Number(wire ?? 0);
  assert(Number.isSafeInteger(value), 'etcd gave a number beyond 2^53');
  return value;
}

export function base64(bytes: string | Uint8Array): string {
  if (typeof bytes === 'string') return Buffer.from(bytes, 'utf8').toString('base64');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** A copy of its own: small buffers share one piece of memory, which would stay as long as any of them. */
function bytesOf(wire: string | undefined): Uint8Array {
  return new Uint8Array(Buffer.from(wire ?? '', 'base64'));
}
