/** The context of an admin action: node, control plane, arguments; and helpers that send commands to the leader. */
import { RemusterError, isRemusterError, toPromise } from '../../base/errors.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { type GroupStatus, groupStatus } from '../group/group-status.ts';
import type { CommandArguments } from '../control-plane/command-arguments.ts';
import type { LeaderCommandVerb } from '../control-plane/leader-commands.ts';
import type { NodeCore } from '../core/node-core-types.ts';
import type { MemberRow } from '../membership/member-rows.ts';

/** The node that executes the command, its control plane, and the arguments. */
export type AdminContext = { readonly core: NodeCore; readonly control: ControlPlane; readonly args: CommandArguments };

export const adminTimeoutMs = 8_000;

export function requireControlPlane({ control }: NodeCore): ControlPlane {
  if (control !== undefined) return control;
  throw new RemusterError(
    'PRECONDITION',
    'this node runs with registry none and takes part only in membership: ask another node',
    'no',
  );
}

export function argumentsOfBody(body: unknown): CommandArguments {
  if (body === undefined || body === null) return {};
  if (typeof body === 'object' && !Array.isArray(body)) return body as CommandArguments;
  throw new RemusterError('BAD_ARGUMENT', 'the body must be a JSON object');
}

export async function sendLeaderCommand<Result extends object>(
  control: ControlPlane,
  verb: LeaderCommandVerb,
  args: object,
): Promise<Result> {
  return (await toPromise<unknown>((done) => control.commands.send(verb, args, adminTimeoutMs, done))) as Result;
}

/** Each datacenter decides about its own nodes. */
export function requireSameDatacenter({ core }: AdminContext, { name, dc }: MemberRow): void {
  const { dc: own, name: self } = core.identity;
  if (dc === own) return;
  throw new RemusterError('PRECONDITION', `${name} is in ${dc}, and ${self} is in ${own}: ask a node of ${dc}`, 'no');
}

/** Only this one node is unreachable, not the cluster, so the command must not exit with the code of UNREACHABLE. */
export async function unreachableAsPrecondition<T>({ name }: MemberRow, result: Promise<T>): Promise<T> {
  return await result.catch((error: unknown) => {
    if (!isRemusterError(error, 'UNREACHABLE')) throw error;
    throw new RemusterError('PRECONDITION', `${name} cannot be reached: check that it runs`, error.stateChanged);
  });
}

export async function groupStatusOf({ core, control }: AdminContext): Promise<GroupStatus> {
  return await groupStatus(
    control.groupInfo.statusSources(() => core.members()),
    core.identity.dc,
  );
}
