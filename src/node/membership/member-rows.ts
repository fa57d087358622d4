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
  /** The mode of its registration; `lost` for a node that should work and is gone. */
  readonly registration: string | null;
  /** Why it is in that mode, as `stale_restart` for a node that returned too late. */
  readonly registrationReason: string | null;
  readonly generation: number;
  readonly loadLevel: string | null;
  /** For jobs, as the worker last told; null of everybody else. */
  readonly cores: { readonly total: number; readonly free: number } | null;
  /** Alive, but its main loop does not move. */
  readonly stuck: boolean;
  readonly lagMs: number;
  readonly silentMs: number;
  readonly roundTripMs: number | null;
  /** For a member without datagrams: the name of the one who hears its heartbeats, or its id if the name is not known. */
  readonly watchedBy: string | null;
};

export function memberRows(
  views: readonly MemberView[],
  known: {
    readonly registrationOf: (id: NodeId) => string | undefined;
    readonly registrationReasonOf: (id: NodeId) => string | undefined;
    readonly noticeOf: (id: NodeId) => WorkerSummary | undefined;
  },
): readonly MemberRow[] {
  const names = new Map(views.map(({ entry }) => [entry.id, entry.name]));
  return views.map((view) => {
    const { id } = view.entry;
    const registration = { mode: known.registrationOf(id), reason: known.registrationReasonOf(id) };
    return memberRow(view, names, registration, known.noticeOf(id));
  });
}

/** The record of a dead node says `active` until its time is over; it is not. Drained it will be when it returns. */
function presentMode({ state }: MemberView, mode: string | undefined): string | null {
  const isGone = state === 'dead' || state === 'left';
  return isGone && (mode === 'active' || mode === 'joining') ? 'lost' : (mode ?? null);
}

function memberRow(
  view: MemberView,
  names: ReadonlyMap<NodeId, string>,
  registration: { readonly mode: string | undefined; readonly reason: string | undefined },
  notice: WorkerSummary | undefined,
): MemberRow {
  const { entry, state, incarnation, health, stuck, lagMs, silentMs, roundTripUs } = view;
  const { name, id, host, port, roles, dc, generation } = entry;
  const watchedBy = entry.watchedBy === undefined ? null : (names.get(entry.watchedBy) ?? entry.watchedBy);
  const isGone = state === 'dead' || state === 'left';
  const cores = notice === undefined || isGone ? null : { total: notice.coresTotal, free: notice.coresFree };
  const registered = {
    registration: presentMode(view, registration.mode),
    registrationReason: registration.reason ?? null,
  };
  const others = { ...registered, loadLevel: notice?.level ?? null, cores };
  const roundTripMs = roundTripUs === undefined ? null : roundTripUs / 1_000;
  const seen = { state, incarnation, health, generation, stuck, lagMs, silentMs, roundTripMs, watchedBy };
  return { name, id, host, port, roles, dc, ...seen, ...others };
}

/** By id or by name; a name that several carry belongs to the one that keeps it. */
export function requireMember(word: string, members: readonly MemberRow[]): MemberRow {
  const called = members.filter(({ id, name }) => id === word || name === word);
  const keeper = nameOwner(called.map(({ id }) => id));
  const found = called.find(({ id }) => id === keeper);
  if (found !== undefined) return found;
  const nearest = nearestName(
    word,
    members.map(({ name }) => name),
  );
  const tail = nearest === undefined ? '' : `; did you mean ${nearest}?`;
  throw new RemusterError('BAD_ARGUMENT', `no member has the id or name ${JSON.stringify(word)}${tail}`);
}
