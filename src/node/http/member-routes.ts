/**
 * Routes about members: list, history, round trip, reachability. Forwards to the node that knows; says which did not
 * answer.
 */
import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import { decodeCoordinate, distanceMs } from '../../membership/state/coordinates.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import { listReply, objectReply } from './replies.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { addressListOption, formatHostPort } from '../options/option-types.ts';
import { type MemberRow, requireMember } from '../membership/member-rows.ts';

const reachabilityMembersMax = 256;
const joinAddressesMax = 64;

export function memberRoutes(core: NodeCore): readonly ApiRoute[] {
  return [
    get('/v1/members', async () => listReply(core.members())),
    { method: 'POST', path: '/v1/join', handler: async ({ body }) => joinAnswer(core, body) },
    get('/v1/members/:name/why', async ({ params }) => whyAnswer(core, params['name'] ?? '')),
    get('/v1/rtt', async (request) => await roundTripAnswer(core, request)),
    get('/v1/reachability', async () => await reachabilityAnswer(core)),
  ];
}

function get(path: string, handler: (request: ApiRequest) => Promise<ApiResponse>): ApiRoute {
  return { method: 'GET', path, handler };
}

/** It asks until somebody answers; who came of it, `members` shows. */
function joinAnswer(core: NodeCore, body: unknown): ApiResponse {
  const asked = typeof body === 'object' && body !== null && 'addresses' in body ? body.addresses : undefined;
  const parsed = addressListOption(joinAddressesMax).parse(asked);
  if (!parsed.ok) throw new RemusterError('BAD_ARGUMENT', `addresses ${parsed.problem}`);
  if (parsed.value.length === 0) throw new RemusterError('BAD_ARGUMENT', 'addresses must name a node to ask');
  core.join(parsed.value);
  return objectReply({ node: core.identity.name, asked: parsed.value.map(formatHostPort) });
}

/** What this node saw of a member, with the evidence. */
function whyAnswer(core: NodeCore, word: string): ApiResponse {
  const member = requireMember(word, core.members());
  const { name, id, state, generation, incarnation } = member;
  const seenBy = core.identity.name;
  const history = core.memberHistory(id);
  return objectReply({ name, id, state, generation, incarnation, seenBy, history });
}

async function roundTripAnswer(core: NodeCore, { query }: ApiRequest): Promise<ApiResponse> {
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

/** By coordinates: also of two nodes that never measured each other. Unknown until both have told theirs. */
function distance(a: MemberView | undefined, b: MemberView | undefined): number | null {
  if (a?.coordinate === undefined || b?.coordinate === undefined) return null;
  if (a.entry.id === b.entry.id) return 0;
  return Math.round(distanceMs(decodeCoordinate(a.coordinate), decodeCoordinate(b.coordinate)) * 1_000) / 1_000;
}

async function viewFrom(core: NodeCore, member: MemberRow): Promise<readonly MemberView[] | undefined> {
  return await new Promise((resolve) => core.requestMemberView(member, resolve));
}

async function reachabilityAnswer(core: NodeCore): Promise<ApiResponse> {
  // Everybody is asked about everybody: the answer grows with the square of the group.
  if (core.memberViews().length > reachabilityMembersMax) {
    throw new RemusterError(
      'TOO_LARGE',
      `reachability is for groups of at most ${reachabilityMembersMax} members`,
      'no',
    );
  }
  return await new Promise((resolve) => {
    core.reachability((result) => {
      resolve(objectReply({ partial: result.unanswered.length > 0, ...result }));
    });
  });
}
