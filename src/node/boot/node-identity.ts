/**
 * Node id, created once, and generation, incremented at each start and durable before anything is sent. Uses no clock.
 */
import { RemusterError, type Done, success } from '../../base/errors.ts';
import { type NodeId, parseNodeId } from '../../base/ids.ts';
import type { Store, StoreEntry } from '../../base/ports.ts';

export type NodeGeneration = { readonly id: NodeId; readonly generation: number };

const key = 'identity';
const range = { from: key, to: `${key}\0`, limit: 1 } as const;
const generationMax = 0xffff_ffff;

/** `freshId` is called once per data directory. */
export function startGeneration(store: Store, freshId: () => NodeId, done: Done<NodeGeneration>): void {
  store.read(range, (found) => {
    if (!found.ok) return done(found);
    const next = nextGeneration(found.value[0], freshId);
    if (next instanceof RemusterError) return done({ ok: false, error: next });
    const value = new TextEncoder().encode(JSON.stringify(next));
    store.write([{ key, value }], (written) => done(written.ok ? success(next) : written));
  });
}

function nextGeneration(stored: StoreEntry | undefined, freshId: () => NodeId): NodeGeneration | RemusterError {
  if (stored === undefined) return { id: freshId(), generation: 1 };
  try {
    const { id, generation } = JSON.parse(new TextDecoder().decode(stored.value)) as Record<string, unknown>;
    if (typeof id === 'string' && Number.isSafeInteger(generation) && (generation as number) < generationMax) {
      return { id: parseNodeId(id), generation: (generation as number) + 1 };
    }
  } catch {
    // Falls through to STORE_CORRUPT: a node with a guessed identity would be worse than no node.
  }
  return new RemusterError(
    'STORE_CORRUPT',
    'the stored identity of this node is damaged: restore its data directory, or start with an empty one as a new node',
  );
}
