/**
 * What operators order about a datacenter as a whole: who belongs to its group of managers, who leads it, and how its
 * load lies. The leader carries it out; what would cost the quorum is refused with PRECONDITION.
 */
import { RemusterError, toPromise } from '../base/errors.ts';
import { type RangeResult, onlyKey } from '../base/registry.ts';
import { type RebalanceResult, rebalanceLimits } from '../placement/balance/rebalancer.ts';
import { type Desk, groupOf, order, reached, refuseElsewhere } from './admin-desk.ts';
import { dismissedKey } from './control/dismissed.ts';
import { type ToldGroup, groupQuestions } from './control/group-questions.ts';
import { isUp } from './control/group-status.ts';
import { countIn, flagIn, reasonIn } from './control/order-words.ts';
import { memberCalled } from './member-routes.ts';
import type { MemberRow } from './own-truth.ts';

const askTimeoutMs = 2_000;

export async function balance({ control }: Desk): Promise<object> {
  return await toPromise((done) => control.operations.balance(done));
}

export async function rebalance({ core, control, words }: Desk): Promise<object> {
  const dryRun = flagIn(words, 'dryRun');
  const movesMax = countIn(words, 'maxMoves', { min: 1, max: rebalanceLimits.movesMax });
  if (!dryRun) control.ordered('rebalance', { reason: reasonIn(words) });
  const asked = { dryRun, ...(movesMax === undefined ? {} : { movesMax }) };
  const result = await order<RebalanceResult>(control, 'rebalance', asked);
  const names = new Map(core.members().map(({ id, name }) => [id, name]));
  const moves = result.moves.map((move) => {
    const { from: fromId, to: toId } = move;
    return { ...move, from: names.get(fromId) ?? fromId, fromId, to: names.get(toId) ?? toId, toId };
  });
  return { ...result, moves };
}

export async function addManager(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name, host, port } = member;
  if (!member.roles.includes('manager')) throw new RemusterError('PRECONDITION', `${name} is no manager`);
  if (!isUp(member.state)) throw new RemusterError('PRECONDITION', `${name} is ${member.state}`);
  if (await belongsElsewhere(desk, member))
    throw new RemusterError('PRECONDITION', `${name} belongs to another group of managers`);
  control.ordered('manager-add', { target: name, reason: reasonIn(words) });
  await order(control, 'change-group', { kind: 'add', id, name, host, port });
  return { manager: name, id, standing: 'syncing' };
}

/**
 * A manager of another group of the same name would bring that one's history along. One that was removed while it was
 * away has not heard of that and counts itself in, but it is one of ours.
 */
async function belongsElsewhere(desk: Desk, member: MemberRow): Promise<boolean> {
  const { control, core } = desk;
  const { id, dc } = member;
  const { members } = await groupOf(desk);
  if (members.some((one) => one.id === id)) return false;
  const parts = control.groups.statusParts(() => core.members());
  const ask = groupQuestions(parts.streams, dc, askTimeoutMs);
  const told =
    id === core.identity.id
      ? parts.tell(dc)
      : await reached(
          member,
          toPromise<ToldGroup>((done) => ask(member, done)),
        );
  if (!told.isMember) return false;
  const { entries } = await toPromise<RangeResult>((done) =>
    control.registry.range(onlyKey(dismissedKey(id)), { limit: 1 }, done),
  );
  return entries.length === 0;
}

export async function promoteManager(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name } = member;
  control.ordered('manager-promote', { target: name, reason: reasonIn(words) });
  await order(control, 'change-group', { kind: 'promote', id });
  return { manager: name, id, standing: 'voter' };
}

/** Also one of which membership knows nothing any more. */
export async function removeManager(desk: Desk, word: string): Promise<object> {
  const { core, control, words } = desk;
  const { members } = await groupOf(desk);
  const { id, name } =
    members.find((one) => one.id === word || one.name === word) ?? memberCalled(word, core.members());
  const [dryRun, reason] = [flagIn(words, 'dryRun'), reasonIn(words)];
  if (!dryRun) control.ordered('manager-remove', { target: name, reason });
  const answer = await order(control, 'change-group', { kind: 'remove', id, dryRun, reason });
  return { manager: name, id, ...answer };
}

export async function transfer({ core, control, words }: Desk): Promise<object> {
  const { to } = words;
  if (to !== undefined && typeof to !== 'string')
    throw new RemusterError('BAD_ARGUMENT', 'to must be the name of a manager');
  const target = to === undefined ? undefined : memberCalled(to, core.members());
  control.ordered('transfer', { ...(target === undefined ? {} : { target: target.name }), reason: reasonIn(words) });
  await order(control, 'transfer', target === undefined ? {} : { to: target.id });
  return { to: target?.name ?? null };
}
