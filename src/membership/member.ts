/**
 * What one node believes about another, and the words for what changed in that belief. Only types and small facts;
 * the rules by which beliefs change stand in member-table.ts.
 */
import type { Identity } from '../base/ports.ts';

/**
 *   unconfirmed --heard--> alive --silent--> probe-failed --silent--> dead --silent--> (forgotten)
 *                            ^                    |                    |
 *                            +------- heard ------+--------------------+
 *   any --goodbye--> left --higher generation--> alive
 *
 * `unconfirmed` is hearsay: somebody named it, it has not been heard yet. It is greeted, but not shown to people.
 */
export type MemberState = 'unconfirmed' | 'alive' | 'probe-failed' | 'dead' | 'left';

export type Member = {
  entry: Identity;
  state: MemberState;
  /** Last proof of life, or the moment when it was learned of. */
  heardMs: number;
  /** Last time it was heard or greeted: who has the oldest contact is greeted next. */
  contactMs: number;
  /** The greeting whose answer counts as proof of life. */
  awaitedId: bigint | undefined;
};

export type MemberEvent = {
  readonly type: 'member.alive' | 'member.probe-failed' | 'member.dead' | 'member.left' | 'member.conflict';
  readonly member: Identity;
  readonly reason: string;
};

/** What is shown of a member: never an unconfirmed one. */
export type MemberView = {
  readonly entry: Identity;
  readonly state: Exclude<MemberState, 'unconfirmed'>;
  readonly silentMs: number;
};
