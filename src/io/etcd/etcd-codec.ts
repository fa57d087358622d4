/**
 * Translates keys, values and numbers to the JSON of etcd and back. `k/` holds keys; `g/` holds dedup marks, which no
 * range of a caller contains.
 */
import { assert } from '../../base/assert.ts';
import type {
  KeyRange,
  LeaseId,
  RegistryChange,
  RegistryCompare,
  RegistryEntry,
  RegistryEpoch,
} from '../../base/registry.ts';
import { groupIdBytes, registryEpoch } from '../../base/registry-epoch.ts';
import { utf8SortKey } from '../../base/registry-validation.ts';

export type EtcdWireRange = { readonly key: string; readonly range_end?: string };

export type EtcdWireEntry = {
  readonly key?: string;
  readonly value?: string;
  readonly create_revision?: string;
  readonly mod_revision?: string;
  readonly version?: string;
  readonly lease?: string;
};

export type EtcdWireEvent = { readonly type?: string; readonly kv?: EtcdWireEntry };

const targets = { version: 'VERSION', createRevision: 'CREATE', modRevision: 'MOD' } as const;
const fields = { version: 'version', createRevision: 'create_revision', modRevision: 'mod_revision' } as const;
const relations = { equal: 'EQUAL', less: 'LESS', greater: 'GREATER', notEqual: 'NOT_EQUAL' } as const;

export class EtcdCodec {
  readonly #namespace: string;
  readonly #prefix: string;

  constructor(namespace: string) {
    this.#namespace = namespace;
    this.#prefix = `${namespace}k/`;
  }

  key(key: string): string {
    return encodeEtcdBytes(this.#prefix + key);
  }

  /** An empty range becomes the absent key, because etcd reads an inverted range differently. */
  range({ from, to }: KeyRange): EtcdWireRange {
    if (utf8SortKey(from) >= utf8SortKey(to)) return { key: this.absentKey };
    return { key: this.key(from), range_end: this.key(to) };
  }

  /** A key that is never written. */
  get absentKey(): string {
    return encodeEtcdBytes(`${this.#namespace}nothing`);
  }

  dedupKey(session: string, slot: number): string {
    return encodeEtcdBytes(`${this.#namespace}g/${session}/${slot}`);
  }

  compare(compare: RegistryCompare): Readonly<Record<string, string>> {
    const { key, target, is } = compare;
    const common = { key: this.key(key), result: relations[is] };
    if (target === 'value') return { ...common, target: 'VALUE', value: encodeEtcdBytes(compare.than) };
    return { ...common, target: targets[target], [fields[target]]: String(compare.than) };
  }

  entry(wire: EtcdWireEntry): RegistryEntry {
    const key = Buffer.from(wire.key ?? '', 'base64').toString('utf8');
    assert(key.startsWith(this.#prefix), 'etcd returned a key outside of the namespace');
    return {
      key: key.slice(this.#prefix.length),
      value: bytesOf(wire.value),
      createRevision: wireNumber(wire.create_revision),
      modRevision: wireNumber(wire.mod_revision),
      version: wireNumber(wire.version),
      lease: wire.lease === undefined || wire.lease === '0' ? undefined : (wire.lease as LeaseId),
    };
  }

  change({ type, kv = {} }: EtcdWireEvent): RegistryChange {
    const entry = this.entry(kv);
    if (type !== 'DELETE') return { kind: 'put', entry };
    return { kind: 'delete', key: entry.key, modRevision: entry.modRevision };
  }
}

/** The revision of the key space, from the header of any reply. */
/** The epoch is the id of the etcd cluster: a restore of etcd into a new cluster has another one. */
export function headerOf(body: Readonly<Record<string, unknown>>): {
  readonly epoch: RegistryEpoch;
  readonly revision: number;
} {
  const { cluster_id: id } = (body['header'] ?? {}) as { cluster_id?: unknown };
  const group = BigInt(typeof id === 'string' ? id : 0)
    .toString(16)
    .padStart(2 * groupIdBytes, '0');
  return { epoch: registryEpoch(group, 0), revision: headerRevision(body) };
}

function headerRevision(body: Readonly<Record<string, unknown>>): number {
  return wireNumber((body['header'] as { revision?: unknown } | undefined)?.revision);
}

export function wireNumber(wire: unknown): number {
  const value = Number(wire ?? 0);
  assert(Number.isSafeInteger(value), 'etcd returned a number beyond 2^53');
  return value;
}

export function encodeEtcdBytes(bytes: string | Uint8Array): string {
  if (typeof bytes === 'string') return Buffer.from(bytes, 'utf8').toString('base64');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** Copied, because a small Buffer is a slice of a shared pool and would keep all of it alive. */
function bytesOf(wire: string | undefined): Uint8Array {
  return new Uint8Array(Buffer.from(wire ?? '', 'base64'));
}
