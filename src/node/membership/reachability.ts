/**
 * Which member receives from which: requests the view of every living member. A member without a timely reply is listed
 * as unanswered and has no rows.
 */
import type { Outcome } from '../../base/errors.ts';
import type { Address, Streams } from '../../base/ports.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';

export type ReachabilityRow = {
  readonly from: string;
  readonly to: string;
  /** The state of `to` in the view of `from`. */
  readonly state: MemberView['state'];
  /** Time since `from` last received something from `to`. */
  readonly silentMs: number;
  readonly roundTripMs: number | null;
};

export type Reachability = {
  readonly nodes: readonly string[];
  readonly hearings: readonly ReachabilityRow[];
  /** Members that did not send their view in time. */
  readonly unanswered: readonly string[];
};

type RequestMemberView = (to: Address, done: (members: readonly MemberView[] | undefined) => void) => void;

/** Requests the view of one node. */
export function memberViewRequester(streams: Pick<Streams, 'request'>, timeoutMs: number): RequestMemberView {
  const request = encodeMessage({ kind: 'listMembers' });
  return (to, done) => void streams.request(to, request, timeoutMs, (outcome) => done(viewIn(outcome)));
}

export function measureReachability(
  own: readonly MemberView[],
  self: string,
  requestView: RequestMemberView,
  done: (result: Reachability) => void,
): void {
  const living = own.filter(({ state }) => state !== 'dead' && state !== 'left');
  const others = living.filter(({ entry }) => entry.name !== self);
  const hearings = own.map((view) => rowOf(self, view)).filter(({ to }) => to !== self);
  const unanswered: string[] = [];
  let pending = others.length;
  const end = (): void => done({ nodes: living.map(({ entry }) => entry.name), hearings, unanswered });
  if (pending === 0) return end();
  for (const { entry } of others) {
    requestView(entry, (members) => {
      if (members === undefined) unanswered.push(entry.name);
      else hearings.push(...members.map((view) => rowOf(entry.name, view)).filter(({ to }) => to !== entry.name));
      pending -= 1;
      if (pending === 0) end();
    });
  }
}

function rowOf(from: string, { entry, state, silentMs, roundTripUs }: MemberView): ReachabilityRow {
  return { from, to: entry.name, state, silentMs, roundTripMs: roundTripUs === undefined ? null : roundTripUs / 1_000 };
}

function viewIn(outcome: Outcome<Uint8Array>): readonly MemberView[] | undefined {
  if (!outcome.ok) return undefined;
  try {
    const message = decodeMessage(outcome.value);
    return message.kind === 'listMembersReply' ? message.members : undefined;
  } catch {
    return undefined;
  }
}
