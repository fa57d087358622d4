/**
 * Group configurations by log index. A change counts when appended and is undone when truncated; one at a time, so
 * majorities always overlap.
 */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { groupMembersMax } from '../../messages/consensus.ts';
import type { GroupChange, GroupMember } from './state-machine.ts';

type Configuration = { readonly index: number; readonly members: readonly GroupMember[] };

export class ConfigurationLog {
  #versions: Configuration[];
  #voters: readonly NodeId[] = [];
  #byId = new Map<NodeId, GroupMember>();

  constructor(first: Configuration) {
    this.#versions = [first];
    this.#changed();
  }

  get members(): readonly GroupMember[] {
    return this.#latest.members;
  }

  /** Where in the log the present members were made. */
  get index(): number {
    return this.#latest.index;
  }

  /** In the order of their ids. */
  get voters(): readonly NodeId[] {
    return this.#voters;
  }

  get majority(): number {
    return Math.floor(this.#voters.length / 2) + 1;
  }

  get(id: NodeId): GroupMember | undefined {
    return this.#byId.get(id);
  }

  isVoter(id: NodeId): boolean {
    return this.#byId.get(id)?.standing === 'voter';
  }

  /** Members who were asked and are voters make a majority of the configured voters. */
  isMajority(ids: ReadonlySet<NodeId>): boolean {
    let count = 0;
    for (const voter of this.#voters) if (ids.has(voter)) count += 1;
    return this.#voters.length > 0 && count >= this.majority;
  }

  append(index: number, members: readonly GroupMember[]): void {
    assert(index > this.index, 'changes of members come in order');
    this.#versions.push({ index, members });
    this.#changed();
  }

  /** The entries from here on were cut off. */
  truncate(from: number): void {
    assert((this.#versions[0] as Configuration).index < from, 'the members of a snapshot cannot be cut off');
    if (this.index < from) return;
    this.#versions = this.#versions.filter(({ index }) => index < from);
    this.#changed();
  }

  /** As they were when this entry had been applied. */
  at(index: number): readonly GroupMember[] {
    const version = this.#versions.findLast((one) => one.index <= index);
    assert(version !== undefined, `the members at ${index} are forgotten`);
    return version.members;
  }

  /** A snapshot up to here keeps them now. */
  compact(index: number): void {
    this.#versions = [{ index, members: this.at(index) }, ...this.#versions.filter((one) => one.index > index)];
  }

  reset(first: Configuration): void {
    this.#versions = [first];
    this.#changed();
  }

  get #latest(): Configuration {
    return this.#versions.at(-1) as Configuration;
  }

  #changed(): void {
    this.#byId = new Map(this.members.map((member) => [member.id, member]));
    this.#voters = this.members
      .filter(({ standing }) => standing === 'voter')
      .map(({ id }) => id)
      .toSorted();
  }
}

/** The members after a change, or why it cannot be made. */
export function configurationAfter(
  members: readonly GroupMember[],
  change: GroupChange,
  isCaughtUp: (id: NodeId) => boolean,
): readonly GroupMember[] | RemusterError {
  const refuse = (text: string): RemusterError => new RemusterError('PRECONDITION', text, 'no');
  if (change.kind === 'add') {
    if (members.some(({ id }) => id === change.member.id)) return refuse('it is a member already');
    if (members.some(({ name }) => name === change.member.name)) return refuse('another member has that name');
    if (members.length >= groupMembersMax) return refuse(`a group has at most ${groupMembersMax} members`);
    const { id, name, host, port } = change.member;
    return [...members, { id, name, host, port, standing: 'syncing' }];
  }
  const member = members.find(({ id }) => id === change.id);
  if (member === undefined) return refuse('it is no member');
  if (change.kind === 'promote') {
    if (member.standing === 'voter') return refuse('it is a voter already');
    if (!isCaughtUp(change.id)) return refuse('it has not caught up yet');
    return members.map((one) => (one.id === change.id ? { ...one, standing: 'voter' } : one));
  }
  const rest = members.filter(({ id }) => id !== change.id);
  if (!rest.some(({ standing }) => standing === 'voter')) return refuse('it is the last voter');
  return rest;
}
