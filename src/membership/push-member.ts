/**
 * The side of a node without datagrams inside the membership machine: push-link.ts with what it needs. It pings one
 * manager and knows the others by what that manager and whole views tell it; it probes nobody.
 *
 * Any member that can be probed may hear heartbeats; managers and gates are asked first, each node in an order of its
 * own, so that the work is divided. When one does not answer, the next is asked, and the seeds and some of the dead are
 * asked for their view, in case all we know is old. A manager is accused only when the next one has answered: whoever
 * hears nobody has no reason to believe that all others are dead.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Address, Peer } from '../base/ports.ts';
import type { Group, MessageNamed, Purpose } from './group.ts';
import { type HeartbeatTiming, heartbeatTiming } from './heartbeat-timing.ts';
import type { Judge } from './judge.ts';
import { type Member, isLiving, isProbed, standingHash } from './member-table.ts';
import { PushLink } from './push-link.ts';
import type { PushPing } from './push-membership.ts';
import { embeddedBytes, type Spreader } from './spreader.ts';
import type { Newcomer } from './newcomer.ts';
import type { ViewExchange } from './view-exchange.ts';

type Push = Extract<Purpose, { readonly kind: 'push' }>;

/** The one who was asked is there and says no. All other endings are silence. */
const refusals: ReadonlySet<ErrorCode> = new Set(['DRAINED', 'FORBIDDEN', 'NOT_LEADER', 'UNKNOWN_METHOD']);
const deadAskedMax = 3;

export class PushMember {
  readonly #group: Group;
  readonly #judge: Judge;
  readonly #spreader: Spreader;
  readonly #views: ViewExchange;
  readonly #newcomer: Newcomer;
  readonly #link: PushLink;
  readonly #timing: HeartbeatTiming;
  #seeds: readonly Address[] = [];
  #armedMs: number | undefined;
  #askedMs = 0;
  #heardMs = 0;
  #asked: { readonly to: Peer; readonly ping: PushPing } | undefined;
  #again: { readonly to: Peer; readonly ping: PushPing; readonly atMs: number } | undefined;
  /** Which embedded state our manager has of us. */
  #stateKnown: { readonly by: NodeId; readonly version: number | undefined } | undefined;
  /** Managers that did not answer, until another one has, and what is held against them. */
  readonly #silent = new Map<NodeId, string>();

  constructor(group: Group, judge: Judge, spreader: Spreader, views: ViewExchange, newcomer: Newcomer) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.#views = views;
    this.#newcomer = newcomer;
    this.#timing = heartbeatTiming(group.options.probeIntervalMs);
    this.#link = new PushLink(this.#timing, {
      managers: () => this.#managers(),
      own: (to) => this.#own(to),
      ask: (to, ping) => this.#ask(to, ping),
      raiseAbove: (incarnation) => this.#raiseAbove(incarnation),
      accuse: (manager, why) => this.#unheard(manager, why),
      superseded: () => group.self.tell(group.out, 'member.conflict', 'a later life of this node was seen'),
      log: () => {},
    });
  }

  get manager(): NodeId | undefined {
    return this.#link.manager?.id;
  }

  start(seeds: readonly Address[]): void {
    this.#seeds = seeds;
    this.#heardMs = this.#group.out.nowMs;
    this.#link.start(this.#group.out.nowMs);
  }

  stop(): void {
    this.#link.stop();
  }

  /** We have learned of members. */
  look(): void {
    this.#link.look(this.#group.out.nowMs);
  }

  /** No manager has answered of late: what is said of others, and what they say against it, does not reach us. */
  get isDeaf(): boolean {
    const { out, self } = this.#group;
    return !self.hasDatagrams && out.nowMs - this.#heardMs > 2 * this.#timing.pingIntervalMs;
  }

  /** True when we are a member by the word of the one who answered. */
  answered({ id }: Push, ack: MessageNamed<'pushAck'>): boolean {
    const { health, out, table } = this.#group;
    const { incarnation } = this.#group.self;
    const member = table.get(id);
    if (this.isDeaf) this.#judge.excuse(out.nowMs - this.#heardMs);
    this.#heardMs = out.nowMs;
    if (member !== undefined) this.#heard(member, ack);
    this.#stateKnown = { by: id, version: ack.stateVersion };
    health.note('probeSucceeded');
    this.#link.answered(out.nowMs, ack);
    for (const claim of ack.claims) this.#judge.hear(claim, id);
    this.#accuseTheSilent(id);
    if (member !== undefined) this.#views.compared(member);
    if (this.#group.self.incarnation > incarnation) this.#link.hurry(out.nowMs);
    return ack.verdict === 'member';
  }

  unanswered({ seq }: Push, code: ErrorCode | undefined): void {
    const { health, out } = this.#group;
    // Who has taken our heartbeats has room for us: then it is a queue on the way that is full, and soon is not.
    if (code === 'CAPACITY' && this.#link.isHeard) return this.#askAgain(seq);
    if (code === 'CAPACITY' || (code !== undefined && refusals.has(code))) return this.#link.refused(out.nowMs, seq);
    health.note('probeFailed');
    this.#link.unanswered(out.nowMs, seq);
  }

  expire(dueMs: number): void {
    if (this.#armedMs === dueMs) this.#armedMs = undefined;
    const { nowMs } = this.#group.out;
    if (this.#again !== undefined && this.#again.atMs <= nowMs) this.#ask(this.#again.to, this.#again.ping);
    this.#link.expire(nowMs);
  }

  /** At the end of each step: the timer of the link may have moved. */
  arm(): void {
    const { out, self } = this.#group;
    const nextMs = Math.min(this.#link.nextMs ?? Infinity, this.#again?.atMs ?? Infinity);
    if (self.leaving || nextMs === Infinity || (this.#armedMs !== undefined && this.#armedMs <= nextMs)) return;
    const delayMs = Math.max(0, nextMs - out.nowMs);
    this.#armedMs = out.nowMs + delayMs;
    out.after(delayMs, { kind: 'link' });
  }

  #heard(member: Member, ack: MessageNamed<'pushAck'>): void {
    const { out, table, tally } = this.#group;
    const roundTripMs = out.nowMs - this.#askedMs;
    member.heardMs = out.nowMs;
    member.viewHash = ack.viewHash;
    member.probeFailed = false;
    member.roundTrip.note(roundTripMs);
    tally.roundTrip(roundTripMs);
    table.touch(member.id);
  }

  #managers(): readonly Peer[] {
    const { self, table } = this.#group;
    const living = [...table.all()].filter((member) => isLiving(member) && isProbed(member));
    const alive = preferred(living, ({ state }) => state === 'alive');
    const leading = preferred(alive, ({ entry: { roles } }) => roles.includes('manager') || roles.includes('gate'));
    const places = leading.map(({ id, entry }) => ({ entry, place: placeFor(self.id, id) }));
    return places.toSorted((a, b) => a.place - b.place).map(({ entry }) => entry);
  }

  #own(to: NodeId): Omit<PushPing, 'kind' | 'seq' | 'hearsYou'> {
    const { self, health, table } = this.#group;
    const { embedded } = self;
    const known = this.#stateKnown?.by === to ? this.#stateKnown.version : undefined;
    const wanted = embedded !== undefined && embedded.version !== known ? embedded : undefined;
    const manager = table.get(to);
    return {
      incarnation: self.incarnation,
      claims: manager === undefined ? [] : this.#spreader.claimsFor(manager, embeddedBytes(wanted?.parts)),
      datagrams: false,
      health: health.score,
      stuck: self.stuck,
      lagMs: self.lagMs,
      viewHash: this.#spreader.viewHash,
      stateVersion: wanted?.version,
      state: wanted?.parts ?? [],
    };
  }

  #ask(to: Peer, message: PushPing): void {
    const { out } = this.#group;
    this.#askedMs = out.nowMs;
    this.#asked = { to, ping: message };
    this.#again = undefined;
    const purpose = { kind: 'push', id: to.id, seq: message.seq } as const;
    out.put({ kind: 'request', to, message, timeoutMs: this.#timing.pingIntervalMs, purpose });
  }

  /** The same question: when it gets no answer within its interval it is one that was missed, as any other. */
  #askAgain(seq: number): void {
    const { out } = this.#group;
    if (this.#asked?.ping.seq === seq)
      this.#again = { ...this.#asked, atMs: out.nowMs + this.#timing.pingIntervalMs / 4 };
  }

  #raiseAbove(incarnation: number): void {
    const { out, self } = this.#group;
    if (!self.leaving) out.put({ kind: 'remember', writes: [self.raiseAbove(incarnation)] });
  }

  #unheard(manager: Peer, why: string): void {
    const { table } = this.#group;
    const member = table.get(manager.id);
    if (member !== undefined) {
      this.#silent.set(manager.id, why);
      member.probeFailed = true;
      table.touch(manager.id);
    }
    const dead = table.pick(deadAskedMax, (one) => one.state === 'dead' && isProbed(one));
    this.#newcomer.greet([...this.#seeds, ...dead.map(({ entry }) => entry)]);
  }

  #accuseTheSilent(answeredBy: NodeId): void {
    const { table } = this.#group;
    const isAlone = this.#silent.size === 1;
    for (const [id, why] of this.#silent) {
      const member = table.get(id);
      if (isAlone && member?.state === 'alive' && id !== answeredBy) this.#judge.accuse(member, false, new Map(), why);
      if (member !== undefined) member.probeFailed = false;
      table.touch(id);
    }
    this.#silent.clear();
  }
}

/** Those that fit, or all when none does. */
function preferred(members: readonly Member[], fits: (member: Member) => boolean): readonly Member[] {
  const fitting = members.filter(fits);
  return fitting.length > 0 ? fitting : members;
}

/** Where a manager stands in the order of this node. */
function placeFor(self: NodeId, manager: NodeId): number {
  return standingHash(`${self}>${manager}` as NodeId, { generation: 0, incarnation: 0, state: 'alive' });
}
