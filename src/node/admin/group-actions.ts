/**
 * Admin actions on the manager group of a datacenter and on its load. The leader executes them and rejects a loss of
 * quorum with PRECONDITION.
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

const describeTimeoutMs = 2_000;

export async function balance({ control }: AdminContext): Promise<object> {
  return await toPromise((done) => control.operations.balance(done));
}

export async function rebalance({ core, control, args }: AdminContext): Promise<object> {
  const dryRun = booleanArgument(args, 'dryRun');
  const movesMax = integerArgument(args, 'maxMoves', { min: 1, max: rebalanceLimits.movesMax });
  if (!dryRun) control.recordAdminEvent('rebalance', { reason: reasonArgument(args) });
  const request = { dryRun, ...(movesMax === undefined ? {} : { movesMax }) };
  const result = await sendLeaderCommand<RebalanceResult>(control, 'rebalance', request);
  const names = new Map(core.members().map(({ id, name }) => [id, name]));
  const moves = result.moves.map((move) => {
    const { from: fromId, to: toId } = move;
    return { ...move, from: names.get(fromId) ?? fromId, fromId, to: names.get(toId) ?? toId, toId };
  });
  return { ...result, moves };
}

export async function addManager(context: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(context, member);
  const { control, args } = context;
  const { id, name, host, port } = member;
  if (!member.roles.includes('manager'))
    throw new RemusterError(
      'PRECONDITION',
      `${name} does not have the role manager: start it with that role first, or choose another node`,
      'no',
    );
  if (!isLiveState(member.state))
    throw new RemusterError('PRECONDITION', `${name} is ${member.state}: start it first`, 'no');
  if (await isInOtherGroup(context, member))
    throw new RemusterError('PRECONDITION', `${name} belongs to another manager group of the same name`, 'no');
  control.recordAdminEvent('manager-add', { target: name, reason: reasonArgument(args) });
  await sendLeaderCommand(control, 'change-group', { kind: 'add', id, name, host, port });
  return { manager: name, id, standing: 'syncing' };
}

/**
 * A manager of another group of the same name would bring the log of that group. A manager of this group that was
 * removed while it was down still has itself in its configuration; it may be added.
 */
async function isInOtherGroup(context: AdminContext, member: MemberRow): Promise<boolean> {
  const { control, core } = context;
  const { id, dc } = member;
  const { members } = await groupStatusOf(context);
  if (members.some((one) => one.id === id)) return false;
  const sources = control.groupInfo.statusSources(() => core.members());
  const describeGroup = groupInfoClient(sources.streams, dc, describeTimeoutMs);
  const reply =
    id === core.identity.id
      ? sources.localInfo(dc)
      : await unreachableAsPrecondition(
          member,
          toPromise<DescribeGroupReply>((done) => describeGroup(member, done)),
        );
  if (!reply.isMember) return false;
  const { entries } = await toPromise<RangeResult>((done) =>
    control.registry.range(onlyKey(removedManagerKey(id)), { limit: 1 }, done),
  );
  return entries.length === 0;
}

export async function promoteManager(context: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(context, member);
  const { control, args } = context;
  const { id, name } = member;
  control.recordAdminEvent('manager-promote', { target: name, reason: reasonArgument(args) });
  await sendLeaderCommand(control, 'change-group', { kind: 'promote', id });
  return { manager: name, id, standing: 'voter' };
}

/** Removes also a manager that membership no longer knows. */
export async function removeManager(context: AdminContext, idOrName: string): Promise<object> {
  const { core, control, args } = context;
  const { members } = await groupStatusOf(context);
  const { id, name } =
    members.find((one) => one.id === idOrName || one.name === idOrName) ?? requireMember(idOrName, core.members());
  const [dryRun, reason] = [booleanArgument(args, 'dryRun'), reasonArgument(args)];
  if (!dryRun) control.recordAdminEvent('manager-remove', { target: name, reason });
  const result = await sendLeaderCommand(control, 'change-group', { kind: 'remove', id, dryRun, reason });
  return { manager: name, id, ...result };
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
