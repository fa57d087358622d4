/**
 * Pool and container records. One record per container holds all that changes together, so every change is one
 * compare-and-swap. A bad record reads as undefined.
 *
 *   nobody --the leader gives it--> opening --the owner has opened--> serving --its owner is surely gone--> opening ...
 *                                                                       |  move: copying -> handing -> handed
 *                                                                       +--------------------------------> opening elsewhere
 */
import { type Fence, parseFence } from '../../base/fence.ts';
import { type NodeId, parseNodeId } from '../../base/ids.ts';
import {
  readRecord,
  strictCount,
  strictFields,
  strictList,
  strictOneOf,
  strictText,
} from '../../registry/json-record.ts';

export const poolDurabilities = ['memory', 'local', 'copies'] as const;
/** When a write is acknowledged: held by every copy in memory, by the owner's disk, by the disks of all copies in sync. */
export type PoolDurability = (typeof poolDurabilities)[number];

/** Decided once, when the pool is created, and never computed again from who happens to be alive. */
export type PoolRecord = {
  /** The pool's number: never given to another pool, also after this one is deleted. */
  readonly major: number;
  readonly minor: number;
  readonly module: string;
  /** 0 is what nodes load from their own configuration; deployed bundles count from 1. */
  readonly moduleVersion: number;
  readonly containers: number;
  /** Of the state of each container, the owner's included. */
  readonly copies: number;
  readonly durability: PoolDurability;
  /** Comes back from the disk of the same node with `restart`, when that node returns in time. */
  readonly restart: boolean;
  /** For the module; JSON. */
  readonly params: unknown;
  readonly state: 'active' | 'deleting';
};

export const activationReasons = ['init', 'restart', 'recover', 'migrate'] as const;
/** Why the owner opens the container, which is the callback that the module gets. */
export type ActivationReason = (typeof activationReasons)[number];

export const moveSteps = ['copying', 'handing', 'handed'] as const;
/**
 * copying: the destination is being brought into the set of copies in sync. handing: the leader asks the owner to plug,
 * drain and let go. handed: the owner has, and will not serve again under its fence.
 */
export type MoveStep = (typeof moveSteps)[number];

export const moveCauses = ['admin', 'drain', 'rebalance', 'spread'] as const;
export type ContainerMove = {
  readonly to: NodeId;
  readonly cause: (typeof moveCauses)[number];
  readonly step: MoveStep;
};

/** One life of a node. */
export type NodeInstance = { readonly node: NodeId; readonly generation: number };

export type ContainerRecord = {
  /** Undefined: nobody owns it; why stands in `note`. */
  readonly owner: NodeInstance | undefined;
  /** (term, count of changes): rises with each change of owner, life of the owner, or opening. */
  readonly fence: Fence;
  readonly opening: ActivationReason;
  /** The owner has opened it. An `init` that has not ended has acknowledged nothing, and may be begun elsewhere. */
  readonly phase: 'opening' | 'serving';
  /** Who is to hold its state, the owner first. */
  readonly copies: readonly NodeId[];
  /** Who has every acknowledged write. The owner adds and removes, and waits for all of them before it acknowledges. */
  readonly inSync: readonly NodeInstance[];
  readonly move: ContainerMove | undefined;
  /** Of the module that the owner is to run. */
  readonly moduleVersion: number;
  /** Owners in a row that could not open it: each that fails adds one, the one that opens it sets it to 0. */
  readonly failures: number;
  /** As many as there were when the present owner got it: the leader's, so that it sees a new one. 0 if left out. */
  readonly failuresBefore?: number;
  /** Why it is where it is; for people. */
  readonly note: string;
};

const noteCharactersMax = 300;
const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodePool(record: PoolRecord): Uint8Array {
  return encoder.encode(JSON.stringify(record));
}

export function encodeContainer(record: ContainerRecord): Uint8Array {
  const { fence, note, failuresBefore, ...rest } = record;
  // Who has opened it has none behind it: whatever fails from here on is new.
  const before = record.phase === 'opening' && failuresBefore !== undefined ? { failuresBefore } : {};
  const texts = { fence: String(fence), note: note.slice(0, noteCharactersMax) };
  return encoder.encode(JSON.stringify({ ...rest, ...before, ...texts }));
}

export function readPool(value: Uint8Array): PoolRecord | undefined {
  return readRecord(value, (fields) => ({
    major: strictCount(fields['major']),
    minor: strictCount(fields['minor']),
    module: strictText(fields['module']),
    moduleVersion: strictCount(fields['moduleVersion']),
    containers: strictCount(fields['containers']),
    copies: strictCount(fields['copies']),
    durability: strictOneOf(poolDurabilities, fields['durability']),
    restart: fields['restart'] === true,
    params: fields['params'] ?? null,
    state: strictOneOf(['active', 'deleting'] as const, fields['state']),
  }));
}

export function readContainer(value: Uint8Array): ContainerRecord | undefined {
  return readRecord(value, (fields) => ({
    owner: fields['owner'] === undefined ? undefined : holder(fields['owner']),
    fence: parseFence(strictText(fields['fence'])),
    opening: strictOneOf(activationReasons, fields['opening']),
    phase: strictOneOf(['opening', 'serving'] as const, fields['phase']),
    copies: strictList(fields['copies']).map((node) => parseNodeId(strictText(node))),
    inSync: strictList(fields['inSync']).map(holder),
    move: fields['move'] === undefined ? undefined : moveOf(fields['move']),
    moduleVersion: strictCount(fields['moduleVersion']),
    failures: strictCount(fields['failures']),
    ...(fields['failuresBefore'] === undefined ? {} : { failuresBefore: strictCount(fields['failuresBefore']) }),
    note: strictText(fields['note']),
  }));
}

/** A name that stands alone, for people to read. */
export function encodePoolName(name: string): Uint8Array {
  return encoder.encode(name);
}

/** A number that stands alone, such as that of a node in address tables. */
export function encodeNodeNumber(value: number): Uint8Array {
  return encoder.encode(String(value));
}

export function readNodeNumber(value: Uint8Array): number | undefined {
  try {
    const digits = decoder.decode(value);
    return /^\d{1,15}$/.test(digits) ? Number(digits) : undefined;
  } catch {
    return undefined;
  }
}

function holder(value: unknown): NodeInstance {
  const { node, generation } = strictFields(value);
  return { node: parseNodeId(strictText(node)), generation: strictCount(generation) };
}

function moveOf(value: unknown): ContainerMove {
  const { to, cause, step } = strictFields(value);
  return {
    to: parseNodeId(strictText(to)),
    cause: strictOneOf(moveCauses, cause),
    step: strictOneOf(moveSteps, step),
  };
}
