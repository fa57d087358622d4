/**
 * Registration, state and epoch records as JSON. Reading is strict: a malformed record is undefined, and undefined
 * never means active.
 */
import type { Identity, Role } from '../base/ports.ts';
import { readRecord, strictCount, strictList, strictOneOf, strictText } from '../registry/json-record.ts';
import { type NodeMode, type StateReason, nodeModes, stateReasons } from './node-modes.ts';

/** Ends with the lease of the node. */
export type RegistrationRecord = Omit<Identity, 'id'> & { readonly epoch: number };

/** Outlives the registration. */
export type NodeStateRecord = {
  readonly mode: NodeMode;
  readonly reason: StateReason;
  /** The generation of the node that registered last. */
  readonly generation: number;
  /** The epoch in which the node was last registered, or was found missing. */
  readonly epoch: number;
  /**
   * Set by the leader when the registration was gone for so long that even a node with a slow clock has stopped. Only
   * then may the node's containers be taken over; a registered, drained node has stopped by itself.
   */
  readonly lost: boolean;
  /** For operators; no decision rests on it. */
  readonly sinceWallMs: number;
  /** The reason that the operator gave. */
  readonly note: string;
};

/** The process of this generation is stopping. It gets no new containers, and keeps its mode. */
export type StoppingRecord = { readonly generation: number };

/**
 * An epoch is a period in which some node was registered without a gap; `term` is the last term in which a survivor
 * confirmed it.
 */
export type EpochRecord = { readonly epoch: number; readonly term: number };

export const noteCharactersMax = 200;

const roles: readonly Role[] = ['gate', 'manager', 'worker', 'client'];
const textMax = 255;
const encoder = new TextEncoder();

export function encodeRegistrationRecord(record: RegistrationRecord | NodeStateRecord | EpochRecord): Uint8Array {
  return encoder.encode(JSON.stringify(record));
}

export function readRegistration(value: Uint8Array): RegistrationRecord | undefined {
  return readRecord(value, (fields) => ({
    name: strictText(fields['name'], textMax),
    generation: strictCount(fields['generation']),
    host: strictText(fields['host'], textMax),
    port: strictCount(fields['port']),
    roles: strictList(fields['roles'], roles.length).map((role) => strictOneOf(roles, role)),
    dc: strictText(fields['dc'], textMax),
    epoch: strictCount(fields['epoch']),
  }));
}

export function readNodeState(value: Uint8Array): NodeStateRecord | undefined {
  return readRecord(value, (fields) => ({
    mode: strictOneOf(nodeModes, fields['mode']),
    reason: strictOneOf(stateReasons, fields['reason']),
    generation: strictCount(fields['generation']),
    epoch: strictCount(fields['epoch']),
    lost: fields['lost'] === true,
    sinceWallMs: strictCount(fields['sinceWallMs']),
    note: strictText(fields['note'], noteCharactersMax),
  }));
}

export function encodeStopping(record: StoppingRecord): Uint8Array {
  return encoder.encode(JSON.stringify(record));
}

export function readStopping(value: Uint8Array): StoppingRecord | undefined {
  return readRecord(value, (fields) => ({ generation: strictCount(fields['generation']) }));
}

export function readEpoch(value: Uint8Array): EpochRecord | undefined {
  return readRecord(value, (fields) => ({ epoch: strictCount(fields['epoch']), term: strictCount(fields['term']) }));
}
