/** What a node reports about itself (`GET /v1/node`). Unknown fields are null or empty, never guessed. */
import type { Identity } from '../../base/ports.ts';
import type { LeadershipView } from '../../base/registry.ts';
import type { ContainerService } from '../containers/container-service.ts';
import type { JobService } from '../jobs/job-service.ts';
import type { MemberRow } from '../membership/member-rows.ts';

/** The body of GET /v1/node. */
export type NodeStatus = ReturnType<typeof nodeStatus>;

export type NodeStatusInput = {
  readonly self: Identity;
  /** This node included. */
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

export function nodeStatus(input: NodeStatusInput) {
  const { self, members, joined, stopping, leadership, containers, jobs, queues, rejected, uptimeMs } = input;
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

/** The leader by name, or by id if membership does not know it. */
function leadershipOf(members: readonly MemberRow[], view: LeadershipView | undefined) {
  if (view === undefined) return { leader: null, leaderId: null, term: null, fence: null };
  const { leader, term, fence } = view;
  const name = members.find(({ id }) => id === leader)?.name ?? leader ?? null;
  return { leader: name, leaderId: leader ?? null, term, fence: fence?.toString() ?? null };
}

/** By reason: the sum over all parts of the counters `rejected.<reason>`. */
export function rejections(parts: Readonly<Record<string, Readonly<Record<string, number>>>>): Record<string, number> {
  const prefix = 'rejected.';
  const sums: Record<string, number> = {};
  for (const [name, value] of Object.values(parts).flatMap((part) => Object.entries(part))) {
    if (!name.startsWith(prefix)) continue;
    const reason = name.slice(prefix.length);
    sums[reason] = (sums[reason] ?? 0) + value;
  }
  return sums;
}
