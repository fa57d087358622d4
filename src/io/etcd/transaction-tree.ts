/**
 * A transaction as a tree of etcd comparisons, for conditions that one list of comparisons cannot express. The tree
 * that encodes the request also decodes the reply, so each leaf gets its own results.
 */
import type { RegistryOp, RegistryOpResult, RegistryTransaction } from '../../base/registry.ts';
import { type EtcdCodec, type EtcdWireEntry, encodeEtcdBytes, wireNumber } from './etcd-codec.ts';

type Wire = Readonly<Record<string, unknown>>;

/** `mark` is an operation on the dedup slot, before those of the caller. */
export type TxnLeaf = {
  readonly kind: 'leaf';
  readonly name: 'then' | 'otherwise' | 'marked';
  readonly mark: Wire | undefined;
  readonly ops: readonly RegistryOp[];
};

export type TxnBranch = {
  readonly kind: 'branch';
  readonly compare: readonly Wire[];
  readonly yes: TxnTree;
  readonly no: TxnTree;
};

export type TxnTree = TxnLeaf | TxnBranch;

export type TxnResult = {
  readonly leaf: TxnLeaf;
  readonly results: readonly RegistryOpResult[];
  /** Reply of the mark of that leaf. */
  readonly markReply: Wire | undefined;
};

type WireTransaction = { readonly succeeded?: boolean; readonly responses?: readonly Wire[] };

/**
 * The comparisons of the caller, with a leaf for each result. etcd limits the sum over the levels of the longest list
 * of each level to 128, so each "not equal" is a level of one, and the other comparisons are one list in the last
 * level.
 */
export function txnBranchOf(
  codec: EtcdCodec,
  { compare }: RegistryTransaction,
  then: TxnLeaf,
  otherwise: TxnLeaf,
): TxnBranch {
  const isNegative = ({ target, is }: RegistryTransaction['compare'][number]): boolean =>
    target === 'value' && is === 'notEqual';
  const positive = compare.filter((comparison) => !isNegative(comparison)).map((one) => codec.compare(one));
  let branch: TxnBranch = { kind: 'branch', compare: positive, yes: then, no: otherwise };
  for (const comparison of compare.filter(isNegative)) {
    const equal = { ...codec.compare(comparison), result: 'EQUAL' };
    branch = { kind: 'branch', compare: [equal], yes: always(otherwise), no: branch };
  }
  return branch;
}

/** A branch without comparisons always takes `yes`. */
function always(leaf: TxnLeaf): TxnBranch {
  return { kind: 'branch', compare: [], yes: leaf, no: { ...leaf, mark: undefined, ops: [] } };
}

export function encodeTxn(codec: EtcdCodec, { compare, yes, no }: TxnBranch): Wire {
  return { compare, success: encodeTree(codec, yes), failure: encodeTree(codec, no) };
}

function encodeTree(codec: EtcdCodec, tree: TxnTree): readonly Wire[] {
  if (tree.kind === 'branch') return [{ request_txn: encodeTxn(codec, tree) }];
  const ops = tree.ops.map((op) => encodeOp(codec, op));
  return tree.mark === undefined ? ops : [tree.mark, ...ops];
}

function encodeOp(codec: EtcdCodec, op: RegistryOp): Wire {
  if (op.kind === 'put') {
    const lease = op.lease === undefined ? {} : { lease: op.lease };
    return { request_put: { key: codec.key(op.key), value: encodeEtcdBytes(op.value), ...lease } };
  }
  if (op.kind === 'delete') return { request_delete_range: codec.range(op.range) };
  return { request_range: { ...codec.range(op.range), limit: String(op.limit) } };
}

export function decodeTxn(codec: EtcdCodec, branch: TxnBranch, wire: WireTransaction): TxnResult {
  const taken = wire.succeeded === true ? branch.yes : branch.no;
  const responses = wire.responses ?? [];
  if (taken.kind === 'branch') return decodeTxn(codec, taken, inner(responses[0]));
  const own = taken.mark === undefined ? responses : responses.slice(1);
  const results = taken.ops.map((op, index) => decodeOp(codec, op, own[index] ?? {}));
  return { leaf: taken, results, markReply: taken.mark === undefined ? undefined : responses[0] };
}

function inner(response: Wire | undefined): WireTransaction {
  return response?.['response_txn'] ?? {};
}

function decodeOp(codec: EtcdCodec, op: RegistryOp, response: Wire): RegistryOpResult {
  if (op.kind === 'put') return { kind: 'put' };
  if (op.kind === 'delete') {
    const { deleted } = (response['response_delete_range'] ?? {}) as { deleted?: string };
    return { kind: 'delete', deleted: wireNumber(deleted) };
  }
  return { kind: 'read', ...decodeRange(codec, (response['response_range'] ?? {}) as Wire) };
}

export function decodeRange(
  codec: EtcdCodec,
  wire: Wire,
): { entries: ReturnType<EtcdCodec['entry']>[]; more: boolean } {
  const entries = ((wire['kvs'] ?? []) as readonly EtcdWireEntry[]).map((one) => codec.entry(one));
  return { entries, more: wire['more'] === true };
}
