/**
 * Admin actions on a datacenter's manager group and its load. The leader executes them; loss of quorum is refused with
 * PRECONDITION.
 */
import { RemusterError, toPromise } from '../../base/errors.ts';
import { type RangeResult, onlyKey } from '../../base/registry.ts';
import { type RebalanceResult, rebalanceLimits } from '../../placement/balance/rebalancer.ts';
import {
  type AdminContext,
  groupStatusOf,
  sendLeaderCommand,
  unreachableAsPrecondition,
  requireSameDatacenter,
} from './admin-context.ts';
import { removedManagerKey } from '../group/removed-managers.ts';
import { type DescribeGroupReply, groupInfoClient } from '../group/group-info-client.ts';
import { isLiveState } from '../group/group-status.ts';
import { integerArgument, booleanArgument, reasonArgument } from '../control-plane/command-arguments.ts';
import { requireMember } from '../membership/member-rows.ts';
import type { MemberRow } from '../membership/member-rows.ts';

const askTimeoutMs = 2_000;

export async function balance({ control }: AdminContext): Promise<object> {
  return await toPromise((done) => control.operations.balance(done));
}

export async function rebalance({ core, control, args }: AdminContext): Promise<object> {
  const dryRun = booleanArgument(args, 'dryRun');
  const movesMax = integerArgument(args, 'maxMoves', { min: 1, max: rebalanceLimits.movesMax });
  if (!dryRun) control.recordAdminEvent('rebalance', { reason: reasonArgument(args) });
  const asked = { dryRun, ...(movesMax === undefined ? {} : { movesMax }) };
  const result = await sendLeaderCommand<RebalanceResult>(control, 'rebalance', asked);
  const names = new Map(core.members().map(({ id, name }) => [id, name]));
  const moves = result.moves.map((move) => {
    const { from: fromId, to: toId } = move;
    return { ...move, from: names.get(fromId) ?? fromId, fromId, to: names.get(toId) ?? toId, toId };
  });
  return { ...result, moves };
}

export async function addManager(desk: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(desk, member);
  const { control, args } = desk;
  const { id, name, host, port } = member;
  if (!member.roles.includes('manager')) throw new RemusterError('PRECONDITION', `${name} is no manager`, 'no');
  if (!isLiveState(member.state)) throw new RemusterError('PRECONDITION', `${name} is ${member.state}`, 'no');
  if (await belongsElsewhere(desk, member))
    throw new RemusterError('PRECONDITION', `${name} belongs to another group of managers`, 'no');
  control.recordAdminEvent('manager-add', { target: name, reason: reasonArgument(args) });
  await sendLeaderCommand(control, 'change-group', { kind: 'add', id, name, host, port });
  return { manager: name, id, standing: 'syncing' };
}

/**
 * A manager of another group of the same name would bring that one's history along. One that was removed while it was
 * away has not heard of that and counts itself in, but it is one of ours.
 */
async function belongsElsewhere(desk: AdminContext, member: MemberRow): Promise<boolean> {
  const { control, core } = desk;
  const { id, dc } = member;
  const { members } = await groupStatusOf(desk);
  if (members.some((one) => one.id === id)) return false;
  const sources = control.groupInfo.statusSources(() => core.members());
  const ask = groupInfoClient(sources.streams, dc, askTimeoutMs);
  const told =
    id === core.identity.id
      ? sources.localInfo(dc)
      : await unreachableAsPrecondition(
          member,
          toPromise<DescribeGroupReply>((done) => ask(member, done)),
        );
  if (!told.isMember) return false;
  const { entries } = await toPromise<RangeResult>((done) =>
    control.registry.range(onlyKey(removedManagerKey(id)), { limit: 1 }, done),
  );
  return entries.length === 0;
}

export async function promoteManager(desk: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(desk, member);
  const { control, args } = desk;
  const { id, name } = member;
  control.recordAdminEvent('manager-promote', { target: name, reason: reasonArgument(args) });
  await sendLeaderCommand(control, 'change-group', { kind: 'promote', id });
  return { manager: name, id, standing: 'voter' };
}

/** Also one of which membership knows nothing any more. */
export async function removeManager(desk: AdminContext, word: string): Promise<object> {
  const { core, control, args } = desk;
  const { members } = await groupStatusOf(desk);
  const { id, name } =
    members.find((one) => one.id === word || one.name === word) ?? requireMember(word, core.members());
  const [dryRun, reason] = [booleanArgument(args, 'dryRun'), reasonArgument(args)];
  if (!dryRun) control.recordAdminEvent('manager-remove', { target: name, reason });
  const answer = await sendLeaderCommand(control, 'change-group', { kind: 'remove', id, dryRun, reason });
  return { manager: name, id, ...answer };
}

export async function transfer({ core, control, args }: AdminContext): Promise<object> {
  const { to } = args;
  if (to !== undefined && typeof to !== 'string')
    throw new RemusterError('BAD_ARGUMENT', 'to must be the name of a manager');
  const target = to === undefined ? undefined : requireMember(to, core.members());
  control.recordAdminEvent('transfer', {
    ...(target === undefined ? {} : { target: target.name }),
    reason: reasonArgument(args),
  });
  await sendLeaderCommand(control, 'transfer', target === undefined ? {} : { to: target.id });
  return { to: target?.name ?? null };
}
