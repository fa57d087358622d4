/**
 * How known peers are kept in the store, so that a node that starts again finds its cluster without seeds. They are a
 * hint: a damaged or foreign entry is passed over, and nothing is ever decided by them alone.
 */
import { type NodeId, namePattern, parseNodeId } from '../base/ids.ts';
import type { Identity, Role, StoreEntry, StoreWrite } from '../base/ports.ts';

const prefix = 'peer/';

/** The range of the store that holds them. */
export const knownPeersRange = { from: prefix, to: 'peer0' } as const;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const roles: ReadonlySet<unknown> = new Set<Role>(['gate', 'manager', 'worker']);

export function rememberPeer(entry: Identity): StoreWrite {
  return { key: prefix + entry.id, value: encoder.encode(JSON.stringify(entry)) };
}

export function forgetPeer(id: NodeId): StoreWrite {
  return { key: prefix + id, value: null };
}

export function readKnownPeers(entries: readonly StoreEntry[]): Identity[] {
  return entries.map(readPeer).filter((peer) => peer !== undefined);
}

function readPeer(entry: StoreEntry): Identity | undefined {
  try {
    const stored = JSON.parse(decoder.decode(entry.value)) as Partial<Record<keyof Identity, unknown>>;
    const { id, name, host, port, generation, dc } = stored;
    if (typeof id !== 'string' || typeof host !== 'string' || !isName(name) || !isName(dc)) return undefined;
    if (!isWhole(port) || port > 65_535 || !isWhole(generation)) return undefined;
    if (!Array.isArray(stored.roles) || !stored.roles.every((role) => roles.has(role))) return undefined;
    return { id: parseNodeId(id), name, host, port, generation, roles: stored.roles as Role[], dc };
  } catch {
    return undefined;
  }
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && namePattern.test(value);
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
