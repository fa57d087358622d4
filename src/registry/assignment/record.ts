/**
 * What the registry says about an assignment: a thing (pool, container) that belongs to one node or waits for one. Its
 * key says where it is, the record beside it why, and what was wished for it. A move is two steps, and the record of
 * the first one is the mark `releasing`: the owner keeps the assignment until it has let go of it and says so itself.
 *
 *   /cluster/unassigned/P/C  --- the leader gives it ------------------>  /cluster/nodes/N/P/C
 *              ^                                                                   |  the leader marks `releasing`
 *              |                                                                   v
 *              +------ N has released it, or N is no longer registered  <---  /cluster/nodes/N/P/C
 *
 * Records are small JSON with a version. One that cannot be read is taken as a record without wishes: what it is about
 * stands in the key, and nothing may be lost because of a word that an older version does not know.
 */
import { type NodeId, parseNodeId } from '../../base/ids.ts';
import type { ContainerName } from '../cluster-keys.ts';

/** What its creator wishes. */
export type AssignmentHint = {
  readonly preferred: NodeId | undefined;
  /** How heavy it is, compared with others. */
  readonly weight: number;
};

export const moveReasons = ['created', 'lost', 'drain', 'rebalance', 'bounced', 'take_failed'] as const;
export type MoveReason = (typeof moveReasons)[number];

export type Releasing = { readonly reason: MoveReason; readonly to: NodeId | undefined };

/** Below a node: it is the owner, also while `releasing` asks it to let go. */
export type AssignedRecord = {
  readonly hint: AssignmentHint;
  readonly releasing: Releasing | undefined;
  /** How many nodes in a row could not take it. */
  readonly attempts: number;
};

/** Below `unassigned`: nobody holds it. */
export type UnassignedRecord = {
  readonly hint: AssignmentHint;
  readonly reason: MoveReason;
  /** Who held it last, and who is to have it next. */
  readonly from: NodeId | undefined;
  readonly to: NodeId | undefined;
  readonly attempts: number;
};

export const noHint: AssignmentHint = { preferred: undefined, weight: 1 };

const version = 1;
const weightMax = 1_000_000;
const attemptsMax = 1_000;
const text = new TextEncoder();

export function nameText({ pool, container }: ContainerName): string {
  return `${pool}/${container}`;
}

export function encodeAssigned(record: AssignedRecord): Uint8Array {
  return text.encode(JSON.stringify({ v: version, ...record }));
}

export function encodeUnassigned(record: UnassignedRecord): Uint8Array {
  return text.encode(JSON.stringify({ v: version, ...record }));
}

export function decodeAssigned(value: Uint8Array): AssignedRecord {
  const fields = fieldsOf(value);
  const releasing = fieldsIn(fields?.['releasing']);
  return {
    hint: hintOf(fields),
    releasing: releasing && { reason: reasonOf(releasing['reason'], 'rebalance'), to: nodeOf(releasing['to']) },
    attempts: attemptsOf(fields),
  };
}

export function decodeUnassigned(value: Uint8Array): UnassignedRecord {
  const fields = fieldsOf(value);
  return {
    hint: hintOf(fields),
    reason: reasonOf(fields?.['reason'], 'created'),
    from: nodeOf(fields?.['from']),
    to: nodeOf(fields?.['to']),
    attempts: attemptsOf(fields),
  };
}

export type Fields = Readonly<Record<string, unknown>>;

/** Undefined for anything that is not a JSON object. */
export function fieldsOf(value: Uint8Array): Fields | undefined {
  try {
    return fieldsIn(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value)));
  } catch {
    return undefined;
  }
}

export function numberIn(value: unknown, from: number, to: number): number | undefined {
  return typeof value === 'number' && value >= from && value <= to ? value : undefined;
}

function fieldsIn(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function hintOf(fields: Fields | undefined): AssignmentHint {
  const hint = fieldsIn(fields?.['hint']);
  return { preferred: nodeOf(hint?.['preferred']), weight: numberIn(hint?.['weight'], 0, weightMax) ?? noHint.weight };
}

function attemptsOf(fields: Fields | undefined): number {
  return Math.floor(numberIn(fields?.['attempts'], 0, attemptsMax) ?? 0);
}

function reasonOf(value: unknown, otherwise: MoveReason): MoveReason {
  return moveReasons.find((reason) => reason === value) ?? otherwise;
}

function nodeOf(value: unknown): NodeId | undefined {
  try {
    return typeof value === 'string' ? parseNodeId(value) : undefined;
  } catch {
    return undefined;
  }
}
