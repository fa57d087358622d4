/**
 * Transactions that may be sent twice and execute once: each writing branch also writes a dedup mark. The reply of an
 * earlier attempt is rebuilt.
 *
 * A branch that only reads is not marked at first, so it raises no revision. Once an attempt is in doubt, all branches
 * are: otherwise a late first attempt could still write after a second one has told the caller "not succeeded".
 */
import { type ErrorCode, RemusterError } from '../../base/errors.ts';
import type { RegistryOp, RegistryOpResult, RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import { utf8SortKey } from '../../base/registry-validation.ts';
import { type TxnBranch, type TxnLeaf, txnBranchOf, decodeTxn, decodeRange, encodeTxn } from './transaction-tree.ts';
import type { EtcdBody, EtcdClient } from './etcd-client.ts';
import { type EtcdCodec, type EtcdWireEntry, encodeBase64, wireNumber, headerRevision } from './etcd-codec.ts';
import type { EtcdDedupLease, EtcdDedupSlots, EtcdDedupSlot } from './dedup-slots.ts';

/** One transaction on its way: what does not change between attempts. */
type TransactionAttempt = {
  readonly transaction: RegistryTransaction;
  readonly slot: EtcdDedupSlot;
  readonly guardKey: string;
  readonly number: number;
  readonly deadlineMs: number;
};

type Mark = { readonly branch: 'then' | 'otherwise'; readonly revision: number };

export class IdempotentTransactions {
  readonly #client: EtcdClient;
  readonly #words: EtcdCodec;
  readonly #slots: EtcdDedupSlots;
  readonly #lease: EtcdDedupLease;

  constructor(client: EtcdClient, words: EtcdCodec, slots: EtcdDedupSlots, lease: EtcdDedupLease) {
    this.#client = client;
    this.#words = words;
    this.#slots = slots;
    this.#lease = lease;
  }

  async transact(asked: RegistryTransaction, deadlineMs: number): Promise<TransactionResult> {
    const transaction = ownCopy(asked);
    if (!writes(transaction.then) && !writes(transaction.otherwise)) return await this.#read(transaction, deadlineMs);
    const slot = this.#slots.take();
    const guardKey = this.#words.dedupKey(this.#slots.session, slot.index);
    try {
      return await this.#run({ transaction, slot, guardKey, number: this.#slots.nextNumber(), deadlineMs });
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
    const tree = txnBranchOf(this.#words, transaction, leaf('then'), leaf('otherwise'));
    const body = encodeTxn(this.#words, tree);
    const reply = await this.#client.call({ ...txnCall, isWrite: false, body: () => body, deadlineMs });
    if (reply.kind === 'refused') throw reply.error;
    const { leaf: reached, results } = decodeTxn(this.#words, tree, reply.body);
    return { succeeded: reached.name === 'then', revision: headerRevision(reply.body), results };
  }

  async #run(journey: TransactionAttempt): Promise<TransactionResult> {
    for (;;) {
      const lease = await this.#guardLease(journey.deadlineMs);
      let tree = this.#tree(journey, lease, false);
      const body = ({ uncertain }: { readonly uncertain: boolean }): EtcdBody => {
        tree = this.#tree(journey, lease, uncertain);
        return encodeTxn(this.#words, tree);
      };
      const reply = await this.#client.call({ ...txnCall, isWrite: true, body, deadlineMs: journey.deadlineMs });
      if (reply.kind === 'value') {
        const result = await this.#arrived(journey, tree, reply);
        if (result !== undefined) return result;
      } else if (reply.error.code !== 'LEASE_EXPIRED' || !(await this.#guardIsLost(lease, journey.deadlineMs))) {
        throw reply.error;
      }
    }
  }

  #tree({ transaction, slot, guardKey, number }: TransactionAttempt, lease: string, markAll: boolean): TxnBranch {
    const leaf = (name: 'then' | 'otherwise'): TxnLeaf => {
      const put = { key: guardKey, value: encodeBase64(`${number} ${name}`), lease };
      const mark = markAll || writes(transaction[name]) ? { request_put: put } : undefined;
      return { kind: 'leaf', name, mark, ops: transaction[name] };
    };
    const version = { key: guardKey, target: 'VERSION', result: 'EQUAL', version: String(slot.version) };
    const isPlain = transaction.compare.length === 0;
    const yes = isPlain ? leaf('then') : txnBranchOf(this.#words, transaction, leaf('then'), leaf('otherwise'));
    const no: TxnLeaf = { kind: 'leaf', name: 'marked', mark: { request_range: { key: guardKey } }, ops: [] };
    return { kind: 'choice', compare: [version], yes, no };
  }

  /** Undefined: the slot was not in the state we believed, and nothing was done; it is now, so try again. */
  async #arrived(
    journey: TransactionAttempt,
    tree: TxnBranch,
    reply: { readonly body: EtcdBody; readonly uncertain: boolean },
  ): Promise<TransactionResult | undefined> {
    const { slot } = journey;
    const { leaf, results, markAnswer } = decodeTxn(this.#words, tree, reply.body);
    if (leaf.name !== 'marked') {
      if (leaf.mark !== undefined) slot.version += 1;
      return { succeeded: leaf.name === 'then', revision: headerRevision(reply.body), results };
    }
    const [guard] = ((markAnswer?.['response_range'] as EtcdBody | undefined)?.['kvs'] ??
      []) as readonly EtcdWireEntry[];
    slot.version = wireNumber(guard?.version);
    const [number, branch] = Buffer.from(guard?.value ?? '', 'base64')
      .toString('utf8')
      .split(' ');
    if (Number(number) === journey.number) {
      const mark: Mark = {
        branch: branch === 'then' ? 'then' : 'otherwise',
        revision: wireNumber(guard?.mod_revision),
      };
      return await this.#recovered(journey, mark);
    }
    if (guard === undefined && reply.uncertain)
      throw new RemusterError('DEADLINE', 'it may have happened: its mark in etcd was removed by somebody');
    return undefined;
  }

  /** An earlier attempt was executed and its answer lost. */
  async #recovered(
    { transaction, deadlineMs }: TransactionAttempt,
    { branch, revision }: Mark,
  ): Promise<TransactionResult> {
    const ops = transaction[branch];
    const results: RegistryOpResult[] = [];
    for (const [index, op] of ops.entries()) {
      if (op.kind === 'put') results.push({ kind: 'put' });
      else results.push(await this.#seenBy(op, revisionSeen(ops, index, revision), deadlineMs));
    }
    return { succeeded: branch === 'then', revision, results };
  }

  async #seenBy(
    op: Exclude<RegistryOp, { kind: 'put' }>,
    revision: number | undefined,
    deadlineMs: number,
  ): Promise<RegistryOpResult> {
    const bound = op.kind === 'read' ? { limit: String(op.limit) } : { count_only: true };
    const request = { ...this.#words.range(op.range), ...bound, revision: String(revision) };
    const call = { path: '/v3/kv/range', needsLeader: true, isWrite: false, body: () => request, deadlineMs };
    const reply = revision === undefined ? undefined : await this.#client.call(call);
    if (reply?.kind !== 'value')
      throw new RemusterError('DEADLINE', 'it has happened, but its answer was lost and cannot be read again');
    if (op.kind === 'delete') return { kind: 'delete', deleted: wireNumber(reply.body['count']) };
    return { kind: 'read', ...decodeRange(this.#words, reply.body) };
  }

  /** The lease that marks end with. Another call may have asked for it with less time than we have: then we ask again. */
  async #guardLease(deadlineMs: number): Promise<string> {
    let trouble = new RemusterError('NO_QUORUM', 'etcd granted no lease in time, and nothing was written', 'no');
    while (this.#client.nowMs < deadlineMs) {
      if (this.#lease.present !== undefined) return this.#lease.present;
      const tooLate = this.#client.delay(deadlineMs - this.#client.nowMs);
      const granted = await Promise.race([this.#lease.acquire(deadlineMs), tooLate]).catch((error: unknown) => {
        if (!(error instanceof RemusterError) || !triedLong.includes(error.code)) throw error;
        // Only the grant is in doubt then, and not what the caller wants written.
        if (error.code !== 'DEADLINE') trouble = error;
      });
      if (granted !== undefined) return granted;
    }
    throw trouble;
  }

  async #guardIsLost(id: string, deadlineMs: number): Promise<boolean> {
    const body = (): EtcdBody => ({ ID: id });
    const call = { path: '/v3/lease/timetolive', needsLeader: true, isWrite: false, body, deadlineMs };
    const reply = await this.#client.call(call);
    const isLost = reply.kind === 'value' && Number(reply.body['TTL'] ?? 0) < 0;
    if (isLost) this.#lease.markLost(id);
    return isLost;
  }
}

/** Errors that a call ends with after it has tried for all of its time. */
const triedLong: readonly ErrorCode[] = ['DEADLINE', 'NO_QUORUM', 'UNREACHABLE'];

const txnCall = { path: '/v3/kv/txn', needsLeader: true } as const;

/** With bytes of its own: the caller may use its arrays again as soon as its call has returned. */
function ownCopy(transaction: RegistryTransaction): RegistryTransaction {
  const branch = (ops: readonly RegistryOp[]): readonly RegistryOp[] =>
    ops.map((op) => (op.kind === 'put' ? { ...op, value: new Uint8Array(op.value) } : op));
  const compare = transaction.compare.map((one) =>
    one.target === 'value' ? { ...one, than: new Uint8Array(one.than) } : one,
  );
  return { compare, then: branch(transaction.then), otherwise: branch(transaction.otherwise) };
}

function writes(ops: readonly RegistryOp[]): boolean {
  return ops.some((op) => op.kind !== 'read');
}

/**
 * Where in history an operation can be seen again. What the branch wrote before it, it saw; what came after, not. So
 * it is the revision before, or the revision itself, and undefined if neither shows it alone.
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
