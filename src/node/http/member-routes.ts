/**
 * Routes about members: list, join, history, round trip, reachability. Requests views from other nodes where needed and
 * names nodes that did not reply.
 */
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { decodeCoordinate, distanceMs } from '../../membership/state/coordinates.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import { listReply, objectReply } from './replies.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { addressListOption, formatHostPort } from '../options/option-types.ts';
import { type MemberRow, requireMember } from '../membership/member-rows.ts';

export const reachabilityMembersMax = 256;
const joinAddressesMax = 64;

export function memberRoutes(core: NodeCore): readonly ApiRoute[] {
  return [
    get('/v1/members', async () => listReply(core.members())),
    { method: 'POST', path: '/v1/join', handler: async ({ body }) => joinReply(core, body) },
    get('/v1/members/:name/why', async ({ params }) => whyReply(core, params['name'] ?? '')),
    get('/v1/rtt', async (request) => await roundTripReply(core, request)),
    get('/v1/reachability', async () => await reachabilityReply(core)),
  ];
}

function get(path: string, handler: (request: ApiRequest) => Promise<ApiResponse>): ApiRoute {
  return { method: 'GET', path, handler };
}

/** Starts a join that retries until a seed replies; `members` shows the result. */
function joinReply(core: NodeCore, body: unknown): ApiResponse {
  const addresses = typeof body === 'object' && body !== null && 'addresses' in body ? body.addresses : undefined;
  const parsed = addressListOption(joinAddressesMax).parse(addresses);
  if (!parsed.ok) throw new RemusterError('BAD_ARGUMENT', `addresses ${parsed.problem}`);
  if (parsed.value.length === 0) throw new RemusterError('BAD_ARGUMENT', 'addresses must name at least one node');
  core.join(parsed.value);
  return objectReply({ node: core.identity.name, asked: parsed.value.map(formatHostPort) });
}

/** The history of a member in the view of this node, with evidence. */
function whyReply(core: NodeCore, idOrName: string): ApiResponse {
  const member = requireMember(idOrName, core.members());
  const { name, id, state, generation, incarnation } = member;
  const seenBy = core.identity.name;
  const history = core.memberHistory(id);
  return objectReply({ name, id, state, generation, incarnation, seenBy, history });
}

async function roundTripReply(core: NodeCore, { query }: ApiRequest): Promise<ApiResponse> {
  const { from = '', to = '' } = query;
  if (from === '' || to === '') throw new RemusterError('BAD_ARGUMENT', 'rtt needs ?from=NAME&to=NAME');
  const members = core.members();
  const [a, b] = [requireMember(from, members), requireMember(to, members)];
  const views = core.memberViews();
  const estimatedMs = distance(viewOf(views, a), viewOf(views, b));
  const seen = a.id === core.identity.id ? views : await viewFrom(core, a);
  const measuredUs = seen?.find(({ entry }) => entry.id === b.id)?.roundTripUs;
  const measuredMs = measuredUs === undefined ? null : measuredUs / 1_000;
  return objectReply({ from: a.name, to: b.name, estimatedMs, measuredMs });
}

function viewOf(views: readonly MemberView[], { id }: MemberRow): MemberView | undefined {
  return views.find(({ entry }) => entry.id === id);
}

/** The estimate by coordinates, which needs no measured round trip. Null until both coordinates are known. */
function distance(a: MemberView | undefined, b: MemberView | undefined): number | null {
  if (a?.coordinate === undefined || b?.coordinate === undefined) return null;
  if (a.entry.id === b.entry.id) return 0;
  return Math.round(distanceMs(decodeCoordinate(a.coordinate), decodeCoordinate(b.coordinate)) * 1_000) / 1_000;
}

async function viewFrom(core: NodeCore, member: MemberRow): Promise<readonly MemberView[] | undefined> {
  return await new Promise((resolve) => core.requestMemberView(member, resolve));
}

async function reachabilityReply(core: NodeCore): Promise<ApiResponse> {
  // The reply has a row for each pair of members, so it grows with the square of their number.
  if (core.memberViews().length > reachabilityMembersMax) {
    throw new RemusterError(
      'TOO_LARGE',
      `reachability needs a cluster of at most ${reachabilityMembersMax} members`,
      'no',
    );
  }
  return await new Promise((resolve) => {
    core.reachability((result) => {
      resolve(objectReply({ partial: result.unanswered.length > 0, ...result }));
    });
  });
}
