/**
 * One row per member, as HTTP and the commands of operators see it: membership, registration and worker summary in one
 * place. Finds a member by id or name. Keeps nothing.
 */
import { RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import { nameOwner } from '../../membership/suspicion/name-conflicts.ts';
import { nearestName } from '../options/nearest-name.ts';
import type { WorkerSummary } from './worker-summary.ts';

/** One row of `members`. */
export type MemberRow = {
  readonly name: string;
  readonly id: NodeId;
  readonly host: string;
  readonly port: number;
  readonly roles: readonly string[];
  readonly dc: string;
  readonly state: MemberView['state'];
  readonly incarnation: number;
  readonly health: number;
  /** The mode of its registration; `lost` for a node that is registered as active and is gone. */
  readonly registration: string | null;
  /** Why it is in that mode, such as `stale_restart` for a late return. */
  readonly registrationReason: string | null;
  readonly generation: number;
  readonly loadLevel: string | null;
  /** Cores for jobs, from the last worker summary; null for nodes that are not workers. */
  readonly cores: { readonly total: number; readonly free: number } | null;
  /** Alive, but its main loop is blocked. */
  readonly stuck: boolean;
  readonly lagMs: number;
  readonly silentMs: number;
  readonly roundTripMs: number | null;
  /** For a member without datagrams: the name, or else the id, of the manager that receives its heartbeats. */
  readonly watchedBy: string | null;
};

export function memberRows(
  views: readonly MemberView[],
  sources: {
    readonly registrationOf: (id: NodeId) => string | undefined;
    readonly registrationReasonOf: (id: NodeId) => string | undefined;
    readonly summaryOf: (id: NodeId) => WorkerSummary | undefined;
  },
): readonly MemberRow[] {
  const names = new Map(views.map(({ entry }) => [entry.id, entry.name]));
  return views.map((view) => {
    const { id } = view.entry;
    const registration = { mode: sources.registrationOf(id), reason: sources.registrationReasonOf(id) };
    return memberRow(view, names, registration, sources.summaryOf(id));
  });
}

/**
 * The record of a dead node stays `active` until its lease expires; the row shows `lost`. A drained node stays drained.
 */
export function currentMode(state: MemberView['state'], mode: string | undefined): string | null {
  const isGone = state === 'dead' || state === 'left';
  return isGone && (mode === 'active' || mode === 'joining') ? 'lost' : (mode ?? null);
}

function memberRow(
  view: MemberView,
  names: ReadonlyMap<NodeId, string>,
  registration: { readonly mode: string | undefined; readonly reason: string | undefined },
  summary: WorkerSummary | undefined,
): MemberRow {
  const { entry, state, incarnation, health, stuck, lagMs, silentMs, roundTripUs } = view;
  const { name, id, host, port, roles, dc, generation } = entry;
  const watchedBy = entry.watchedBy === undefined ? null : (names.get(entry.watchedBy) ?? entry.watchedBy);
  const isGone = state === 'dead' || state === 'left';
  const cores = summary === undefined || isGone ? null : { total: summary.coresTotal, free: summary.coresFree };
  const registered = {
    registration: currentMode(state, registration.mode),
    registrationReason: registration.reason ?? null,
  };
  const reported = { ...registered, loadLevel: summary?.level ?? null, cores };
  const roundTripMs = roundTripUs === undefined ? null : roundTripUs / 1_000;
  const observed = { state, incarnation, health, generation, stuck, lagMs, silentMs, roundTripMs, watchedBy };
  return { name, id, host, port, roles, dc, ...observed, ...reported };
}

/** By id or by name; if several members have the name, the one that owns it (see `nameOwner`). */
export function requireMember(idOrName: string, members: readonly MemberRow[]): MemberRow {
  const candidates = members.filter(({ id, name }) => id === idOrName || name === idOrName);
  const ownerId = nameOwner(candidates.map(({ id }) => id));
  const found = candidates.find(({ id }) => id === ownerId);
  if (found !== undefined) return found;
  const nearest = nearestName(
    idOrName,
    members.map(({ name }) => name),
  );
  const suggestion = nearest === undefined ? '' : `; did you mean ${nearest}?`;
  throw new RemusterError('BAD_ARGUMENT', `no member has the id or name ${JSON.stringify(idOrName)}${suggestion}`);
}
