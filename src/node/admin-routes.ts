/**
 * What operators order over HTTP: drain and activate nodes, let them leave, even out the load, change the group of
 * managers. Any node takes an order; what only the leader or the node itself can do is passed on to it. An order that
 * would cost quorum or data is refused with PRECONDITION and says what stands in the way. What was ordered, and why,
 * stands in the events of the node that took the order.
 */
import { RemusterError, isRemusterError, promised } from '../base/errors.ts';
import type { HttpAnswer, HttpRequest, HttpRoute } from '../base/http.ts';
import type { NodeId } from '../base/ids.ts';
import type { DrainProgress } from '../registry/assignment/drain.ts';
import { type RebalanceResult, rebalanceLimits } from '../registry/assignment/rebalancer.ts';
import { activateNode } from '../registry/registration/activate.ts';
import type { Control } from './control/control.ts';
import { groupQuestions } from './control/group-questions.ts';
import { groupStatus, isUp } from './control/group-status.ts';
import { type OrderWords, countIn, flagIn, reasonIn } from './control/order-words.ts';
import type { LeaderVerb } from './control/orders.ts';
import type { NodeCore } from './core.ts';
import { memberCalled } from './member-routes.ts';
import type { MemberRow } from './own-truth.ts';
import { milliseconds } from './option-types.ts';

const schemaVersion = 1;
const orderTimeoutMs = 8_000;
const askTimeoutMs = 2_000;

/** What an order needs: the node that takes it, its part in agreement, and what was said. */
type Desk = { readonly core: NodeCore; readonly control: Control; readonly words: OrderWords };

type Handler = (desk: Desk, request: HttpRequest) => Promise<object>;

export function adminRoutes(core: NodeCore): readonly HttpRoute[] {
  const route = (method: HttpRoute['method'], path: string, handler: Handler): HttpRoute => ({
    method,
    path,
    handler: async (request) => {
      const desk = { core, control: controlOf(core), words: fieldsOf(request.body) };
      return thing(await handler(desk, request));
    },
  });
  const about =
    (handler: (desk: Desk, member: MemberRow) => Promise<object>): Handler =>
    (desk, { params }) =>
      handler(desk, memberCalled(params['name'] ?? '', core.members()));
  return [
    route('GET', '/v1/nodes/:name', about(show)),
    route('POST', '/v1/nodes/:name/drain', about(drain)),
    route('POST', '/v1/nodes/:name/activate', about(activate)),
    route('POST', '/v1/nodes/:name/leave', about(leave)),
    route('GET', '/v1/balance', async ({ control }) => await promised((done) => control.operations.balance(done))),
    route('POST', '/v1/rebalance', rebalance),
    route('POST', '/v1/managers/:name/add', about(addManager)),
    route('POST', '/v1/managers/:name/promote', about(promoteManager)),
    route('POST', '/v1/managers/:name/remove', (desk, { params }) => removeManager(desk, params['name'] ?? '')),
    route('POST', '/v1/transfer', transfer),
  ];
}

function thing(body: object): HttpAnswer {
  return { status: 200, json: { schemaVersion, ...body } };
}

export function controlOf({ control }: NodeCore): Control {
  if (control !== undefined) return control;
  throw new RemusterError('PRECONDITION', 'this node was started with registry none: it is a member and no more');
}

export function fieldsOf(body: unknown): OrderWords {
  if (body === undefined || body === null) return {};
  if (typeof body === 'object' && !Array.isArray(body)) return body as OrderWords;
  throw new RemusterError('BAD_ARGUMENT', 'the body must be a JSON object');
}

async function order<Answer extends object>(control: Control, verb: LeaderVerb, words: object): Promise<Answer> {
  return (await promised<unknown>((done) => control.orders.give(verb, words, orderTimeoutMs, done))) as Answer;
}

/** Each datacenter decides for itself. */
function refuseElsewhere({ core }: Desk, { name, dc }: MemberRow): void {
  const { dc: own, name: self } = core.identity;
  if (dc === own) return;
  throw new RemusterError('PRECONDITION', `${name} is in ${dc}, and ${self} is in ${own}: ask a node of ${dc}`);
}

/** What membership knows is shown also while the registry cannot be asked. */
async function show(desk: Desk, member: MemberRow): Promise<object> {
  const { control, core } = desk;
  const state = control.stateOf(member.id);
  const since = state === undefined ? null : new Date(state.sinceWallMs).toISOString();
  const { reason = null, note = '', lost = false } = state ?? {};
  const isHere = member.dc === core.identity.dc;
  const progress = isHere ? await progressOf(control, member.id).catch(nothingIfUnknown) : null;
  return { ...member, reason, since, note, lost, drain: progress };
}

function nothingIfUnknown(error: unknown): null {
  if (isRemusterError(error)) return null;
  throw error;
}

async function progressOf(control: Control, id: NodeId): Promise<DrainProgress> {
  return await promised((done) => control.operations.drainProgress(id, done));
}

async function drain(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name } = member;
  const deadlineMs = durationIn(words, 'deadline');
  const note = reasonIn(words);
  if (flagIn(words, 'dryRun')) {
    const blockedBy = await promised<readonly string[]>((done) => control.operations.drainPreflight(id, done));
    const { remaining } = await progressOf(control, id);
    return { node: name, id, dryRun: true, remaining, blockedBy };
  }
  control.ordered('drain', { target: name, reason: note });
  const request = { note, ...(deadlineMs === undefined ? {} : { deadlineMs }) };
  const progress = await promised<object>((done) => control.operations.drain(id, request, done));
  return { ...progress, node: name, id };
}

function durationIn(words: OrderWords, field: string): number | undefined {
  if (words[field] === undefined) return undefined;
  const ms = milliseconds(words[field]);
  if (ms === undefined) throw new RemusterError('BAD_ARGUMENT', `${field} must be a duration such as 60s`);
  return ms;
}

async function activate(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name } = member;
  const note = reasonIn(words);
  control.ordered('activate', { target: name, reason: note });
  const { mode, reason } = await promised<{ readonly mode: string; readonly reason: string }>((done) =>
    activateNode(control, { node: id, note }, done),
  );
  return { node: name, id, registration: mode, reason };
}

/** Only of what holds nothing and votes on nothing: the node itself is told, unregisters and ends. */
async function leave(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name } = member;
  if (!isUp(member.state))
    throw new RemusterError('PRECONDITION', `${name} is ${member.state}: there is nobody to tell`);
  const blockedBy = await leaveBlockers(desk, member);
  if (flagIn(words, 'dryRun')) return { node: name, id, dryRun: true, blockedBy };
  if (blockedBy.length > 0) throw new RemusterError('PRECONDITION', blockedBy.join('; '));
  const reason = reasonIn(words);
  control.ordered('leave', { target: name, reason });
  await promised<unknown>((done) => control.orders.tellToLeave(id, { reason }, orderTimeoutMs, done));
  return { node: name, id, left: true };
}

async function leaveBlockers({ core, control }: Desk, { id, name, dc }: MemberRow): Promise<string[]> {
  const { phase, remaining, adrift } = await progressOf(control, id);
  const others = core.members().filter((one) => one.id !== id && one.dc === dc && one.registration === 'active');
  const blockers: string[] = [];
  if (phase !== 'drained' && others.length > 0) blockers.push(`${name} is not drained: drain it first`);
  if (remaining + adrift > 0) blockers.push(`${name} still holds ${remaining}, and ${adrift} wait for another node`);
  const group = await groupStatus(
    control.statusParts(() => core.members()),
    dc,
  );
  if (group.members.some((one) => one.id === id))
    blockers.push(`${name} belongs to the group of managers: remove it first`);
  return blockers;
}

async function rebalance({ core, control, words }: Desk): Promise<object> {
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

/** A manager that belongs to another group of the same name would bring that one's history along. */
async function addManager(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name, host, port } = member;
  if (!member.roles.includes('manager')) throw new RemusterError('PRECONDITION', `${name} is no manager`);
  if (!isUp(member.state)) throw new RemusterError('PRECONDITION', `${name} is ${member.state}`);
  const ask = groupQuestions(control.statusParts(() => []).streams, member.dc, askTimeoutMs);
  const told = await promised<Parameters<typeof belongsElsewhere>[0]>((done) => ask(member, done));
  if (belongsElsewhere(told, id))
    throw new RemusterError('PRECONDITION', `${name} belongs to another group of managers`);
  control.ordered('manager-add', { target: name, reason: reasonIn(words) });
  await order(control, 'change-group', { kind: 'add', id, name, host, port });
  return { manager: name, id, standing: 'syncing' };
}

/** One that was removed while it was away has not heard of that; it may still count itself in. */
function belongsElsewhere(
  told: { readonly belongs: boolean; readonly members: readonly { readonly id: NodeId }[]; readonly leader: unknown },
  id: NodeId,
): boolean {
  return told.belongs && !told.members.some((one) => one.id === id) && told.leader !== undefined;
}

async function promoteManager(desk: Desk, member: MemberRow): Promise<object> {
  refuseElsewhere(desk, member);
  const { control, words } = desk;
  const { id, name } = member;
  control.ordered('manager-promote', { target: name, reason: reasonIn(words) });
  await order(control, 'change-group', { kind: 'promote', id });
  return { manager: name, id, standing: 'voter' };
}

/** Also one of which membership knows nothing any more. */
async function removeManager({ core, control, words }: Desk, word: string): Promise<object> {
  const { members } = await groupStatus(
    control.statusParts(() => core.members()),
    core.identity.dc,
  );
  const { id, name } =
    members.find((one) => one.id === word || one.name === word) ?? memberCalled(word, core.members());
  const [dryRun, reason] = [flagIn(words, 'dryRun'), reasonIn(words)];
  if (!dryRun) control.ordered('manager-remove', { target: name, reason });
  const answer = await order(control, 'change-group', { kind: 'remove', id, dryRun, reason });
  return { manager: name, id, ...answer };
}

async function transfer({ core, control, words }: Desk): Promise<object> {
  const { to } = words;
  if (to !== undefined && typeof to !== 'string')
    throw new RemusterError('BAD_ARGUMENT', 'to must be the name of a manager');
  const target = to === undefined ? undefined : memberCalled(to, core.members());
  control.ordered('transfer', { ...(target === undefined ? {} : { target: target.name }), reason: reasonIn(words) });
  await order(control, 'transfer', target === undefined ? {} : { to: target.id });
  return { to: target?.name ?? null };
}
