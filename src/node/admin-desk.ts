/** What the orders of operators have in common: the node that takes them, the words, and how they are passed on. */
import { RemusterError, isRemusterError, toPromise } from '../base/errors.ts';
import type { Control } from './control/control.ts';
import { type GroupStatus, groupStatus } from './control/group-status.ts';
import type { OrderWords } from './control/order-words.ts';
import type { LeaderVerb } from './control/orders.ts';
import type { NodeCore } from './core.ts';
import type { MemberRow } from './own-truth.ts';

/** What an order needs: the node that takes it, its part in agreement, and what was said. */
export type Desk = { readonly core: NodeCore; readonly control: Control; readonly words: OrderWords };

export const orderTimeoutMs = 8_000;

export function controlOf({ control }: NodeCore): Control {
  if (control !== undefined) return control;
  throw new RemusterError('PRECONDITION', 'this node was started with registry none: it is a member and no more');
}

export function fieldsOf(body: unknown): OrderWords {
  if (body === undefined || body === null) return {};
  if (typeof body === 'object' && !Array.isArray(body)) return body as OrderWords;
  throw new RemusterError('BAD_ARGUMENT', 'the body must be a JSON object');
}

export async function order<Answer extends object>(control: Control, verb: LeaderVerb, words: object): Promise<Answer> {
  return (await toPromise<unknown>((done) => control.orders.give(verb, words, orderTimeoutMs, done))) as Answer;
}

/** Each datacenter decides for itself. */
export function refuseElsewhere({ core }: Desk, { name, dc }: MemberRow): void {
  const { dc: own, name: self } = core.identity;
  if (dc === own) return;
  throw new RemusterError('PRECONDITION', `${name} is in ${dc}, and ${self} is in ${own}: ask a node of ${dc}`);
}

/** The cluster is here; it is this one node that does not answer. */
export async function reached<T>({ name }: MemberRow, answer: Promise<T>): Promise<T> {
  return await answer.catch((error: unknown) => {
    if (!isRemusterError(error, 'UNREACHABLE')) throw error;
    throw new RemusterError('PRECONDITION', `${name} cannot be reached`);
  });
}

export async function groupOf({ core, control }: Desk): Promise<GroupStatus> {
  return await groupStatus(
    control.groups.statusParts(() => core.members()),
    core.identity.dc,
  );
}
