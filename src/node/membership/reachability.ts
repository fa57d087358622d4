/**
 * Who hears whom: asks every living member for its view. A member that does not answer in time is named, its row is
 * missing.
 */
import type { Outcome } from '../../base/errors.ts';
import type { Address, Streams } from '../../base/ports.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';

export type ReachabilityRow = {
  readonly from: string;
  readonly to: string;
  /** What `from` believes of `to`. */
  readonly state: MemberView['state'];
  /** How long `from` has not heard `to`. */
  readonly silentMs: number;
  readonly roundTripMs: number | null;
};

export type Reachability = {
  readonly nodes: readonly string[];
  readonly hearings: readonly ReachabilityRow[];
  /** Members that did not say whom they hear. */
  readonly unanswered: readonly string[];
};

type Ask = (to: Address, done: (members: readonly MemberView[] | undefined) => void) => void;

/** Asks one node for its view. */
export function memberViewRequester(streams: Pick<Streams, 'request'>, timeoutMs: number): Ask {
  const question = encodeMessage({ kind: 'listMembers' });
  return (to, done) => void streams.request(to, question, timeoutMs, (outcome) => done(viewIn(outcome)));
}

export function measureReachability(
  own: readonly MemberView[],
  self: string,
  ask: Ask,
  done: (result: Reachability) => void,
): void {
  const living = own.filter(({ state }) => state !== 'dead' && state !== 'left');
  const others = living.filter(({ entry }) => entry.name !== self);
  const hearings = own.map((view) => hearingOf(self, view)).filter(({ to }) => to !== self);
  const unanswered: string[] = [];
  let waiting = others.length;
  const end = (): void => done({ nodes: living.map(({ entry }) => entry.name), hearings, unanswered });
  if (waiting === 0) return end();
  for (const { entry } of others) {
    ask(entry, (members) => {
      if (members === undefined) unanswered.push(entry.name);
      else hearings.push(...members.map((view) => hearingOf(entry.name, view)).filter(({ to }) => to !== entry.name));
      waiting -= 1;
      if (waiting === 0) end();
    });
  }
}

function hearingOf(from: string, { entry, state, silentMs, roundTripUs }: MemberView): ReachabilityRow {
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
