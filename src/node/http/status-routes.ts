/** `GET /v1/status`, `/v1/leader`, `/v1/managers`: leader, term and quorum per datacenter, and readiness. Read only. */
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { listReply, objectReply } from './replies.ts';
import { type GroupStatus, groupStatus, isLiveState, unknownGroup } from '../group/group-status.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import type { MemberRow } from '../membership/member-rows.ts';

/** A status reply does not wait long for the job manager. */
const jobsTimeoutMs = 2_000;

export function statusRoutes(core: NodeCore, cluster: string): readonly ApiRoute[] {
  return [
    get('/v1/status', async () => objectReply(await statusOf(core, cluster))),
    get('/v1/leader', async (request) => objectReply(leaderOf(core, await groupOf(core, dcIn(core, request))))),
    get('/v1/managers', async (request) => listReply(await managersOf(core, dcIn(core, request)))),
  ];
}

function get(path: string, handler: (request: ApiRequest) => Promise<ApiResponse>): ApiRoute {
  return { method: 'GET', path, handler };
}

/** `?dc=`, by default the datacenter of this node. */
function dcIn(core: NodeCore, { query }: ApiRequest): string {
  const { dc = core.identity.dc } = query;
  if (core.members().some((member) => member.dc === dc)) return dc;
  throw new RemusterError('BAD_ARGUMENT', `no member is in the datacenter ${JSON.stringify(dc)}`);
}

async function groupOf(core: NodeCore, dc: string): Promise<GroupStatus> {
  const { control } = core;
  if (control === undefined) return unknownGroup(dc);
  return await groupStatus(
    control.groupInfo.statusSources(() => core.members()),
    dc,
  );
}

async function statusOf(core: NodeCore, cluster: string): Promise<object> {
  const members = core.members();
  const up = members.filter(({ state }) => isLiveState(state));
  const names = [...new Set(up.map(({ dc }) => dc))].toSorted();
  const dcs = await Promise.all(
    names.map(async (dc) => {
      const [group, jobs] = await Promise.all([groupOf(core, dc), jobsIn(core, dc)]);
      const nodes = up.filter((member) => member.dc === dc).length;
      const containers = containersIn(core, dc);
      return Object.assign({ dc }, leadershipRow(group, members), { nodes, containers, jobs });
    }),
  );
  const { joined, stopping } = core.status();
  const isLed = core.control === undefined || dcs.every(({ leader }) => leader !== null);
  return { cluster, dcs, gates: { leader: null, term: null }, ready: joined && !stopping && isLed };
}

function leadershipRow(group: GroupStatus, members: readonly MemberRow[]) {
  const voters = group.members.filter(({ standing }) => standing === 'voter');
  const alive = voters.filter(({ id }) => members.some((member) => member.id === id && isLiveState(member.state)));
  return {
    leader: nameOf(group.leader, members),
    leaderId: group.leader ?? null,
    term: group.term ?? null,
    quorum: voters.length === 0 ? null : { voters: voters.length, alive: alive.length },
  };
}

function nameOf(id: string | undefined, members: readonly MemberRow[]): string | null {
  if (id === undefined) return null;
  return members.find((member) => member.id === id)?.name ?? id;
}

function leaderOf(core: NodeCore, group: GroupStatus): object {
  const members = core.members();
  const { leader, leaderId, term, quorum } = leadershipRow(group, members);
  const member = members.find(({ id }) => id === group.leader);
  const own = group.group === core.identity.dc ? core.control?.leadershipView() : undefined;
  // A fence of another term than the one in the reply would mislead.
  const fence = own?.term === group.term ? (own?.fence?.toString() ?? null) : null;
  return {
    dc: group.group,
    leader,
    leaderId,
    term,
    fence,
    quorum,
    host: member?.host ?? null,
    port: member?.port ?? null,
  };
}

async function managersOf(core: NodeCore, dc: string): Promise<readonly object[]> {
  const members = core.members();
  const group = await groupOf(core, dc);
  const inside = group.members.map(({ id, name, host, port, standing }) => {
    const state = members.find((member) => member.id === id)?.state ?? 'unknown';
    return { name, id, host, port, standing, state, leader: id === group.leader };
  });
  const standing = group.isExternal ? 'candidate' : 'outside';
  const others = members
    .filter(
      ({ id, dc, roles }) => dc === group.group && roles.includes('manager') && !inside.some((one) => one.id === id),
    )
    .map(({ id, name, host, port, state }) => {
      return { name, id, host, port, standing, state, leader: id === group.leader };
    });
  return [...inside, ...others];
}

/** Number of containers in the address table of this node, which covers its own datacenter. */
function containersIn({ containers, identity }: NodeCore, dc: string): number | null {
  if (containers === undefined || dc !== identity.dc) return null;
  return containers.table.pools().reduce((sum, { record }) => sum + record.containers, 0);
}

/** Number of open jobs of this datacenter; null if the job manager does not reply in time. */
async function jobsIn({ jobs, identity }: NodeCore, dc: string): Promise<number | null> {
  const gateway = jobs?.gateway;
  if (gateway === undefined || dc !== identity.dc) return null;
  return await new Promise((resolve) => {
    gateway.send('list', '{"limit":1}', 'status', jobsTimeoutMs, (outcome) => {
      resolve(outcome.ok ? (JSON.parse(outcome.value) as { readonly open: number }).open : null);
    });
  });
}
