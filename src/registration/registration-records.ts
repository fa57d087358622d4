/**
 * Registration, state and epoch records as JSON. Reading is strict: a bad record is undefined, and undefined never
 * means active.
 */
import type { Identity, Role } from '../base/ports.ts';
import { readRecord, strictCount, strictList, strictOneOf, strictText } from '../registry/json-record.ts';
import { type NodeMode, type StateReason, nodeModes, stateReasons } from './node-modes.ts';

/** Lives as long as the node's lease. */
export type RegistrationRecord = Omit<Identity, 'id'> & { readonly epoch: number };

/** Outlives the node. */
export type NodeStateRecord = {
  readonly mode: NodeMode;
  readonly reason: StateReason;
  /** The life of the node that it is about. */
  readonly generation: number;
  /** The epoch in which the node was last registered, or was found missing. */
  readonly epoch: number;
  /**
   * The leader found the registration gone, waited until a holder with a slow clock must have stopped, and says so here.
   * Only then may what it holds be given to others. A node that is registered and drained has stopped by itself.
   */
  readonly lost: boolean;
  /** For people. */
  readonly sinceWallMs: number;
  /** What the operator gave as the reason; for people. */
  readonly note: string;
};

/** An epoch is a time in which somebody was registered without a gap; `term` is the last leader who found it going on. */
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

export function readEpoch(value: Uint8Array): EpochRecord | undefined {
  return readRecord(value, (fields) => ({ epoch: strictCount(fields['epoch']), term: strictCount(fields['term']) }));
}
