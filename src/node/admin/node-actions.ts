/** Admin actions on one node. An action that would lose data is rejected with PRECONDITION and the reason. */
import { RemusterError, isRemusterError, toPromise } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { DrainProgress } from '../../placement/operations/drain-progress.ts';
import type { NodeSnapshot } from '../../placement/operations/node-operations.ts';
import { activateNodeState } from '../../registration/node-activation.ts';
import type { NodeStateRecord } from '../../registration/registration-records.ts';
import {
  type AdminContext,
  groupStatusOf,
  adminTimeoutMs,
  unreachableAsPrecondition,
  requireSameDatacenter,
} from './admin-context.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { isLiveState } from '../group/group-status.ts';
import { type CommandArguments, booleanArgument, reasonArgument } from '../control-plane/command-arguments.ts';
import { type MemberRow, currentMode } from '../membership/member-rows.ts';
import { parseOptionDuration } from '../options/option-types.ts';

/**
 * Shows registration, reason and drain of one read. If the registry cannot be reached: what the directory of this node
 * knows, which may lag, and no drain.
 */
export async function show(context: AdminContext, member: MemberRow): Promise<object> {
  const { control, core } = context;
  const isHere = member.dc === core.identity.dc;
  const snapshot = isHere ? await snapshotOf(control, member.id).catch(nothingIfUnknown) : null;
  if (snapshot === null) return { ...member, ...stateFields(control.registration.stateOf(member.id)), drain: null };
  const { isRegistered, state, drain } = snapshot;
  const mode = state === undefined || isRegistered ? state?.mode : 'lost';
  const registered = { registration: currentMode(member.state, mode), registrationReason: state?.reason ?? null };
  return { ...member, ...registered, ...stateFields(state), drain };
}

function stateFields(state: NodeStateRecord | undefined) {
  const since = state === undefined ? null : new Date(state.sinceWallMs).toISOString();
  const { reason = null, note = '', lost = false } = state ?? {};
  return { reason, since, note, lost };
}

async function snapshotOf(control: ControlPlane, id: NodeId): Promise<NodeSnapshot> {
  return await toPromise((done) => control.operations.nodeSnapshot(id, done));
}

function nothingIfUnknown(error: unknown): null {
  if (isRemusterError(error)) return null;
  throw error;
}

async function progressOf(control: ControlPlane, id: NodeId): Promise<DrainProgress> {
  return await toPromise((done) => control.operations.drainProgress(id, done));
}

export async function drain(context: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(context, member);
  const { control, args } = context;
  const { id, name } = member;
  const deadlineMs = durationIn(args, 'deadline');
  const note = reasonArgument(args);
  if (booleanArgument(args, 'dryRun')) {
    const blockedBy = await toPromise<readonly string[]>((done) => control.operations.drainPreflight(id, done));
    const { remaining, containers, copies, warnings } = await progressOf(control, id);
    return { node: name, id, dryRun: true, remaining, containers, copies, blockedBy, warnings };
  }
  control.recordAdminEvent('drain', { target: name, reason: note });
  const request = { note, ...(deadlineMs === undefined ? {} : { deadlineMs }) };
  const progress = await toPromise<object>((done) => control.operations.drain(id, request, done));
  return { ...progress, node: name, id };
}

function durationIn(args: CommandArguments, field: string): number | undefined {
  if (args[field] === undefined) return undefined;
  const ms = parseOptionDuration(args[field]);
  if (ms === undefined)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${field} must be a duration such as 60s, not ${JSON.stringify(args[field])}`,
    );
  return ms;
}

export async function activate(context: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(context, member);
  const { control, args } = context;
  const { id, name } = member;
  if (!isLiveState(member.state)) {
    const text = `${name} is ${member.state}: start it, then activate it`;
    throw new RemusterError('PRECONDITION', text, 'no');
  }
  const note = reasonArgument(args);
  control.recordAdminEvent('activate', { target: name, reason: note });
  const { mode, reason } = await toPromise<{ readonly mode: string; readonly reason: string }>((done) =>
    activateNodeState(control, { node: id, note }, done),
  );
  return { node: name, id, registration: mode, reason };
}

/** Only for a node without containers, units and vote: it removes its registration and ends. */
export async function leave(context: AdminContext, member: MemberRow): Promise<object> {
  requireSameDatacenter(context, member);
  const { control, args } = context;
  const { id, name } = member;
  if (!isLiveState(member.state))
    throw new RemusterError('PRECONDITION', `${name} is ${member.state}: it cannot receive the command to leave`, 'no');
  const blockedBy = await leaveBlockers(context, member);
  if (booleanArgument(args, 'dryRun')) return { node: name, id, dryRun: true, blockedBy };
  if (blockedBy.length > 0) throw new RemusterError('PRECONDITION', blockedBy.join('; '), 'no');
  const reason = reasonArgument(args);
  control.recordAdminEvent('leave', { target: name, reason });
  await unreachableAsPrecondition(
    member,
    toPromise<unknown>((done) => control.commands.sendLeave(id, { reason }, adminTimeoutMs, done)),
  );
  return { node: name, id, left: true };
}

async function leaveBlockers(context: AdminContext, { id, name, dc }: MemberRow): Promise<string[]> {
  const { core, control } = context;
  const { phase, remaining } = await progressOf(control, id);
  const others = core.members().filter((one) => one.id !== id && one.dc === dc && one.registration === 'active');
  const blockers: string[] = [];
  if (phase !== 'drained' && others.length > 0) blockers.push(`${name} is not drained: drain it first`);
  if (remaining > 0) blockers.push(`${name} still holds ${remaining}`);
  const group = await groupStatusOf(context);
  if (group.members.some((one) => one.id === id))
    blockers.push(`${name} belongs to the manager group: remove it first`);
  return blockers;
}
