/**
 * The side of a copy: takes what owners of other nodes send, one request after the other for each container, writes what
 * receiver.ts decides, and answers with where the copy stands on the disk. A request never waits for another container,
 * except for the sync of the disk that they share.
 */
import type { Done, RemusterError } from '../../base/errors.ts';
import { success } from '../../base/errors.ts';
import type { StoreWrite } from '../../base/ports.ts';
import type { CopiesRequest, CopyRefusal, CopyStanding } from '../../messages/copies.ts';
import type { Holding } from './holding.ts';
import { type Slot, isSameSlot, slotPrefix } from './layout.ts';
import { type Received, receiveCommits, receiveSnapshot } from './receiver.ts';

export type CopyDesk = {
  readonly generation: number;
  /** A slot is no longer needed. */
  readonly sweep: (holding: Holding) => void;
};

export function takeRequest(desk: CopyDesk, holding: Holding, request: CopiesRequest, reply: Done<CopyStanding>): void {
  const isTaken = holding.turn((over, error) => {
    const end = (refusal: CopyRefusal | undefined): void => {
      const standing = standingOf(desk, holding, refusal);
      over();
      reply(success(standing));
    };
    if (error !== undefined) return end(refusalOf(error));
    if (holding.isCorrupt && request.kind === 'replicateCommits') return end('corrupt');
    perform(desk, holding, request, end);
  });
  if (!isTaken) reply(success(standingOf(desk, holding, 'busy')));
}

function perform(
  desk: CopyDesk,
  holding: Holding,
  request: CopiesRequest,
  end: (refusal: CopyRefusal | undefined) => void,
): void {
  const { meta, building } = holding;
  const received =
    request.kind === 'replicateCommits'
      ? receiveCommits(meta, building, request)
      : receiveSnapshot(meta, building, request);
  if (received.slot === undefined && received.meta.seen === meta.seen) return end(received.refusal);
  const { slot } = received;
  // Before its rows are written, so that nobody takes them for garbage.
  const isStep = request.kind === 'replicateSnapshot' && slot !== undefined;
  holding.building = isStep ? { slot, step: request.step } : received.building;
  const { batch, bytes } = rowsOf(holding, request, received);
  holding.write(batch, bytes, received.meta, (outcome) => {
    holding.building = outcome.ok ? received.building : building;
    if (leavesSlot(meta.slot, received) || leavesSlot(building?.slot, received)) desk.sweep(holding);
    end(outcome.ok ? received.refusal : refusalOf(outcome.error));
  });
}

function leavesSlot(slot: Slot | undefined, { meta, building }: Received): boolean {
  return slot !== undefined && !isSameSlot(slot, meta.slot) && !isSameSlot(slot, building?.slot);
}

function rowsOf(
  holding: Holding,
  request: CopiesRequest,
  { slot, skip }: Received,
): { readonly batch: StoreWrite[]; readonly bytes: number } {
  const batch: StoreWrite[] = [];
  let bytes = 0;
  if (slot === undefined) return { batch, bytes };
  const prefix = slotPrefix(holding.pool, holding.container, slot);
  const add = (key: string, value: Uint8Array | undefined): void => {
    batch.push({ key: prefix + key, value: value ?? null });
    bytes += prefix.length + key.length + (value?.length ?? 0);
  };
  for (let at = skip; at < request.commits.length; at++) {
    for (const { key, value } of request.commits[at]?.writes ?? []) add(key, value);
  }
  if (request.kind === 'replicateSnapshot') for (const { key, value } of request.entries) add(key, value);
  return { batch, bytes };
}

function standingOf(
  { generation }: CopyDesk,
  { meta, building }: Holding,
  refusal: CopyRefusal | undefined,
): CopyStanding {
  return {
    kind: 'copyStanding',
    generation,
    seen: meta.seen,
    held: meta.slot === undefined ? undefined : meta.position,
    snapshot: building?.slot.snapshot,
    step: building?.step,
    refusal,
  };
}

function refusalOf({ code }: RemusterError): CopyRefusal {
  if (code === 'STORE_FULL') return 'full';
  return code === 'STORE_CORRUPT' ? 'corrupt' : 'failed';
}
