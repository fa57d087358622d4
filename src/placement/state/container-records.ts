/**
 * Pool and container records. One record per container holds all that changes together, so every change is one
 * compare-and-swap. A malformed record reads as undefined.
 *
 *   no owner --leader assigns--> opening --owner has opened it--> serving --lease of the owner expired--> opening ...
 *                                                                   |  move: copying -> handing -> handed
 *                                                                   +--------------> opening on the destination
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
/** When a write is acknowledged: in memory on every ISR member; on the owner's disk; on the disks of the whole ISR. */
export type PoolDurability = (typeof poolDurabilities)[number];

/** Fixed when the pool is created; never derived from the nodes that are alive. */
export type PoolRecord = {
  /** The number of the pool; never reused, even after the pool is deleted. */
  readonly major: number;
  readonly minor: number;
  readonly module: string;
  /** 0: the module that nodes load from their own configuration. Deployed bundles count from 1. */
  readonly moduleVersion: number;
  readonly containers: number;
  /** Replicas of each container, the owner's included. */
  readonly copies: number;
  readonly durability: PoolDurability;
  /** A container whose owner returns in time is opened there with the callback `restart`, from its own disk. */
  readonly restart: boolean;
  /** Parameters of the module, as JSON. */
  readonly params: unknown;
  readonly state: 'active' | 'deleting';
};

export const activationReasons = ['init', 'restart', 'recover', 'migrate'] as const;
/** Why the owner opens the container; names the callback of the module. */
export type ActivationReason = (typeof activationReasons)[number];

export const moveSteps = ['copying', 'handing', 'handed'] as const;
/**
 * copying: the destination catches up until it is in the ISR. handing: the leader requests the handover, and the owner
 * plugs the container and drains its calls. handed: the owner never serves again under its fence.
 */
export type MoveStep = (typeof moveSteps)[number];

/** What happens during the step, for people. */
export const moveStepTexts: Readonly<Record<MoveStep, string>> = {
  copying: 'copying its state',
  handing: 'finishing its calls',
  handed: 'handed over',
};

export const moveCauses = ['admin', 'drain', 'rebalance', 'spread', 'stop'] as const;
export type ContainerMove = {
  readonly to: NodeId;
  readonly cause: (typeof moveCauses)[number];
  readonly step: MoveStep;
};

const cancelledMove = 'the move to ';

/** The note of a container whose move the leader or the owner has cancelled. */
export function cancelledMoveNote(to: string, reason: string): string {
  return `${cancelledMove}${to} was cancelled: ${reason}`;
}

export function isCancelledMoveNote(note: string): boolean {
  return note.startsWith(cancelledMove);
}

/** A node in one generation: its next process is another instance. */
export type NodeInstance = { readonly node: NodeId; readonly generation: number };

export type ContainerRecord = {
  /** Undefined: no owner; `note` has the reason. */
  readonly owner: NodeInstance | undefined;
  /** (term, count of changes): grows with each new owner, new generation of the owner, and activation. */
  readonly fence: Fence;
  readonly opening: ActivationReason;
  /**
   * serving: the owner has opened it. An unfinished `init` has acknowledged nothing and may restart on another node.
   */
  readonly phase: 'opening' | 'serving';
  /** Nodes that hold its state or are to hold it, the owner first. */
  readonly copies: readonly NodeId[];
  /** The ISR: every member has every acknowledged write. Changed by the owner, which acknowledges after all of them. */
  readonly inSync: readonly NodeInstance[];
  readonly move: ContainerMove | undefined;
  /** Version of the module that the owner is to run. */
  readonly moduleVersion: number;
  /** Consecutive owners that failed to open it; the owner that opens it resets it to 0. */
  readonly failures: number;
  /** `failures` when the leader assigned the present owner: a higher `failures` is a new one. 0 if left out. */
  readonly failuresBefore?: number;
  /** Why it is where it is, as text. */
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
  // Once the container is open, every failure is new.
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
    owner: fields['owner'] === undefined ? undefined : instanceOf(fields['owner']),
    fence: parseFence(strictText(fields['fence'])),
    opening: strictOneOf(activationReasons, fields['opening']),
    phase: strictOneOf(['opening', 'serving'] as const, fields['phase']),
    copies: strictList(fields['copies']).map((node) => parseNodeId(strictText(node))),
    inSync: strictList(fields['inSync']).map(instanceOf),
    move: fields['move'] === undefined ? undefined : moveOf(fields['move']),
    moduleVersion: strictCount(fields['moduleVersion']),
    failures: strictCount(fields['failures']),
    ...(fields['failuresBefore'] === undefined ? {} : { failuresBefore: strictCount(fields['failuresBefore']) }),
    note: strictText(fields['note']),
  }));
}

/** A pool name as a whole value. */
export function encodePoolName(name: string): Uint8Array {
  return encoder.encode(name);
}

/** A number as a whole value, such as the number of a node in address tables. */
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

function instanceOf(value: unknown): NodeInstance {
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
