/**
 * The Registry port on etcd's JSON gateway: checks arguments, bounds calls, translates. Retries, exactly-once and
 * watches live in the files beside it.
 *
 * etcd counts the time of leases in whole seconds and has a minimum of its own: what was granted is reported.
 */
import { type Done, RemusterError, failure, success } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeOptions,
  type RangeResult,
  type Registry,
  registryLimits,
} from '../../base/registry.ts';
import {
  validateLease,
  validateLimit,
  validateRange,
  validateWatchRevision,
  validateTransaction,
  validateTtl,
} from '../../base/registry-validation.ts';
import { callInMicrotask } from '../system/callback.ts';
import { decodeRange } from './transaction-tree.ts';
import { type EtcdBody, EtcdClient } from './etcd-client.ts';
import type { EtcdOptions } from './etcd-options.ts';
import { EtcdWatch } from './etcd-watch.ts';
import { EtcdCodec, wireNumber, headerRevision } from './etcd-codec.ts';
import { IdempotentTransactions } from './idempotent-transaction.ts';
import { EtcdDedupLease, EtcdDedupSlots, newLeaseId } from './dedup-slots.ts';

export type EtcdRegistry = Registry & {
  /** Calls under way end with CANCELLED and watches fall silent. What was granted stays until it expires. */
  close(): void;
};

type Fault = RemusterError | undefined;

export function etcdRegistry(options: EtcdOptions): EtcdRegistry {
  const client = new EtcdClient(options);
  const words = new EtcdCodec(options.namespace);
  const lease = new EtcdDedupLease(
    () => client.nowMs,
    async (id, seconds, deadlineMs) => void (await grant(client, id, seconds, deadlineMs)),
  );
  const transactions = new IdempotentTransactions(client, words, new EtcdDedupSlots(), lease);
  const watches = new EtcdWatches(client, words, options);
  const calls = new BoundedCalls(client);
  return {
    range: (range, { limit = registryLimits.rangeLimitMax, timeoutMs, stale = false }: RangeOptions, done) =>
      calls.run(validateRange(range) ?? validateLimit(limit), timeoutMs, done, (deadlineMs) =>
        readRange(client, words, { range, limit, stale, deadlineMs }),
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
    watch: (range, fromRevision, events) => watches.start(range, fromRevision, events),
    close: () => {
      watches.close();
      client.close();
    },
  };
}

/** Bounds the calls under way and turns their ends into callbacks. */
class BoundedCalls {
  readonly #client: EtcdClient;
  #running = 0;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  run<T>(fault: Fault, timeoutMs: number | undefined, done: Done<T>, work: (deadlineMs: number) => Promise<T>): void {
    if (fault !== undefined) callInMicrotask(done, { ok: false, error: fault });
    else if (this.#running >= this.#client.limits.callsMax)
      callInMicrotask(
        done,
        failure('CAPACITY', `more than ${this.#client.limits.callsMax} calls to etcd are under way`),
      );
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
  readonly #words: EtcdCodec;
  readonly #options: EtcdOptions;
  readonly #open = new Set<EtcdWatch>();

  constructor(client: EtcdClient, words: EtcdCodec, options: EtcdOptions) {
    this.#client = client;
    this.#words = words;
    this.#options = options;
  }

  start(range: KeyRange, fromRevision: number, events: Parameters<Registry['watch']>[2]): Cancel {
    const fault = validateRange(range) ?? validateWatchRevision(fromRevision);
    if (fault !== undefined) throw fault;
    const { watchesMax } = this.#client.limits;
    if (this.#open.size >= watchesMax) throw new RemusterError('CAPACITY', `more than ${watchesMax} watches on etcd`);
    const broke = (reason: string): void => this.#options.log?.('warn', 'etcd.watch-broke', { reason });
    const over = (): void => void this.#open.delete(watch);
    const setting = { client: this.#client, words: this.#words, range, events, broke, over };
    const watch = new EtcdWatch(setting, fromRevision);
    this.#open.add(watch);
    void watch.run();
    return () => watch.cancel();
  }

  close(): void {
    for (const watch of this.#open) watch.cancel();
  }
}

type Reading = {
  readonly range: KeyRange;
  readonly limit: number;
  readonly stale: boolean;
  readonly deadlineMs: number;
};

/** An answer that is too large is asked for again by halves: the caller is told that there is more. */
async function readRange(client: EtcdClient, words: EtcdCodec, reading: Reading): Promise<RangeResult> {
  const { range, limit, stale, deadlineMs } = reading;
  const body = (): EtcdBody => ({ ...words.range(range), limit: String(limit), serializable: stale });
  const reply = await client.call({ path: '/v3/kv/range', needsLeader: !stale, isWrite: false, body, deadlineMs });
  if (reply.kind === 'value') return { ...decodeRange(words, reply.body), revision: headerRevision(reply.body) };
  if (reply.error.code !== 'TOO_LARGE' || limit === 1) throw reply.error;
  return await readRange(client, words, { ...reading, limit: Math.ceil(limit / 8) });
}

/** The seconds that were granted. That there is such a lease already can only mean that our first attempt got through. */
async function grant(client: EtcdClient, id: string, seconds: number, deadlineMs: number): Promise<number> {
  const body = (): EtcdBody => ({ ID: id, TTL: String(seconds) });
  const reply = await client.call({ path: '/v3/lease/grant', needsLeader: true, isWrite: true, body, deadlineMs });
  if (reply.kind === 'value') return wireNumber(reply.body['TTL']);
  if (!reply.etcdSays.includes('lease already exists')) throw reply.error;
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
