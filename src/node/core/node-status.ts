/**
 * What a node reports about itself (`GET /v1/node`) and one row per member. Unknown fields are null or empty, never
 * guessed.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import type { LeadershipView } from '../../base/registry.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { ContainerService } from '../containers/container-service.ts';
import type { JobService } from '../jobs/job-service.ts';
import type { WorkerSummary } from '../membership/worker-summary.ts';

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

/** The body of GET /v1/node. */
export type NodeStatus = ReturnType<typeof nodeStatus>;

export type NodeStatusInput = {
  readonly self: Identity;
  /** This node among them. */
  readonly members: readonly MemberRow[];
  readonly joined: boolean;
  readonly stopping: boolean;
  readonly leadership: LeadershipView | undefined;
  readonly containers: Pick<ContainerService, 'table' | 'localReplicas'> | undefined;
  readonly jobs: Pick<JobService, 'worker' | 'isolation'> | undefined;
  readonly queues: Readonly<Record<string, number>>;
  readonly rejected: Readonly<Record<string, number>>;
  readonly uptimeMs: number;
};

export function nodeStatus(facts: NodeStatusInput) {
  const { self, members, joined, stopping, leadership, containers, jobs, queues, rejected, uptimeMs } = facts;
  const worker = jobs?.worker;
  const { id, name, generation, roles, dc, host, port } = self;
  const own = members.find((member) => member.id === id);
  const { incarnation = 0, health = 0, stuck = false, lagMs = 0 } = own ?? {};
  return {
    ...{ id, name, generation, incarnation, roles, dc, host, port, joined, stopping },
    ...{ registration: own?.registration ?? null, ...leadershipOf(members, leadership) },
    ...{ tableVersion: containers?.table.version ?? null, tableHash: containers?.table.hash() ?? null },
    ...{ members, containers: containers?.localReplicas() ?? [], queues, rejected },
    ...{ cores: worker?.coreCounts() ?? null, runners: worker?.aliveRunners() ?? 0 },
    ...{ health, loadLevel: own?.loadLevel ?? null, stuck, lagMs, isolation: jobs?.isolation ?? null, uptimeMs },
  };
}

/** The leader by name; a leader of which membership knows nothing has only its id. */
function leadershipOf(members: readonly MemberRow[], view: LeadershipView | undefined) {
  if (view === undefined) return { leader: null, leaderId: null, term: null, fence: null };
  const { leader, term, fence } = view;
  const name = members.find(({ id }) => id === leader)?.name ?? leader ?? null;
  return { leader: name, leaderId: leader ?? null, term, fence: fence?.toString() ?? null };
}
