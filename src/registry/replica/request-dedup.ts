/**
 * Remembers which numbered writes ran and their results, so a resent write runs once. Part of the replicated state: all
 * replicas forget at the same entry. A client is one life of a node; it tells the lowest number it still waits for, and
 * everything below is forgotten.
 *
 * Two bounds make room by force. Old answers are dropped before new ones, but the fact that the request was executed
 * stays. The client that has been silent longest is forgotten when there are too many nodes; a request lives for
 * seconds, and so many other nodes do not begin to write in that time.
 */
import type { NodeId } from '../../base/ids.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import type { RegistrySnapshotReply, RegistrySnapshotClient } from '../../messages/registry-log.ts';
import { type RegistryWriteResult, registryRefusalOf } from '../registry-messages.ts';

export type RequestDedupLimits = {
  readonly clientsMax: number;
  readonly answerBytesMax: number;
  /** How far a client may be ahead of the lowest request it waits for. */
  readonly spanMax: number;
};

const memoryLimits: RequestDedupLimits = { clientsMax: 65_536, answerBytesMax: 16_777_216, spanMax: 262_144 };

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
  readonly answers: Map<number, Remembered>;
};

/** Without an answer: it was executed, and what came of it has been dropped. Never changed: images refer to it. */
type Remembered = {
  readonly client: Client;
  readonly counter: number;
  readonly index: number;
  readonly answer: RegistryWriteResult | undefined;
};

/** What an answer is counted as beside the keys and values in it. */
const answerBytes = 64;

export class RequestDedup {
  readonly #limits: RequestDedupLimits;
  /** From the longest silent to the latest heard. */
  readonly #clients = new Map<NodeId, Client>();
  /** Those that still have an answer, from the oldest on. */
  readonly #answered = new Set<Remembered>();
  /** Those that have none any more, from the oldest on; all of them are older than those that have one. */
  readonly #dropped = new Set<Remembered>();
  #bytes = 0;
  /** The last one of `#clients`. */
  #latest: Client | undefined;

  constructor(limits: Partial<RequestDedupLimits> = {}) {
    this.#limits = { ...memoryLimits, ...limits };
  }

  /** The answer for a request that must not be executed; undefined for a new one. */
  resultOf(request: NumberedRequest): RegistryWriteResult | undefined {
    const { client: id, generation, counter, lowestPending } = request;
    if (lowestPending > counter)
      return registryRefusalOf('BAD_ARGUMENT', 'a request is numbered below what its sender waits for');
    let client = this.#clients.get(id);
    if (client !== undefined && generation < client.generation)
      return registryRefusalOf(
        'FENCED',
        'the node has been started again since: this was a request of its former life',
      );
    if (client === undefined || generation > client.generation) client = this.#begin(request, client);
    if (counter < client.lowestPending)
      return registryRefusalOf('REPLAYED', 'the request was given up or answered before', 'maybe');
    const known = client.answers.get(counter);
    if (known !== undefined)
      return known.answer ?? registryRefusalOf('DEADLINE', 'it was executed, but its answer is no longer known');
    this.#forgetBelow(client, lowestPending);
    if (counter - client.lowestPending < this.#limits.spanMax) return undefined;
    return registryRefusalOf(
      'CAPACITY',
      `a node has at most ${this.#limits.spanMax} requests behind one that is not answered`,
    );
  }

  /** After `answerTo` had none. */
  record(request: NumberedRequest, index: number, answer: RegistryWriteResult): void {
    const client = this.#clients.get(request.client) as Client;
    if (client !== this.#latest) {
      this.#clients.delete(client.id);
      this.#clients.set(client.id, client);
      this.#latest = client;
    }
    this.#keep({ client, counter: request.counter, index, answer });
  }

  /** As it is now, the answers by age. Copies no more than references; answers are encoded when they are asked for. */
  image(): { readonly clients: readonly RegistrySnapshotClient[]; readonly answers: Iterable<RegistrySnapshotReply> } {
    const clients = Array.from(this.#clients.values(), ({ id, generation, lowestPending }) => ({
      client: id,
      generation,
      lowestPending,
    }));
    return { clients, answers: encoded([...this.#dropped, ...this.#answered]) };
  }

  /** One part of an image after the other, into a memory that was empty before; each client before its answers. */
  fill(clients: readonly RegistrySnapshotClient[], answers: readonly RegistrySnapshotReply[]): void {
    for (const { client, generation, lowestPending } of clients)
      this.#clients.set(client, { id: client, generation, lowestPending, answers: new Map() });
    for (const { index, client: id, counter, answer } of answers) {
      const client = this.#clients.get(id);
      if (client === undefined) continue;
      if (answer === undefined) this.#keepWithout({ client, counter, index, answer });
      else this.#keep({ client, counter, index, answer: decodeMessage(answer) as RegistryWriteResult });
    }
  }

  #begin({ client: id, generation, lowestPending }: NumberedRequest, former: Client | undefined): Client {
    if (former !== undefined) this.#forget(former);
    const client: Client = { id, generation, lowestPending, answers: new Map() };
    this.#clients.set(id, client);
    this.#latest = client;
    if (this.#clients.size <= this.#limits.clientsMax) return client;
    for (const silent of this.#clients.values()) {
      this.#forget(silent);
      break;
    }
    return client;
  }

  #forget(client: Client): void {
    for (const remembered of client.answers.values()) this.#forgetAnswer(remembered);
    this.#clients.delete(client.id);
  }

  #forgetBelow(client: Client, lowestPending: number): void {
    if (lowestPending <= client.lowestPending) return;
    // Nearly always the next one or two; after a pause perhaps all that there are.
    if (lowestPending - client.lowestPending <= client.answers.size)
      for (let counter = client.lowestPending; counter < lowestPending; counter++) this.#forgetOne(client, counter);
    else
      for (const counter of [...client.answers.keys()]) if (counter < lowestPending) this.#forgetOne(client, counter);
    client.lowestPending = lowestPending;
  }

  #forgetOne(client: Client, counter: number): void {
    const remembered = client.answers.get(counter);
    if (remembered === undefined) return;
    this.#forgetAnswer(remembered);
    client.answers.delete(counter);
  }

  #keep(remembered: Remembered): void {
    remembered.client.answers.set(remembered.counter, remembered);
    this.#answered.add(remembered);
    this.#bytes += bytesOf(remembered.answer);
    if (this.#bytes <= this.#limits.answerBytesMax) return;
    for (const oldest of this.#answered) {
      this.#forgetAnswer(oldest);
      this.#keepWithout({ ...oldest, answer: undefined });
      if (this.#bytes <= this.#limits.answerBytesMax) return;
    }
  }

  #keepWithout(remembered: Remembered): void {
    remembered.client.answers.set(remembered.counter, remembered);
    this.#dropped.add(remembered);
  }

  #forgetAnswer(remembered: Remembered): void {
    if (this.#answered.delete(remembered)) this.#bytes -= bytesOf(remembered.answer);
    else this.#dropped.delete(remembered);
  }
}

function* encoded(remembered: readonly Remembered[]): Generator<RegistrySnapshotReply> {
  for (const { index, client, counter, answer } of remembered)
    yield { index, client: client.id, counter, answer: answer && encodeMessage(answer) };
}

function bytesOf(answer: RegistryWriteResult | undefined): number {
  let bytes = answerBytes;
  if (answer?.kind !== 'registryTransactReply') return bytes;
  for (const { entries } of answer.results)
    for (const { key, value } of entries ?? []) bytes += answerBytes + key.length + value.length;
  return bytes;
}
