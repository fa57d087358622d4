/**
 * Registration, state and epoch records as JSON. Reading is strict: a bad record is undefined, and undefined never
 * means active.
 */
import type { Identity, Role } from '../base/ports.ts';
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
   * Only then may what it holds be given to others. A node that is registered and drained has stopped by itself: what is
   * still assigned to it may be taken at once.
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
  return read(value, (fields) => ({
    name: fields.text('name', textMax),
    generation: fields.count('generation'),
    host: fields.text('host', textMax),
    port: fields.count('port'),
    roles: fields.list('roles').map((role) => oneOf(roles, role)),
    dc: fields.text('dc', textMax),
    epoch: fields.count('epoch'),
  }));
}

export function readNodeState(value: Uint8Array): NodeStateRecord | undefined {
  return read(value, (fields) => ({
    mode: oneOf(nodeModes, fields.any('mode')),
    reason: oneOf(stateReasons, fields.any('reason')),
    generation: fields.count('generation'),
    epoch: fields.count('epoch'),
    lost: fields.any('lost') === true,
    sinceWallMs: fields.count('sinceWallMs'),
    note: fields.text('note', noteCharactersMax),
  }));
}

export function readEpoch(value: Uint8Array): EpochRecord | undefined {
  return read(value, (fields) => ({ epoch: fields.count('epoch'), term: fields.count('term') }));
}

/** Only ever caught by `read`. */
class Unreadable extends Error {}

class Fields {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Unreadable();
    this.#fields = value as Readonly<Record<string, unknown>>;
  }

  any(name: string): unknown {
    return Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined;
  }

  text(name: string, charactersMax: number): string {
    const value = this.any(name);
    if (typeof value !== 'string' || value.length > charactersMax) throw new Unreadable();
    return value;
  }

  count(name: string): number {
    const value = this.any(name);
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw new Unreadable();
    return value;
  }

  list(name: string): readonly unknown[] {
    const value = this.any(name);
    if (!Array.isArray(value) || value.length > roles.length) throw new Unreadable();
    return value;
  }
}

function oneOf<T>(known: readonly T[], value: unknown): T {
  const found = known.find((one) => one === value);
  if (found === undefined) throw new Unreadable();
  return found;
}

function read<T>(value: Uint8Array, shape: (fields: Fields) => T): T | undefined {
  try {
    return shape(new Fields(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value))));
  } catch {
    return undefined;
  }
}
