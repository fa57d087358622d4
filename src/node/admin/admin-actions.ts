/**
 * All admin actions by name. A command about another datacenter is forwarded once, to a node there, which executes it
 * like a command of its own operator.
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

type AdminAction = (context: AdminContext, name: string) => Promise<object>;

function onMember(action: (context: AdminContext, member: MemberRow) => Promise<object>): AdminAction {
  return (context, name) => action(context, requireMember(name, context.core.members()));
}

const adminActions = {
  show: onMember(show),
  drain: onMember(drain),
  activate: onMember(activate),
  leave: onMember(leave),
  addManager: onMember(addManager),
  promoteManager: onMember(promoteManager),
  /** Also of a manager that membership no longer knows. */
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
} satisfies Record<string, AdminAction>;

export type AdminActionName = keyof typeof adminActions;

/** `name` of a node or `dc` of a datacenter; without both the datacenter of this node. */
export type AdminCommand = {
  readonly action: AdminActionName;
  readonly name?: string | undefined;
  readonly dc?: string | undefined;
};

const forwardTimeoutMs = adminTimeoutMs + 1_000;

export async function executeAdminCommand(
  core: NodeCore,
  { action, name, dc }: AdminCommand,
  body: unknown,
): Promise<object> {
  const control = requireControlPlane(core);
  const args = argumentsOfBody(body);
  const targetDc = dc ?? dcOf(core.members(), name) ?? core.identity.dc;
  if (targetDc === core.identity.dc) return await adminActions[action]({ core, control, args }, name ?? '');
  const command = { act: action, name: name ?? '', words: args };
  const to = nodeIn(core.members(), targetDc);
  const result = await toPromise<unknown>((done) =>
    control.commands.forwardToDatacenter(to, command, forwardTimeoutMs, done),
  );
  return result as object;
}

/** Executes a command of a node of another datacenter. Never forwards it again. */
export function handleForwardedAdminCommand(core: NodeCore, command: unknown, done: Done<object>): void {
  const execute = async (): Promise<void> => done(await outcomeOf(() => executeHere(core, commandArguments(command))));
  void execute();
}

/** Creates or deletes a pool for a client; all other admin actions are for operators. */
export function handlePoolRequest(core: NodeCore, act: 'create' | 'delete', spec: string, done: Done<string>): void {
  const command = { action: act === 'create' ? 'createPool' : 'deletePool' } as const;
  const execute = async (): Promise<void> => {
    const outcome = await outcomeOf(() => executeAdminCommand(core, command, parseSpec(spec)));
    done(outcome.ok ? success(JSON.stringify(outcome.value)) : outcome);
  };
  void execute();
}

function parseSpec(spec: string): unknown {
  try {
    return JSON.parse(spec);
  } catch {
    throw new RemusterError('BAD_ARGUMENT', 'the description of the pool is not JSON');
  }
}

async function outcomeOf(run: () => Promise<object>): Promise<Outcome<object>> {
  try {
    return success(await run());
  } catch (error) {
    return isRemusterError(error) ? { ok: false, error } : failure('INTERNAL');
  }
}

/** The field names `act` and `words` are part of the protocol between nodes. */
async function executeHere(core: NodeCore, { act, name, words }: CommandArguments): Promise<object> {
  if (typeof act !== 'string' || !Object.hasOwn(adminActions, act) || typeof name !== 'string')
    throw new RemusterError('UNKNOWN_METHOD', 'this version has no such admin command');
  return await adminActions[act as AdminActionName](
    { core, control: requireControlPlane(core), args: argumentsOfBody(words) },
    name,
  );
}

/** Undefined if no member has that name; the action then reports it. */
function dcOf(members: readonly MemberRow[], name: string | undefined): string | undefined {
  const exists = members.some((one) => one.id === name || one.name === name);
  return exists && name !== undefined ? requireMember(name, members).dc : undefined;
}

/** Prefers a manager, because commands need the registry. */
function nodeIn(members: readonly MemberRow[], dc: string): MemberRow {
  const candidates = members.filter((member) => member.dc === dc);
  if (candidates.length === 0)
    throw new RemusterError('BAD_ARGUMENT', `no member is in the datacenter ${JSON.stringify(dc)}`);
  const alive = candidates.filter(({ state }) => isLiveState(state));
  const best = alive.find(({ roles }) => roles.includes('manager')) ?? alive[0];
  if (best !== undefined) return best;
  throw new RemusterError('PRECONDITION', `no node of the datacenter ${dc} is alive`, 'no');
}
