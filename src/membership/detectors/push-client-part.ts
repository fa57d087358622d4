/**
 * Push client inside the membership machine: picks managers, merges what they gossip. Suspects a manager only after
 * another one answered.
 *
 * Any member that can be probed may hear heartbeats; managers and gates are asked first, each node in an order of its
 * own, so that the work is divided. When one does not answer, the next is asked, and the seeds and some of the dead are
 * asked for their view, in case all we know is old. A manager is accused only when the next one has answered: whoever
 * hears nobody has no reason to believe that all others are dead.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Peer } from '../../base/ports.ts';
import type { MembershipContext, MembershipMessageOf, RequestPurpose } from '../state/context.ts';
import { type HeartbeatTiming, heartbeatTiming } from './heartbeat-timing.ts';
import type { SuspicionPolicy } from '../suspicion/suspicion-policy.ts';
import { type Member, isLiveMember, acceptsProbes, memberStatusHash } from '../state/member-table.ts';
import { PushClient } from './push-client.ts';
import type { PushPing } from './push-server.ts';
import { embeddedBytes, type Gossiper } from '../probe/gossiper.ts';
import type { Joiner } from '../join/joiner.ts';
import type { AntiEntropy } from '../join/anti-entropy.ts';

type Push = Extract<RequestPurpose, { readonly kind: 'push' }>;

/** The one who was asked is there and says no. All other endings are silence. */
const refusals: ReadonlySet<ErrorCode> = new Set(['DRAINED', 'FORBIDDEN', 'NOT_LEADER', 'UNKNOWN_METHOD']);
const deadAskedMax = 3;

export class PushClientPart {
  readonly #group: MembershipContext;
  readonly #judge: SuspicionPolicy;
  readonly #spreader: Gossiper;
  readonly #views: AntiEntropy;
  readonly #newcomer: Joiner;
  readonly #link: PushClient;
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

  constructor(
    group: MembershipContext,
    judge: SuspicionPolicy,
    spreader: Gossiper,
    views: AntiEntropy,
    newcomer: Joiner,
  ) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.#views = views;
    this.#newcomer = newcomer;
    this.#timing = heartbeatTiming(group.options.probeIntervalMs);
    this.#link = new PushClient(this.#timing, {
      managers: () => this.#managers(),
      pingContent: (to) => this.#own(to),
      send: (to, ping) => this.#ask(to, ping),
      raiseAbove: (incarnation) => this.#raiseAbove(incarnation),
      accuse: (manager, why) => this.#noteSilentManager(manager, why),
      superseded: () => group.self.emitEvent(group.outbox, 'member.conflict', 'a later life of this node was seen'),
      log: () => {},
    });
  }

  get manager(): NodeId | undefined {
    return this.#link.manager?.id;
  }

  start(seeds: readonly Address[]): void {
    this.#seeds = seeds;
    this.#heardMs = this.#group.outbox.nowMs;
    this.#link.start(this.#group.outbox.nowMs);
  }

  stop(): void {
    this.#link.stop();
  }

  /** We have learned of members. */
  onMembersLearned(): void {
    this.#link.retryConnect(this.#group.outbox.nowMs);
  }

  /** No manager has answered of late: what is said of others, and what they say against it, does not reach us. */
  get isIsolated(): boolean {
    const { outbox, self } = this.#group;
    return !self.hasDatagrams && outbox.nowMs - this.#heardMs > 2 * this.#timing.pingIntervalMs;
  }

  /** True when we are a member by the word of the one who answered. */
  answered({ id }: Push, ack: MembershipMessageOf<'pushAck'>): boolean {
    const { health, outbox, table } = this.#group;
    const { incarnation } = this.#group.self;
    const member = table.get(id);
    if (this.isIsolated) this.#judge.discountPause(outbox.nowMs - this.#heardMs);
    this.#heardMs = outbox.nowMs;
    if (member !== undefined) this.#heard(member, ack);
    this.#stateKnown = { by: id, version: ack.stateVersion };
    health.record('probeSucceeded');
    this.#link.onAck(outbox.nowMs, ack);
    for (const claim of ack.claims) this.#judge.applyClaim(claim, id);
    this.#suspectSilentManagers(id);
    if (member !== undefined) this.#views.onViewHash(member);
    if (this.#group.self.incarnation > incarnation) this.#link.pingNow(outbox.nowMs);
    return ack.verdict === 'member';
  }

  unanswered({ seq }: Push, code: ErrorCode | undefined): void {
    const { health, outbox } = this.#group;
    // Who has taken our heartbeats has room for us: then it is a queue on the way that is full, and soon is not.
    if (code === 'CAPACITY' && this.#link.isConnected) return this.#askAgain(seq);
    if (code === 'CAPACITY' || (code !== undefined && refusals.has(code)))
      return this.#link.onRefused(outbox.nowMs, seq);
    health.record('probeFailed');
    this.#link.onNoAck(outbox.nowMs, seq);
  }

  expire(dueMs: number): void {
    if (this.#armedMs === dueMs) this.#armedMs = undefined;
    const { nowMs } = this.#group.outbox;
    if (this.#again !== undefined && this.#again.atMs <= nowMs) this.#ask(this.#again.to, this.#again.ping);
    this.#link.expire(nowMs);
  }

  /** At the end of each step: the timer of the link may have moved. */
  arm(): void {
    const { outbox, self } = this.#group;
    const nextMs = Math.min(this.#link.nextMs ?? Infinity, this.#again?.atMs ?? Infinity);
    if (self.leaving || nextMs === Infinity || (this.#armedMs !== undefined && this.#armedMs <= nextMs)) return;
    const delayMs = Math.max(0, nextMs - outbox.nowMs);
    this.#armedMs = outbox.nowMs + delayMs;
    outbox.after(delayMs, { kind: 'link' });
  }

  #heard(member: Member, ack: MembershipMessageOf<'pushAck'>): void {
    const { outbox, table, counters } = this.#group;
    const roundTripMs = outbox.nowMs - this.#askedMs;
    member.heardMs = outbox.nowMs;
    member.viewHash = ack.viewHash;
    member.probeFailed = false;
    member.roundTrip.observe(roundTripMs);
    counters.observeRtt(roundTripMs);
    table.markChanged(member.id);
  }

  #managers(): readonly Peer[] {
    const { self, table } = this.#group;
    const living = [...table.all()].filter((member) => isLiveMember(member) && acceptsProbes(member));
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
    const { outbox } = this.#group;
    this.#askedMs = outbox.nowMs;
    this.#asked = { to, ping: message };
    this.#again = undefined;
    const purpose = { kind: 'push', id: to.id, seq: message.seq } as const;
    outbox.put({ kind: 'request', to, message, timeoutMs: this.#timing.pingIntervalMs, purpose });
  }

  /** The same question: when it gets no answer within its interval it is one that was missed, as any other. */
  #askAgain(seq: number): void {
    const { outbox } = this.#group;
    if (this.#asked?.ping.seq === seq)
      this.#again = { ...this.#asked, atMs: outbox.nowMs + this.#timing.pingIntervalMs / 4 };
  }

  #raiseAbove(incarnation: number): void {
    const { outbox, self } = this.#group;
    if (!self.leaving) outbox.put({ kind: 'remember', writes: [self.raiseIncarnationAbove(incarnation)] });
  }

  #noteSilentManager(manager: Peer, why: string): void {
    const { table } = this.#group;
    const member = table.get(manager.id);
    if (member !== undefined) {
      this.#silent.set(manager.id, why);
      member.probeFailed = true;
      table.markChanged(manager.id);
    }
    const dead = table.pick(deadAskedMax, (one) => one.state === 'dead' && acceptsProbes(one));
    this.#newcomer.askKnown([...this.#seeds, ...dead.map(({ entry }) => entry)]);
  }

  #suspectSilentManagers(answeredBy: NodeId): void {
    const { table } = this.#group;
    const isAlone = this.#silent.size === 1;
    for (const [id, why] of this.#silent) {
      const member = table.get(id);
      if (isAlone && member?.state === 'alive' && id !== answeredBy) this.#judge.suspect(member, false, new Map(), why);
      if (member !== undefined) member.probeFailed = false;
      table.markChanged(id);
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
  return memberStatusHash(`${self}>${manager}` as NodeId, { generation: 0, incarnation: 0, state: 'alive' });
}
