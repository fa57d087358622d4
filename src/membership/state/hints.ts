/**
 * What membership keeps over a restart: the incarnation and up to 64 addresses, so that a restarted node finds its
 * cluster without seeds. Only hints: a lost or damaged row costs time, and nothing waits for a write.
 */
import type { Address, Store, StoreEntry, StoreWrite } from '../../base/ports.ts';

const incarnationKey = 'membership/incarnation';
const knownKey = 'membership/known';
const range = { from: 'membership/', to: 'membership0', limit: 16 } as const;

/** So many that some of them are still members after a restart. */
export const knownMembersMax = 64;
const incarnationMax = 0xffff_ffff;

export type MembershipHints = { readonly incarnation: number; readonly known: readonly Address[] };

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function incarnationWrite(incarnation: number): StoreWrite {
  return { key: incarnationKey, value: encoder.encode(String(incarnation)) };
}

export function knownMembersWrite(addresses: readonly Address[]): StoreWrite {
  const known = addresses.slice(0, knownMembersMax).map(({ host, port }) => ({ host, port }));
  return { key: knownKey, value: encoder.encode(JSON.stringify(known)) };
}

/** Reads what can be read; a store that fails yields empty hints. */
export function readHints(store: Store, done: (hints: MembershipHints, failed: boolean) => void): void {
  store.read(range, (found) => {
    const entries = found.ok ? found.value : [];
    done({ incarnation: incarnationIn(entries), known: knownIn(entries) }, !found.ok);
  });
}

function textIn(entries: readonly StoreEntry[], key: string): string {
  const entry = entries.find((one) => one.key === key);
  return entry === undefined ? '' : decoder.decode(entry.value);
}

function incarnationIn(entries: readonly StoreEntry[]): number {
  const text = textIn(entries, incarnationKey);
  return /^\d{1,10}$/.test(text) && Number(text) < incarnationMax ? Number(text) : 0;
}

function knownIn(entries: readonly StoreEntry[]): readonly Address[] {
  try {
    const stored: unknown = JSON.parse(textIn(entries, knownKey));
    return Array.isArray(stored) ? stored.filter(isAddress).slice(0, knownMembersMax) : [];
  } catch {
    return [];
  }
}

function isAddress(value: unknown): value is Address {
  const { host, port } = (value ?? {}) as Partial<Record<keyof Address, unknown>>;
  return typeof host === 'string' && host.length <= 255 && Number.isInteger(port) && (port as number) > 0;
}
