/**
 * The Registry port on the JSON gateway of etcd: checks arguments, bounds calls, translates. etcd-client.ts retries,
 * idempotent-transaction.ts executes once, etcd-watch.ts watches. etcd counts lease times in whole seconds and has a
 * minimum: the caller gets the granted time.
 */
import { type Done, RemusterError, failure, success } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeOptions,
  type RangeResult,
  type Registry,
  type WatchStart,
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
import { callInMicrotask } from '../system/callback.ts';
import { decodeRange } from './transaction-tree.ts';
import { type EtcdBody, EtcdClient } from './etcd-client.ts';
import type { EtcdOptions } from './etcd-options.ts';
import { EtcdWatch } from './etcd-watch.ts';
import { EtcdCodec, wireNumber, headerOf } from './etcd-codec.ts';
import { IdempotentTransactions } from './idempotent-transaction.ts';
import { EtcdDedupLease, EtcdDedupSlots, newLeaseId } from './dedup-slots.ts';

export type EtcdRegistry = Registry & {
  /** Ends calls in flight with CANCELLED and watches without an event. Leases stay until they expire. */
  close(): void;
};

export function etcdRegistry(options: EtcdOptions): EtcdRegistry {
  const client = new EtcdClient(options);
  const codec = new EtcdCodec(options.namespace);
  const lease = new EtcdDedupLease(
    () => client.nowMs,
    async (id, seconds, deadlineMs) => void (await grant(client, id, seconds, deadlineMs)),
  );
  const transactions = new IdempotentTransactions(client, codec, new EtcdDedupSlots(), lease);
  const watches = new EtcdWatches(client, codec, options);
  const calls = new BoundedCalls(client);
  return {
    range: (range, { limit = registryLimits.rangeLimitMax, timeoutMs, stale = false }: RangeOptions, done) =>
      calls.run(validateRange(range) ?? validateLimit(limit), timeoutMs, done, (deadlineMs) =>
        readRange(client, codec, { range, limit, stale, deadlineMs }),
      ),
    transact: (transaction, { timeoutMs }, done) =>
      calls.run(validateTransaction(transaction), timeoutMs, done, (deadlineMs) =>
        transactions.transact(transaction, deadlineMs),
      ),
    grant: (ttlMs, { timeoutMs }, done) =>
      calls.run(validateTtl(ttlMs), timeoutMs, done, async (deadlineMs) => {
        const id = newLeaseId();
        const seconds = await grant(client, id, Math.ceil(ttlMs / 1_000), deadlineMs);
        return { lease: id as LeaseId, ttlMs: seconds * 1_000 };
      }),
    keepAlive: (lease, { timeoutMs }, done) =>
      calls.run(validateLease(lease), timeoutMs, done, (deadlineMs) => keepAlive(client, lease, deadlineMs)),
    revoke: (lease, { timeoutMs }, done) =>
      calls.run(validateLease(lease), timeoutMs, done, (deadlineMs) => revoke(client, lease, deadlineMs)),
    watch: (range, start, events) => watches.start(range, start, events),
    close: () => {
      watches.close();
      client.close();
    },
  };
}

/** Bounds the calls in flight and reports their results by callback. */
class BoundedCalls {
  readonly #client: EtcdClient;
  #running = 0;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  run<T>(
    invalid: RemusterError | undefined,
    timeoutMs: number | undefined,
    done: Done<T>,
    work: (deadlineMs: number) => Promise<T>,
  ): void {
    const { callsMax } = this.#client.limits;
    if (invalid !== undefined) callInMicrotask(done, { ok: false, error: invalid });
    else if (this.#running >= callsMax)
      callInMicrotask(done, failure('CAPACITY', `${callsMax} calls to etcd are in flight already`));
    else void this.#run(this.#client.deadlineMs(timeoutMs), done, work);
  }

  async #run<T>(deadlineMs: number, done: Done<T>, work: (deadlineMs: number) => Promise<T>): Promise<void> {
    this.#running += 1;
    try {
      const value = await work(deadlineMs);
      callInMicrotask(done, success(value));
    } catch (error) {
      if (error instanceof RemusterError) callInMicrotask(done, { ok: false, error });
      else callInMicrotask(done, failure('INTERNAL', error instanceof Error ? error.message : undefined));
    } finally {
      this.#running -= 1;
    }
  }
}

class EtcdWatches {
  readonly #client: EtcdClient;
  readonly #codec: EtcdCodec;
  readonly #options: EtcdOptions;
  readonly #open = new Set<EtcdWatch>();

  constructor(client: EtcdClient, codec: EtcdCodec, options: EtcdOptions) {
    this.#client = client;
    this.#codec = codec;
    this.#options = options;
  }

  start(range: KeyRange, start: WatchStart, events: Parameters<Registry['watch']>[2]): Cancel {
    const invalid = validateRange(range) ?? validateWatchStart(start);
    if (invalid !== undefined) throw invalid;
    const { watchesMax } = this.#client.limits;
    if (this.#open.size >= watchesMax)
      throw new RemusterError('CAPACITY', `${watchesMax} watches on etcd are open already`);
    const onDisconnect = (reason: string): void => this.#options.log?.('warn', 'etcd.watch-broke', { reason });
    const onEnd = (): void => void this.#open.delete(watch);
    const context = { client: this.#client, codec: this.#codec, range, events, onDisconnect, onEnd };
    const watch = new EtcdWatch(context, start);
    this.#open.add(watch);
    void watch.run();
    return () => watch.cancel();
  }

  close(): void {
    for (const watch of this.#open) watch.cancel();
  }
}

type RangeRequest = {
  readonly range: KeyRange;
  readonly limit: number;
  readonly stale: boolean;
  readonly deadlineMs: number;
};

/** Retries a reply that is too large with an eighth of the limit; the result then has `more`. */
async function readRange(client: EtcdClient, codec: EtcdCodec, request: RangeRequest): Promise<RangeResult> {
  const { range, limit, stale, deadlineMs } = request;
  const body = (): EtcdBody => ({ ...codec.range(range), limit: String(limit), serializable: stale });
  const reply = await client.call({ path: '/v3/kv/range', needsLeader: !stale, isWrite: false, body, deadlineMs });
  if (reply.kind === 'value') return { ...decodeRange(codec, reply.body), ...headerOf(reply.body) };
  if (reply.error.code !== 'TOO_LARGE' || limit === 1) throw reply.error;
  return await readRange(client, codec, { ...request, limit: Math.ceil(limit / 8) });
}

/** Returns the granted seconds. "lease already exists" means that an earlier attempt succeeded: the id is random. */
async function grant(client: EtcdClient, id: string, seconds: number, deadlineMs: number): Promise<number> {
  const body = (): EtcdBody => ({ ID: id, TTL: String(seconds) });
  const reply = await client.call({ path: '/v3/lease/grant', needsLeader: true, isWrite: true, body, deadlineMs });
  if (reply.kind === 'value') return wireNumber(reply.body['TTL']);
  if (!reply.etcdMessage.includes('lease already exists')) throw reply.error;
  const { ttlMs } = await keepAlive(client, id, deadlineMs);
  return ttlMs / 1_000;
}

async function keepAlive(client: EtcdClient, lease: string, deadlineMs: number): Promise<{ readonly ttlMs: number }> {
  const body = (): EtcdBody => ({ ID: lease });
  const reply = await client.call({ path: '/v3/lease/keepalive', needsLeader: true, isWrite: true, body, deadlineMs });
  if (reply.kind === 'refused') throw reply.error;
  const ttlMs = wireNumber(reply.body['TTL']) * 1_000;
  if (ttlMs <= 0) throw new RemusterError('LEASE_EXPIRED', `etcd knows no lease ${lease}`);
  return { ttlMs };
}

async function revoke(client: EtcdClient, lease: string, deadlineMs: number): Promise<void> {
  const body = (): EtcdBody => ({ ID: lease });
  const reply = await client.call({ path: '/v3/lease/revoke', needsLeader: true, isWrite: true, body, deadlineMs });
  if (reply.kind === 'refused' && reply.error.code !== 'LEASE_EXPIRED') throw reply.error;
}
