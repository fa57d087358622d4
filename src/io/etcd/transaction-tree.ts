/**
 * A transaction as a tree of etcd comparisons, for conditions that one list cannot say. The tree that encodes the
 * request decodes the reply, so each leaf gets its own results.
 */
import type { RegistryOp, RegistryOpResult, RegistryTransaction } from '../../base/registry.ts';
import { type EtcdCodec, type EtcdWireEntry, encodeBase64, wireNumber } from './etcd-codec.ts';

type Wire = Readonly<Record<string, unknown>>;

/** `mark`: an operation of ours that stands before those of the caller. */
export type TxnLeaf = {
  readonly kind: 'leaf';
  readonly name: 'then' | 'otherwise' | 'marked';
  readonly mark: Wire | undefined;
  readonly ops: readonly RegistryOp[];
};

export type TxnBranch = {
  readonly kind: 'choice';
  readonly compare: readonly Wire[];
  readonly yes: TxnTree;
  readonly no: TxnTree;
};

export type TxnTree = TxnLeaf | TxnBranch;

export type TxnResult = {
  readonly leaf: TxnLeaf;
  readonly results: readonly RegistryOpResult[];
  /** What the mark of that leaf answered. */
  readonly markAnswer: Wire | undefined;
};

type WireTransaction = { readonly succeeded?: boolean; readonly responses?: readonly Wire[] };

/**
 * The caller's comparisons with a leaf for each end. etcd adds up the longest list of each level against its bound of
 * 128, so "not equal" comes first, in levels of one, and the long lists stand side by side in the last level.
 */
export function txnBranchOf(
  words: EtcdCodec,
  { compare }: RegistryTransaction,
  then: TxnLeaf,
  otherwise: TxnLeaf,
): TxnBranch {
  const isNegative = (one: RegistryTransaction['compare'][number]): boolean =>
    one.target === 'value' && one.is === 'notEqual';
  const positive = compare.filter((one) => !isNegative(one)).map((one) => words.compare(one));
  let choice: TxnBranch = { kind: 'choice', compare: positive, yes: then, no: otherwise };
  for (const one of compare.filter(isNegative)) {
    const equal = { ...words.compare(one), result: 'EQUAL' };
    choice = { kind: 'choice', compare: [equal], yes: always(otherwise), no: choice };
  }
  return choice;
}

function always(leaf: TxnLeaf): TxnBranch {
  return { kind: 'choice', compare: [], yes: leaf, no: { ...leaf, mark: undefined, ops: [] } };
}

export function encodeTxn(words: EtcdCodec, { compare, yes, no }: TxnBranch): Wire {
  return { compare, success: encodeTree(words, yes), failure: encodeTree(words, no) };
}

function encodeTree(words: EtcdCodec, tree: TxnTree): readonly Wire[] {
  if (tree.kind === 'choice') return [{ request_txn: encodeTxn(words, tree) }];
  const ops = tree.ops.map((op) => encodeOp(words, op));
  return tree.mark === undefined ? ops : [tree.mark, ...ops];
}

function encodeOp(words: EtcdCodec, op: RegistryOp): Wire {
  if (op.kind === 'put') {
    const lease = op.lease === undefined ? {} : { lease: op.lease };
    return { request_put: { key: words.key(op.key), value: encodeBase64(op.value), ...lease } };
  }
  if (op.kind === 'delete') return { request_delete_range: words.range(op.range) };
  return { request_range: { ...words.range(op.range), limit: String(op.limit) } };
}

export function decodeTxn(words: EtcdCodec, choice: TxnBranch, wire: WireTransaction): TxnResult {
  const taken = wire.succeeded === true ? choice.yes : choice.no;
  const responses = wire.responses ?? [];
  if (taken.kind === 'choice') return decodeTxn(words, taken, inner(responses[0]));
  const own = taken.mark === undefined ? responses : responses.slice(1);
  const results = taken.ops.map((op, index) => decodeOp(words, op, own[index] ?? {}));
  return { leaf: taken, results, markAnswer: taken.mark === undefined ? undefined : responses[0] };
}

function inner(response: Wire | undefined): WireTransaction {
  return response?.['response_txn'] ?? {};
}

function decodeOp(words: EtcdCodec, op: RegistryOp, response: Wire): RegistryOpResult {
  if (op.kind === 'put') return { kind: 'put' };
  if (op.kind === 'delete') {
    const { deleted } = (response['response_delete_range'] ?? {}) as { deleted?: string };
    return { kind: 'delete', deleted: wireNumber(deleted) };
  }
  return { kind: 'read', ...decodeRange(words, (response['response_range'] ?? {}) as Wire) };
}

export function decodeRange(
  words: EtcdCodec,
  wire: Wire,
): { entries: ReturnType<EtcdCodec['entry']>[]; more: boolean } {
  const entries = ((wire['kvs'] ?? []) as readonly EtcdWireEntry[]).map((one) => words.entry(one));
  return { entries, more: wire['more'] === true };
}
