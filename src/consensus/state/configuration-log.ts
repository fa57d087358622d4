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
  #configurations: Configuration[];
  #voters: readonly NodeId[] = [];
  #byId = new Map<NodeId, GroupMember>();

  constructor(first: Configuration) {
    this.#configurations = [first];
    this.#updateIndex();
  }

  get members(): readonly GroupMember[] {
    return this.#latest.members;
  }

  /** Log index of the latest configuration. */
  get index(): number {
    return this.#latest.index;
  }

  /** By id. */
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

  /** True if the voters among `ids` are a majority of the configured voters. */
  isMajority(ids: ReadonlySet<NodeId>): boolean {
    let count = 0;
    for (const voter of this.#voters) if (ids.has(voter)) count += 1;
    return this.#voters.length > 0 && count >= this.majority;
  }

  append(index: number, members: readonly GroupMember[]): void {
    assert(index > this.index, 'configurations are appended in order');
    this.#configurations.push({ index, members });
    this.#updateIndex();
  }

  /** The log was truncated from this index on. */
  truncate(from: number): void {
    assert(
      (this.#configurations[0] as Configuration).index < from,
      'the configuration of a snapshot cannot be truncated',
    );
    if (this.index < from) return;
    this.#configurations = this.#configurations.filter(({ index }) => index < from);
    this.#updateIndex();
  }

  /** The configuration as of this index. */
  at(index: number): readonly GroupMember[] {
    const configuration = this.#configurations.findLast((one) => one.index <= index);
    assert(configuration !== undefined, `the configuration at ${index} was compacted`);
    return configuration.members;
  }

  /** A snapshot up to this index holds the earlier configurations. */
  compact(index: number): void {
    this.#configurations = [
      { index, members: this.at(index) },
      ...this.#configurations.filter((one) => one.index > index),
    ];
  }

  reset(first: Configuration): void {
    this.#configurations = [first];
    this.#updateIndex();
  }

  get #latest(): Configuration {
    return this.#configurations.at(-1) as Configuration;
  }

  #updateIndex(): void {
    this.#byId = new Map(this.members.map((member) => [member.id, member]));
    this.#voters = this.members
      .filter(({ standing }) => standing === 'voter')
      .map(({ id }) => id)
      .toSorted();
  }
}

export function notMemberText(name: string): string {
  return `${name} is not a member of the manager group: add it first`;
}

/** The configuration after a change, or why the change is refused. */
export function configurationAfter(
  members: readonly GroupMember[],
  change: GroupChange,
  isCaughtUp: (id: NodeId) => boolean,
): readonly GroupMember[] | RemusterError {
  const refuse = (text: string): RemusterError => new RemusterError('PRECONDITION', text, 'no');
  if (change.kind === 'add') {
    if (members.some(({ id }) => id === change.member.id))
      return refuse(`${change.member.name} is already a member of the manager group: there is nothing to add`);
    if (members.some(({ name }) => name === change.member.name))
      return refuse(`another member has the name ${change.member.name}: remove it first, or choose another name`);
    if (members.length >= groupMembersMax)
      return refuse(`the manager group has ${groupMembersMax} members, the most it can have: remove one first`);
    const { id, name, host, port } = change.member;
    return [...members, { id, name, host, port, standing: 'syncing' }];
  }
  const member = members.find(({ id }) => id === change.id);
  if (member === undefined) return refuse(notMemberText(`node ${change.id}`));
  if (change.kind === 'promote') {
    if (member.standing === 'voter')
      return refuse(`${member.name} is a voter of the manager group already: there is nothing to promote`);
    if (!isCaughtUp(change.id))
      return refuse(
        `${member.name} cannot become a voter yet: it has not caught up with the log; try again in some seconds`,
      );
    return members.map((one) => (one.id === change.id ? { ...one, standing: 'voter' } : one));
  }
  const rest = members.filter(({ id }) => id !== change.id);
  if (!rest.some(({ standing }) => standing === 'voter'))
    return refuse(`${member.name} is the last voter of the manager group: promote another member before you remove it`);
  return rest;
}
