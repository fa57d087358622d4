/**
 * A cluster of membership machines alone: messages are passed as values, nothing is encoded or stored, so a hundred
 * nodes run thousands of times faster than real time. Workloads simulate whole nodes, with disks and codecs.
 */
import { type NodeId, nodeIdFrom } from '../../../src/base/ids.ts';
import type { Address, Identity } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import { MemberTable, type MemberTableLike } from '../../../src/membership/state/member-table.ts';
import { Membership } from '../../../src/membership/membership.ts';
import type { MembershipEventType } from '../../../src/membership/state/membership-event.ts';
import type { MembershipOptions } from '../../../src/membership/state/options.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { MembershipNode } from './membership-node.ts';
import { SharedMemberList, SharedMemberTable, joinClaimOf } from './shared-member-table.ts';

type TableOf = (self: Identity, random: Random) => MemberTableLike | undefined;

export type ObservedEvent = {
  readonly atMs: number;
  readonly observer: MembershipNode;
  readonly type: MembershipEventType;
  readonly subject: NodeId;
  readonly why: string;
};

/** The state of the links of one node. */
export type LinkFault = { readonly inboundCut: boolean; readonly outboundLossRatio: number };

const delayMinMs = 0.2;
const delayMaxMs = 1;
/** TCP retransmits after this time, then after twice as long, and so on. */
const retransmitMs = 200;

export class MembershipCluster {
  readonly timeline = new Timeline();
  readonly random: Random;
  readonly nodes: MembershipNode[] = [];
  readonly seen: ObservedEvent[] = [];
  readonly faults = new Map<MembershipNode, LinkFault>();
  /** Datagrams, requests and replies sent so far. */
  messages = 0;
  readonly #byPort = new Map<number, MembershipNode>();

  constructor(seed: string) {
    this.random = new Random(seed);
  }

  /** Adds nodes that know no other member. */
  add(count: number, options: MembershipOptions): readonly MembershipNode[] {
    return this.#add(count, options, () => undefined);
  }

  /** Adds nodes that know each other, with a `full` table each or a `shared` one for very many. */
  addKnown(count: number, options: MembershipOptions, tables: 'full' | 'shared'): readonly MembershipNode[] {
    const entries = Array.from({ length: count }, (_, place) => this.#identity(this.nodes.length + place));
    const list = new SharedMemberList(entries);
    return this.#add(count, options, (self, random) => {
      if (tables === 'shared') return new SharedMemberTable(list, self, random);
      const table = new MemberTable(self.id, options.membersMax, random);
      for (const entry of entries) if (entry.id !== self.id) table.apply(joinClaimOf(entry), 0);
      return table;
    });
  }

  startAll(): void {
    for (const node of this.nodes) node.start([]);
  }

  get nowMs(): number {
    return this.timeline.nowMs;
  }

  run(untilMs: number): void {
    this.timeline.runUntil(untilMs);
  }

  find(address: Address): MembershipNode | undefined {
    return this.#byPort.get(address.port);
  }

  /** A datagram arrives after a delay, or never. */
  carry(from: MembershipNode, to: MembershipNode, arrive: () => void): void {
    if (this.#isCut(to) || this.random.chance(this.#loss(from))) return;
    this.timeline.after(this.#delayMs(), arrive);
  }

  /** One direction of an exchange by stream: lost packets are retransmitted with growing delays. */
  stream(from: MembershipNode, to: MembershipNode, arrive: () => void): void {
    if (this.#isCut(to)) return;
    let delayMs = this.#delayMs();
    for (let waitMs = retransmitMs; this.random.chance(this.#loss(from)); waitMs *= 2) delayMs += waitMs;
    this.timeline.after(delayMs, arrive);
  }

  #add(count: number, options: MembershipOptions, tableOf: TableOf): readonly MembershipNode[] {
    const added = Array.from({ length: count }, (_, place) => {
      const index = this.nodes.length + place;
      const identity = this.#identity(index);
      const random = this.random.fork(`node ${index}`);
      const table = tableOf(identity, random.fork('table'));
      return new MembershipNode(this, identity, new Membership(identity, 0, options, random, table));
    });
    this.nodes.push(...added);
    for (const node of added) this.#byPort.set(node.identity.port, node);
    return added;
  }

  #identity(index: number): Identity {
    const id = nodeIdFrom(this.random.fork(`id ${index}`).bytes(16));
    const [host, port] = ['127.0.0.1', index + 1];
    return { id, name: `n${index + 1}`, host, port, generation: 1, roles: ['worker'], dc: 'dc1' };
  }

  #delayMs(): number {
    return this.random.between(delayMinMs, delayMaxMs);
  }

  #isCut(to: MembershipNode): boolean {
    return this.faults.get(to)?.inboundCut ?? false;
  }

  #loss(from: MembershipNode): number {
    return this.faults.get(from)?.outboundLossRatio ?? 0;
  }
}
