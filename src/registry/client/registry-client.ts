/**
 * The `Registry` port on any node. Numbers its writes and resends them with the same number, so each runs once. Never
 * reads from a local copy.
 */
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import type { Cancel, Clock, Identity, Peer, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeOptions,
  type Registry,
  type RegistryTransaction,
  type TransactionResult,
  type WatchEvents,
  type WatchStart,
  type WriteOptions,
  registryLimits,
} from '../../base/registry.ts';
import {
  validateLease,
  validateLimit,
  validateRange,
  validateWatchStart,
  validateTransaction,
  validateTtl,
} from '../../base/registry-validation.ts';
import { type Message, decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import type { RegistryMessage } from '../../messages/registry.ts';
import { type SendToManager, type LeaderRequestParts, LeaderRequest } from './leader-request.ts';
import { LeaderFinder } from './leader-finder.ts';
import type { RegistryServer } from '../server/registry-server.ts';
import { copyTransaction } from '../keyspace/transaction-copy.ts';
import { LongPollWatch } from './long-poll-watch.ts';
import { resultFromMessage, transactionToWire } from '../registry-messages.ts';

export type RegistryClientParts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly self: Pick<Identity, 'id' | 'generation'>;
  /** The managers that this node knows, the preferred ones first. */
  readonly managers: () => readonly Peer[];
  readonly send: SendToManager;
  readonly localManager?: NonNullable<LeaderRequestParts['localManager']>;
  readonly callsMax?: number;
  readonly watchesMax?: number;
};

/** Sends requests to managers by stream, or directly to the server of the same node. */
export function sendToManagers(parts: {
  readonly clock: Clock;
  readonly streams: Pick<Streams, 'request'>;
  readonly self: Pick<Identity, 'id' | 'generation'>;
  /** The server of this node, while it is a manager. */
  readonly server: () => RegistryServer | undefined;
}): SendToManager {
  return (to, body, timeoutMs, done, write) => {
    const server = to.id === parts.self.id ? parts.server() : undefined;
    if (server === undefined) return parts.streams.request(to, body, timeoutMs, done);
    return requestLocally<Uint8Array | Message>(parts.clock, done, (end) => {
      if (write !== undefined) server.transactLocal(parts.self, write, body, timeoutMs, end);
      else server.handle(parts.self, decodeMessage(body) as RegistryMessage, body, timeoutMs, end);
    });
  };
}

/** Calls back once and never before it has returned, like a stream. The server ends the request in time. */
function requestLocally<T>(clock: Clock, done: Done<T>, start: (end: Done<T>) => void): Cancel {
  let ended = false;
  let returned = false;
  const end = (outcome: Outcome<T>): void => {
    if (ended) return;
    ended = true;
    if (returned) done(outcome);
    else clock.schedule(0, () => done(outcome));
  };
  start(end);
  returned = true;
  return () => {
    if (!ended) end(failure('CANCELLED'));
  };
}

const defaultTimeoutMs = 5_000;
type NumberedKind = 'registryTransact' | 'registryGrant' | 'registryRevoke';
type Unnumbered<M> = Omit<M, 'client' | 'generation' | 'counter' | 'lowestPending'>;
type WriteRequest = { [K in NumberedKind]: Unnumbered<Extract<RegistryMessage, { readonly kind: K }>> }[NumberedKind];

export class RegistryClient implements Registry {
  readonly #parts: RegistryClientParts;
  readonly #requestParts: LeaderRequestParts;
  readonly #open = new Set<LeaderRequest>();
  readonly #watches = new Set<LongPollWatch>();
  /** Numbers of writes without a result. */
  readonly #pendingWrites = new Set<number>();
  #counter = 0;
  /** Every write below it has ended. */
  #endedBelow = 1;
  #closed = false;

  constructor(parts: RegistryClientParts) {
    this.#parts = parts;
    const { clock, random, send, localManager = () => undefined } = parts;
    this.#requestParts = { clock, random, send, localManager, finder: new LeaderFinder(parts.managers) };
  }

  range(range: KeyRange, options: RangeOptions, done: Parameters<Registry['range']>[2]): void {
    const limit = options.limit ?? registryLimits.rangeLimitMax;
    const stale = options.stale ?? false;
    const fault = validateRange(range) ?? validateLimit(limit);
    if (fault !== undefined) return this.#failSoon(done, fault);
    const { from, to } = range;
    this.#call({ kind: 'registryRange', from, to, limit, stale }, options, done, (reply) => {
      if (reply.kind !== 'registryRangeReply') return undefined;
      const { epoch, entries, more, revision } = reply;
      return success({ epoch, entries, more, revision });
    });
  }

  transact(transaction: RegistryTransaction, options: WriteOptions, done: Parameters<Registry['transact']>[2]): void {
    const fault = validateTransaction(transaction);
    if (fault !== undefined) return this.#failSoon(done, fault);
    const read = (reply: Message): Outcome<TransactionResult> | undefined =>
      reply.kind === 'registryTransactReply' ? success(resultFromMessage(reply)) : undefined;
    this.#write({ kind: 'registryTransact', ...transactionToWire(transaction) }, options, done, read, transaction);
  }

  grant(ttlMs: number, options: WriteOptions, done: Parameters<Registry['grant']>[2]): void {
    const fault = validateTtl(ttlMs);
    if (fault !== undefined) return this.#failSoon(done, fault);
    this.#write({ kind: 'registryGrant', ttlMs }, options, done, (reply) =>
      reply.kind === 'registryLeaseReply' ? success({ lease: reply.lease, ttlMs: reply.ttlMs }) : undefined,
    );
  }

  keepAlive(lease: LeaseId, options: WriteOptions, done: Parameters<Registry['keepAlive']>[2]): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return this.#failSoon(done, fault);
    this.#call({ kind: 'registryKeepAlive', lease }, options, done, (reply) =>
      reply.kind === 'registryLeaseReply' ? success({ ttlMs: reply.ttlMs }) : undefined,
    );
  }

  revoke(lease: LeaseId, options: WriteOptions, done: Done<void>): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return this.#failSoon(done, fault);
    this.#write({ kind: 'registryRevoke', lease }, options, done, (reply) =>
      reply.kind === 'registryRevokeReply' ? success(undefined) : undefined,
    );
  }

  watch(range: KeyRange, start: WatchStart, events: WatchEvents): Cancel {
    const fault = validateRange(range) ?? validateWatchStart(start);
    if (fault !== undefined) throw fault;
    const watchesMax = this.#parts.watchesMax ?? 1_024;
    if (this.#closed) throw new RemusterError('CANCELLED', 'the registry is closed');
    if (this.#watches.size >= watchesMax) throw new RemusterError('CAPACITY', `at most ${watchesMax} watches at once`);
    const { from, to } = range;
    const poll = new LongPollWatch(this.#requestParts, { range: { from, to }, start, events }, () => {
      this.#watches.delete(poll);
    });
    this.#watches.add(poll);
    return () => {
      this.#watches.delete(poll);
      poll.cancel();
    };
  }

  /** Ends all requests and watches. */
  close(): void {
    this.#closed = true;
    for (const poll of this.#watches) poll.cancel();
    this.#watches.clear();
    for (const call of [...this.#open]) call.cancel(new RemusterError('CANCELLED', 'the registry is closed'));
  }

  #write<T>(
    request: WriteRequest,
    options: WriteOptions,
    done: Done<T>,
    read: (reply: Message) => Outcome<T> | undefined,
    transaction?: RegistryTransaction,
  ): void {
    this.#counter += 1;
    const counter = this.#counter;
    this.#pendingWrites.add(counter);
    const { id: client, generation } = this.#parts.self;
    this.#call<T>(
      { ...request, client, generation, counter, lowestPending: this.#lowestPending() },
      options,
      (outcome) => {
        this.#pendingWrites.delete(counter);
        done(outcome);
      },
      read,
      transaction,
    );
  }

  #call<T>(
    request: RegistryMessage,
    { timeoutMs = defaultTimeoutMs }: WriteOptions,
    done: Done<T>,
    read: (reply: Message) => Outcome<T> | undefined,
    transaction?: RegistryTransaction,
  ): void {
    const callsMax = this.#parts.callsMax ?? 16_384;
    if (this.#closed) return this.#failSoon(done, new RemusterError('CANCELLED', 'the registry is closed'));
    if (this.#open.size >= callsMax)
      return this.#failSoon(done, new RemusterError('CAPACITY', `more than ${callsMax} registry requests are pending`));
    const body = tryEncode(request);
    if (isRemusterError(body)) return this.#failSoon(done, body);
    const anyManager = request.kind === 'registryRange' && request.stale;
    const write =
      transaction !== undefined &&
      request.kind === 'registryTransact' &&
      this.#requestParts.localManager?.() !== undefined
        ? { numbered: request, transaction: copyTransaction(transaction) }
        : undefined;
    const limits = { timeoutMs: Math.max(1, timeoutMs), anyManager, write };
    const call = new LeaderRequest(this.#requestParts, { body, ...limits }, (outcome) => {
      this.#open.delete(call);
      if (!outcome.ok) return done(outcome);
      done(read(outcome.value) ?? failure('INTERNAL', 'a manager sent an unexpected reply'));
    });
    this.#open.add(call);
  }

  #lowestPending(): number {
    while (this.#endedBelow < this.#counter && !this.#pendingWrites.has(this.#endedBelow)) this.#endedBelow += 1;
    return this.#endedBelow;
  }

  #failSoon(done: Done<never>, error: RemusterError): void {
    this.#parts.clock.schedule(0, () => done({ ok: false, error }));
  }
}

function tryEncode(request: RegistryMessage): Uint8Array | RemusterError {
  try {
    return encodeMessage(request);
  } catch (error) {
    if (isRemusterError(error)) return error;
    throw error;
  }
}
