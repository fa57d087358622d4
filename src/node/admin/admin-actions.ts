/**
 * Every admin action by name. A command about another datacenter is forwarded once to a node there. That node executes
 * it as if it had been asked itself.
 */
import {
  type Done,
  type Outcome,
  RemusterError,
  failure,
  isRemusterError,
  toPromise,
  success,
} from '../../base/errors.ts';
import { type AdminContext, requireControlPlane, argumentsOfBody, adminTimeoutMs } from './admin-context.ts';
import { isLiveState } from '../group/group-status.ts';
import { type CommandArguments, commandArguments } from '../control-plane/command-arguments.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import { addManager, balance, promoteManager, rebalance, removeManager, transfer } from './group-actions.ts';
import { requireMember } from '../membership/member-rows.ts';
import { deployModule, listModules, rollModule, showModule } from './module-actions.ts';
import { activate, drain, leave, show } from './node-actions.ts';
import type { MemberRow } from '../membership/member-rows.ts';
import {
  createPool,
  deletePool,
  explainContainer,
  listPools,
  migrateContainer,
  showContainer,
  showPool,
} from './pool-actions.ts';

type Act = (desk: AdminContext, name: string) => Promise<object>;

function about(act: (desk: AdminContext, member: MemberRow) => Promise<object>): Act {
  return (desk, name) => act(desk, requireMember(name, desk.core.members()));
}

const adminActions = {
  show: about(show),
  drain: about(drain),
  activate: about(activate),
  leave: about(leave),
  addManager: about(addManager),
  promoteManager: about(promoteManager),
  /** Also one of which membership knows nothing any more. */
  removeManager,
  balance,
  rebalance,
  transfer,
  listPools,
  showPool,
  createPool,
  deletePool,
  showContainer,
  explainContainer,
  migrateContainer,
  deployModule,
  listModules,
  showModule,
  rollModule,
} satisfies Record<string, Act>;

export type AdminActionName = keyof typeof adminActions;

/** `name` of a node, or `dc` of a datacenter; without both it is about the datacenter of this node. */
export type AdminCommand = {
  readonly act: AdminActionName;
  readonly name?: string | undefined;
  readonly dc?: string | undefined;
};

const passTimeoutMs = adminTimeoutMs + 1_000;

export async function executeAdminCommand(
  core: NodeCore,
  { act, name, dc }: AdminCommand,
  body: unknown,
): Promise<object> {
  const control = requireControlPlane(core);
  const words = argumentsOfBody(body);
  const where = dc ?? dcOf(core.members(), name) ?? core.identity.dc;
  if (where === core.identity.dc) return await adminActions[act]({ core, control, args: words }, name ?? '');
  const order = { act, name: name ?? '', words };
  const to = somebodyIn(core.members(), where);
  const answer = await toPromise<unknown>((done) =>
    control.commands.forwardToDatacenter(to, order, passTimeoutMs, done),
  );
  return answer as object;
}

/** From a node of another datacenter. It is not passed on again. */
export function handleForwardedAdminCommand(core: NodeCore, order: unknown, done: Done<object>): void {
  const answer = async (): Promise<void> => done(await outcomeOf(() => carriedOutHere(core, commandArguments(order))));
  void answer();
}

/** From an application. What it may order is little: the rest is for operators. */
export function handlePoolRequest(core: NodeCore, act: 'create' | 'delete', words: string, done: Done<string>): void {
  const order = { act: act === 'create' ? 'createPool' : 'deletePool' } as const;
  const answer = async (): Promise<void> => {
    const outcome = await outcomeOf(() => executeAdminCommand(core, order, jsonOf(words)));
    done(outcome.ok ? success(JSON.stringify(outcome.value)) : outcome);
  };
  void answer();
}

function jsonOf(words: string): unknown {
  try {
    return JSON.parse(words);
  } catch {
    throw new RemusterError('BAD_ARGUMENT', 'the words are not JSON');
  }
}

async function outcomeOf(run: () => Promise<object>): Promise<Outcome<object>> {
  try {
    return success(await run());
  } catch (error) {
    return isRemusterError(error) ? { ok: false, error } : failure('INTERNAL');
  }
}

async function carriedOutHere(core: NodeCore, { act, name, words }: CommandArguments): Promise<object> {
  if (typeof act !== 'string' || !Object.hasOwn(adminActions, act) || typeof name !== 'string')
    throw new RemusterError('UNKNOWN_METHOD', 'this version does not know that order');
  return await adminActions[act as AdminActionName](
    { core, control: requireControlPlane(core), args: argumentsOfBody(words) },
    name,
  );
}

/** Undefined when nobody has that name: who is asked here says so. */
function dcOf(members: readonly MemberRow[], name: string | undefined): string | undefined {
  const called = members.some((one) => one.id === name || one.name === name);
  return called && name !== undefined ? requireMember(name, members).dc : undefined;
}

/** A manager if there is one: it is nearest to what it will ask. */
function somebodyIn(members: readonly MemberRow[], dc: string): MemberRow {
  const there = members.filter((member) => member.dc === dc);
  if (there.length === 0)
    throw new RemusterError('BAD_ARGUMENT', `no member is in the datacenter ${JSON.stringify(dc)}`);
  const up = there.filter(({ state }) => isLiveState(state));
  const best = up.find(({ roles }) => roles.includes('manager')) ?? up[0];
  if (best !== undefined) return best;
  throw new RemusterError('PRECONDITION', `no node of ${dc} is alive`, 'no');
}
