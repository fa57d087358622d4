/**
 * Transactions that may be sent twice and execute once: each writing branch also writes a dedup mark. If an earlier
 * attempt was executed, its reply is rebuilt from the history of etcd.
 *
 * A branch that only reads is not marked at first, so it creates no revision. Once an attempt is uncertain, all
 * branches are marked: otherwise a late first attempt could still write after a second one has replied "not succeeded".
 */
import {
  type ErrorCode,
  RemusterError,
  isRemusterError,
  withPossibleEffect,
  withStateChanged,
} from '../../base/errors.ts';
import type {
  RegistryOp,
  RegistryOpResult,
  RegistryTransaction,
  TransactionResult,
  RegistryEpoch,
} from '../../base/registry.ts';
import { utf8SortKey } from '../../base/registry-validation.ts';
import { type TxnBranch, type TxnLeaf, txnBranchOf, decodeTxn, decodeRange, encodeTxn } from './transaction-tree.ts';
import type { EtcdBody, EtcdClient } from './etcd-client.ts';
import { type EtcdCodec, type EtcdWireEntry, encodeEtcdBytes, wireNumber, headerOf } from './etcd-codec.ts';
import type { EtcdDedupLease, EtcdDedupSlots, EtcdDedupSlot } from './dedup-slots.ts';

/** A transaction with the parts that are equal in all of its attempts. */
type MarkedTransaction = {
  readonly transaction: RegistryTransaction;
  readonly slot: EtcdDedupSlot;
  readonly dedupKey: string;
  readonly number: number;
  readonly deadlineMs: number;
};

type Mark = { readonly branch: 'then' | 'otherwise'; readonly revision: number };

export class IdempotentTransactions {
  readonly #client: EtcdClient;
  readonly #codec: EtcdCodec;
  readonly #slots: EtcdDedupSlots;
  readonly #lease: EtcdDedupLease;

  constructor(client: EtcdClient, codec: EtcdCodec, slots: EtcdDedupSlots, lease: EtcdDedupLease) {
    this.#client = client;
    this.#codec = codec;
    this.#slots = slots;
    this.#lease = lease;
  }

  async transact(original: RegistryTransaction, deadlineMs: number): Promise<TransactionResult> {
    const transaction = copyTransaction(original);
    if (!writes(transaction.then) && !writes(transaction.otherwise)) return await this.#read(transaction, deadlineMs);
    const slot = this.#slots.take();
    const dedupKey = this.#codec.dedupKey(this.#slots.session, slot.index);
    try {
      return await this.#run({ transaction, slot, dedupKey, number: this.#slots.nextNumber(), deadlineMs });
    } finally {
      this.#slots.release(slot);
    }
  }

  async #read(transaction: RegistryTransaction, deadlineMs: number): Promise<TransactionResult> {
    const leaf = (name: 'then' | 'otherwise'): TxnLeaf => ({
      kind: 'leaf',
      name,
      mark: undefined,
      ops: transaction[name],
    });
    const tree = txnBranchOf(this.#codec, transaction, leaf('then'), leaf('otherwise'));
    const body = encodeTxn(this.#codec, tree);
    const reply = await this.#client.call({ ...txnCall, isWrite: false, body: () => body, deadlineMs });
    if (reply.kind === 'refused') throw reply.error;
    const { leaf: reached, results } = decodeTxn(this.#codec, tree, reply.body);
    return { succeeded: reached.name === 'then', ...headerOf(reply.body), results };
  }

  async #run(marked: MarkedTransaction): Promise<TransactionResult> {
    let mayHaveHappened = false;
    for (;;) {
      const lease = await this.#dedupLease(marked.deadlineMs).catch((error: unknown) => {
        throw isRemusterError(error) ? withStateChanged(error, mayHaveHappened ? 'maybe' : 'no') : error;
      });
      let tree = this.#tree(marked, lease, false);
      const body = ({ uncertain }: { readonly uncertain: boolean }): EtcdBody => {
        tree = this.#tree(marked, lease, uncertain);
        return encodeTxn(this.#codec, tree);
      };
      const reply = await this.#client.call({ ...txnCall, isWrite: true, body, deadlineMs: marked.deadlineMs });
      if (reply.kind === 'value') {
        const result = await this.#onReply(marked, tree, reply);
        if (result !== undefined) return result;
      } else if (reply.error.code !== 'LEASE_EXPIRED' || !(await this.#isLeaseLost(lease, marked.deadlineMs))) {
        throw mayHaveHappened ? withPossibleEffect(reply.error) : reply.error;
      } else {
        // The lease may have been alive at an earlier attempt whose reply was lost.
        mayHaveHappened = true;
      }
    }
  }

  #tree({ transaction, slot, dedupKey, number }: MarkedTransaction, lease: string, markAll: boolean): TxnBranch {
    const leaf = (name: 'then' | 'otherwise'): TxnLeaf => {
      const put = { key: dedupKey, value: encodeEtcdBytes(`${number} ${name}`), lease };
      const mark = markAll || writes(transaction[name]) ? { request_put: put } : undefined;
      return { kind: 'leaf', name, mark, ops: transaction[name] };
    };
    const version = { key: dedupKey, target: 'VERSION', result: 'EQUAL', version: String(slot.version) };
    const isUnconditional = transaction.compare.length === 0;
    const yes = isUnconditional ? leaf('then') : txnBranchOf(this.#codec, transaction, leaf('then'), leaf('otherwise'));
    const no: TxnLeaf = { kind: 'leaf', name: 'marked', mark: { request_range: { key: dedupKey } }, ops: [] };
    return { kind: 'branch', compare: [version], yes, no };
  }

  /** Undefined: the slot had another version, so nothing was executed. The version is known now: retry. */
  async #onReply(
    marked: MarkedTransaction,
    tree: TxnBranch,
    reply: { readonly body: EtcdBody; readonly uncertain: boolean },
  ): Promise<TransactionResult | undefined> {
    const { slot } = marked;
    const { leaf, results, markReply } = decodeTxn(this.#codec, tree, reply.body);
    if (leaf.name !== 'marked') {
      if (leaf.mark !== undefined) slot.version += 1;
      return { succeeded: leaf.name === 'then', ...headerOf(reply.body), results };
    }
    const [entry] = ((markReply?.['response_range'] as EtcdBody | undefined)?.['kvs'] ??
      []) as readonly EtcdWireEntry[];
    slot.version = wireNumber(entry?.version);
    const [number, branch] = Buffer.from(entry?.value ?? '', 'base64')
      .toString('utf8')
      .split(' ');
    if (Number(number) === marked.number) {
      const mark: Mark = {
        branch: branch === 'then' ? 'then' : 'otherwise',
        revision: wireNumber(entry?.mod_revision),
      };
      return await this.#rebuildReply(marked, mark, headerOf(reply.body).epoch);
    }
    if (entry === undefined && reply.uncertain) {
      const text = 'the transaction may have happened: another etcd client has removed its mark';
      throw new RemusterError('DEADLINE', text);
    }
    return undefined;
  }

  /** The reply of an earlier attempt that was executed and whose reply was lost. */
  async #rebuildReply(
    { transaction, deadlineMs }: MarkedTransaction,
    { branch, revision }: Mark,
    epoch: RegistryEpoch,
  ): Promise<TransactionResult> {
    const ops = transaction[branch];
    const results: RegistryOpResult[] = [];
    for (const [index, op] of ops.entries()) {
      if (op.kind === 'put') results.push({ kind: 'put' });
      else results.push(await this.#readAt(op, revisionSeen(ops, index, revision), deadlineMs));
    }
    return { succeeded: branch === 'then', epoch, revision, results };
  }

  async #readAt(
    op: Exclude<RegistryOp, { kind: 'put' }>,
    revision: number | undefined,
    deadlineMs: number,
  ): Promise<RegistryOpResult> {
    const bound = op.kind === 'read' ? { limit: String(op.limit) } : { count_only: true };
    const request = { ...this.#codec.range(op.range), ...bound, revision: String(revision) };
    const call = { path: '/v3/kv/range', needsLeader: true, isWrite: false, body: () => request, deadlineMs };
    const reply = revision === undefined ? undefined : await this.#client.call(call);
    if (reply?.kind !== 'value') {
      const text = 'the transaction has happened, but its reply was lost and cannot be rebuilt';
      throw new RemusterError('DEADLINE', text);
    }
    if (op.kind === 'delete') return { kind: 'delete', deleted: wireNumber(reply.body['count']) };
    return { kind: 'read', ...decodeRange(this.#codec, reply.body) };
  }

  /** The lease of the marks. A shared grant may fail with the earlier deadline of another call: then retry. */
  async #dedupLease(deadlineMs: number): Promise<string> {
    let lastError = new RemusterError('NO_QUORUM', 'etcd granted no lease in time, and nothing was written', 'no');
    while (this.#client.nowMs < deadlineMs) {
      if (this.#lease.current !== undefined) return this.#lease.current;
      const timeout = this.#client.delay(deadlineMs - this.#client.nowMs);
      const granted = await Promise.race([this.#lease.acquire(deadlineMs), timeout]).catch((error: unknown) => {
        if (!(error instanceof RemusterError) || !timeoutCodes.includes(error.code)) throw error;
        // DEADLINE says that the grant is uncertain; the transaction itself was not sent.
        if (error.code !== 'DEADLINE') lastError = error;
      });
      if (granted !== undefined) return granted;
    }
    throw lastError;
  }

  async #isLeaseLost(id: string, deadlineMs: number): Promise<boolean> {
    const body = (): EtcdBody => ({ ID: id });
    const call = { path: '/v3/lease/timetolive', needsLeader: true, isWrite: false, body, deadlineMs };
    const reply = await this.#client.call(call);
    const isLost = reply.kind === 'value' && Number(reply.body['TTL'] ?? 0) < 0;
    if (isLost) this.#lease.markLost(id);
    return isLost;
  }
}

/** Errors of a call that has retried until its deadline. */
const timeoutCodes: readonly ErrorCode[] = ['DEADLINE', 'NO_QUORUM', 'UNREACHABLE'];

const txnCall = { path: '/v3/kv/txn', needsLeader: true } as const;

/** Copies the values: the caller may reuse its arrays as soon as its call has returned. */
function copyTransaction(transaction: RegistryTransaction): RegistryTransaction {
  const branch = (ops: readonly RegistryOp[]): readonly RegistryOp[] =>
    ops.map((op) => (op.kind === 'put' ? { ...op, value: new Uint8Array(op.value) } : op));
  const compare = transaction.compare.map((comparison) =>
    comparison.target === 'value' ? { ...comparison, than: new Uint8Array(comparison.than) } : comparison,
  );
  return { compare, then: branch(transaction.then), otherwise: branch(transaction.otherwise) };
}

function writes(ops: readonly RegistryOp[]): boolean {
  return ops.some((op) => op.kind !== 'read');
}

/**
 * The revision at which a read returns what the operation saw. An operation sees the earlier writes of its branch, not
 * the later ones: the previous revision if no earlier write overlaps, the own revision if no later one does, otherwise
 * undefined.
 */
function revisionSeen(ops: readonly RegistryOp[], index: number, revision: number): number | undefined {
  const own = ops[index] as RegistryOp;
  const touches = (op: RegistryOp): boolean => op.kind !== 'read' && overlap(op, own);
  if (!ops.slice(0, index).some(touches)) return revision - 1;
  return own.kind === 'read' && !ops.slice(index).some(touches) ? revision : undefined;
}

function overlap(a: RegistryOp, b: RegistryOp): boolean {
  const [aFrom, aTo] = bounds(a);
  const [bFrom, bTo] = bounds(b);
  return aFrom < bTo && bFrom < aTo;
}

function bounds(op: RegistryOp): readonly [string, string] {
  if (op.kind === 'put') return [utf8SortKey(op.key), utf8SortKey(`${op.key}\0`)];
  return [utf8SortKey(op.range.from), utf8SortKey(op.range.to)];
}
