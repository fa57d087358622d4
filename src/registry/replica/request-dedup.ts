/**
 * The dedup table: which numbered writes ran, with their results, so that a resent write runs once. Part of the
 * replicated state, so all replicas forget at the same log entry. A client is one generation of a node; each request
 * carries the lowest number it still waits for, and everything below is forgotten.
 *
 * Two bounds force more out: beyond `resultBytesMax` the oldest results are dropped, but not the fact that the request
 * ran; beyond `clientsMax` the client that was silent for longest is forgotten. A request lives for seconds, and so
 * many other nodes do not start to write in that time.
 */
import type { NodeId } from '../../base/ids.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import type { RegistrySnapshotReply, RegistrySnapshotClient } from '../../messages/registry-log.ts';
import { type RegistryWriteResult, registryRefusalOf } from '../registry-messages.ts';

export type RequestDedupLimits = {
  readonly clientsMax: number;
  readonly resultBytesMax: number;
  /** How far a client may be ahead of its lowest pending request. */
  readonly spanMax: number;
};

const defaultLimits: RequestDedupLimits = { clientsMax: 65_536, resultBytesMax: 16_777_216, spanMax: 262_144 };

export type NumberedRequest = {
  readonly client: NodeId;
  readonly generation: number;
  readonly counter: number;
  readonly lowestPending: number;
};

type Client = {
  readonly id: NodeId;
  readonly generation: number;
  lowestPending: number;
  readonly entries: Map<number, DedupEntry>;
};

/** Without a result: the request ran, and its result was dropped. Immutable, because snapshots refer to it. */
type DedupEntry = {
  readonly client: Client;
  readonly counter: number;
  readonly index: number;
  readonly result: RegistryWriteResult | undefined;
};

/** The size of an entry besides the keys and values of its result. */
const entryBytes = 64;

export class RequestDedup {
  readonly #limits: RequestDedupLimits;
  /** In the order of their latest request. */
  readonly #clients = new Map<NodeId, Client>();
  /** Entries with a result, from the oldest on. */
  readonly #withResult = new Set<DedupEntry>();
  /** Entries without a result, from the oldest on; all are older than those with one. */
  readonly #withoutResult = new Set<DedupEntry>();
  /** Sum of `bytesOf` over `#withResult`; at most `resultBytesMax` between two calls. */
  #bytes = 0;
  /** The last one of `#clients`. */
  #latest: Client | undefined;

  constructor(limits: Partial<RequestDedupLimits> = {}) {
    this.#limits = { ...defaultLimits, ...limits };
  }

  /** The result of a request that must not run; undefined for a new one. */
  resultOf(request: NumberedRequest): RegistryWriteResult | undefined {
    const { client: id, generation, counter, lowestPending } = request;
    if (lowestPending > counter)
      return registryRefusalOf('BAD_ARGUMENT', 'the number of the request is below its lowest pending number');
    let client = this.#clients.get(id);
    if (client !== undefined && generation < client.generation)
      return registryRefusalOf('FENCED', 'the node has restarted since: the request belongs to an earlier generation');
    if (client === undefined || generation > client.generation) client = this.#addClient(request, client);
    if (counter < client.lowestPending) return registryRefusalOf('REPLAYED', 'the request has ended before', 'maybe');
    const known = client.entries.get(counter);
    if (known !== undefined)
      return known.result ?? registryRefusalOf('DEADLINE', 'the request was executed, but its result was dropped');
    this.#forgetBelow(client, lowestPending);
    if (counter - client.lowestPending < this.#limits.spanMax) return undefined;
    return registryRefusalOf(
      'CAPACITY',
      `a node may have at most ${this.#limits.spanMax} requests behind its lowest pending one`,
    );
  }

  /** Records the result of a request for which `resultOf` had none. */
  record(request: NumberedRequest, index: number, result: RegistryWriteResult): void {
    const client = this.#clients.get(request.client) as Client;
    if (client !== this.#latest) {
      this.#clients.delete(client.id);
      this.#clients.set(client.id, client);
      this.#latest = client;
    }
    this.#add({ client, counter: request.counter, index, result });
  }

  /** The current state, with entries by age. Copies references only; results are encoded while iterating. */
  snapshot(): {
    readonly clients: readonly RegistrySnapshotClient[];
    readonly answers: Iterable<RegistrySnapshotReply>;
  } {
    const clients = Array.from(this.#clients.values(), ({ id, generation, lowestPending }) => ({
      client: id,
      generation,
      lowestPending,
    }));
    return { clients, answers: encodeEntries([...this.#withoutResult, ...this.#withResult]) };
  }

  /** Adds one part of a snapshot to an empty table; each client comes before its entries. */
  fill(clients: readonly RegistrySnapshotClient[], answers: readonly RegistrySnapshotReply[]): void {
    for (const { client, generation, lowestPending } of clients)
      this.#clients.set(client, { id: client, generation, lowestPending, entries: new Map() });
    for (const { index, client: id, counter, answer } of answers) {
      const client = this.#clients.get(id);
      if (client === undefined) continue;
      if (answer === undefined) this.#addWithoutResult({ client, counter, index, result: undefined });
      else this.#add({ client, counter, index, result: decodeMessage(answer) as RegistryWriteResult });
    }
  }

  #addClient({ client: id, generation, lowestPending }: NumberedRequest, previous: Client | undefined): Client {
    if (previous !== undefined) this.#forgetClient(previous);
    const client: Client = { id, generation, lowestPending, entries: new Map() };
    this.#clients.set(id, client);
    this.#latest = client;
    if (this.#clients.size <= this.#limits.clientsMax) return client;
    for (const silent of this.#clients.values()) {
      this.#forgetClient(silent);
      break;
    }
    return client;
  }

  #forgetClient(client: Client): void {
    for (const entry of client.entries.values()) this.#drop(entry);
    this.#clients.delete(client.id);
  }

  #forgetBelow(client: Client, lowestPending: number): void {
    if (lowestPending <= client.lowestPending) return;
    // Nearly always one or two numbers; after a pause perhaps more than there are entries.
    if (lowestPending - client.lowestPending <= client.entries.size)
      for (let counter = client.lowestPending; counter < lowestPending; counter++) this.#forgetRequest(client, counter);
    else
      for (const counter of [...client.entries.keys()])
        if (counter < lowestPending) this.#forgetRequest(client, counter);
    client.lowestPending = lowestPending;
  }

  #forgetRequest(client: Client, counter: number): void {
    const entry = client.entries.get(counter);
    if (entry === undefined) return;
    this.#drop(entry);
    client.entries.delete(counter);
  }

  #add(entry: DedupEntry): void {
    entry.client.entries.set(entry.counter, entry);
    this.#withResult.add(entry);
    this.#bytes += bytesOf(entry.result);
    if (this.#bytes <= this.#limits.resultBytesMax) return;
    for (const oldest of this.#withResult) {
      this.#drop(oldest);
      this.#addWithoutResult({ ...oldest, result: undefined });
      if (this.#bytes <= this.#limits.resultBytesMax) return;
    }
  }

  #addWithoutResult(entry: DedupEntry): void {
    entry.client.entries.set(entry.counter, entry);
    this.#withoutResult.add(entry);
  }

  #drop(entry: DedupEntry): void {
    if (this.#withResult.delete(entry)) this.#bytes -= bytesOf(entry.result);
    else this.#withoutResult.delete(entry);
  }
}

function* encodeEntries(entries: readonly DedupEntry[]): Generator<RegistrySnapshotReply> {
  for (const { index, client, counter, result } of entries)
    yield { index, client: client.id, counter, answer: result && encodeMessage(result) };
}

function bytesOf(result: RegistryWriteResult | undefined): number {
  let bytes = entryBytes;
  if (result?.kind !== 'registryTransactReply') return bytes;
  for (const { entries } of result.results)
    for (const { key, value } of entries ?? []) bytes += entryBytes + key.length + value.length;
  return bytes;
}
