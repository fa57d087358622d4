/**
 * Push client inside the membership machine: chooses managers and merges what they gossip. Never suspects a manager
 * before another one has acknowledged a ping: a node that receives nothing from any member may be isolated itself.
 *
 * Any member with datagrams can receive heartbeats; managers and gates come first, in an order that differs per node,
 * so that the load is spread. While no manager replies, the node also requests the view of its seeds and of some dead
 * members, in case its own view is out of date.
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

/** Codes of a manager that is alive and refuses. Any other failed ping is a miss. */
const refusals: ReadonlySet<ErrorCode> = new Set(['DRAINED', 'FORBIDDEN', 'NOT_LEADER', 'UNKNOWN_METHOD']);
const deadRequestedMax = 3;

export class PushClientPart {
  readonly #context: MembershipContext;
  readonly #policy: SuspicionPolicy;
  readonly #gossiper: Gossiper;
  readonly #antiEntropy: AntiEntropy;
  readonly #joiner: Joiner;
  readonly #client: PushClient;
  readonly #timing: HeartbeatTiming;
  #seeds: readonly Address[] = [];
  #armedMs: number | undefined;
  #sentMs = 0;
  #ackedMs = 0;
  #lastPing: { readonly to: Peer; readonly ping: PushPing } | undefined;
  #resend: { readonly to: Peer; readonly ping: PushPing; readonly atMs: number } | undefined;
  /** The version of the own embedded state that the manager has. */
  #ackedState: { readonly by: NodeId; readonly version: number | undefined } | undefined;
  /** Managers that did not reply, with the evidence, until another manager has replied. */
  readonly #silent = new Map<NodeId, string>();

  constructor(
    context: MembershipContext,
    policy: SuspicionPolicy,
    gossiper: Gossiper,
    antiEntropy: AntiEntropy,
    joiner: Joiner,
  ) {
    this.#context = context;
    this.#policy = policy;
    this.#gossiper = gossiper;
    this.#antiEntropy = antiEntropy;
    this.#joiner = joiner;
    this.#timing = heartbeatTiming(context.options.probeIntervalMs);
    this.#client = new PushClient(this.#timing, {
      managers: () => this.#managers(),
      pingContent: (to) => this.#pingContent(to),
      send: (to, ping) => this.#send(to, ping),
      raiseAbove: (incarnation) => this.#raiseAbove(incarnation),
      accuse: (manager, why) => this.#noteSilentManager(manager, why),
      superseded: () =>
        context.self.emitEvent(context.outbox, 'member.conflict', 'a higher generation of this node was seen'),
      log: () => {},
    });
  }

  get manager(): NodeId | undefined {
    return this.#client.manager?.id;
  }

  start(seeds: readonly Address[]): void {
    this.#seeds = seeds;
    this.#ackedMs = this.#context.outbox.nowMs;
    this.#client.start(this.#context.outbox.nowMs);
  }

  stop(): void {
    this.#client.stop();
  }

  onMembersLearned(): void {
    this.#client.retryConnect(this.#context.outbox.nowMs);
  }

  /** No manager has replied lately, so neither claims nor refutations reach this node. */
  get isIsolated(): boolean {
    const { outbox, self } = this.#context;
    return !self.hasDatagrams && outbox.nowMs - this.#ackedMs > 2 * this.#timing.pingIntervalMs;
  }

  /** True if the manager confirms that this node is a member. */
  onAck({ id }: Push, ack: MembershipMessageOf<'pushAck'>): boolean {
    const { health, outbox, table } = this.#context;
    const { incarnation } = this.#context.self;
    const member = table.get(id);
    if (this.isIsolated) this.#policy.discountPause(outbox.nowMs - this.#ackedMs);
    this.#ackedMs = outbox.nowMs;
    if (member !== undefined) this.#recordReply(member, ack);
    this.#ackedState = { by: id, version: ack.stateVersion };
    health.record('probeSucceeded');
    this.#client.onAck(outbox.nowMs, ack);
    for (const claim of ack.claims) this.#policy.applyClaim(claim, id);
    this.#suspectSilentManagers(id);
    if (member !== undefined) this.#antiEntropy.onViewHash(member);
    if (this.#context.self.incarnation > incarnation) this.#client.pingNow(outbox.nowMs);
    return ack.verdict === 'member';
  }

  onNoAck({ seq }: Push, code: ErrorCode | undefined): void {
    const { health, outbox } = this.#context;
    // A manager that has accepted heartbeats has room for this node: a queue on the way is full for a moment.
    if (code === 'CAPACITY' && this.#client.isConnected) return this.#scheduleResend(seq);
    if (code === 'CAPACITY' || (code !== undefined && refusals.has(code)))
      return this.#client.onRefused(outbox.nowMs, seq);
    health.record('probeFailed');
    this.#client.onNoAck(outbox.nowMs, seq);
  }

  expire(dueMs: number): void {
    if (this.#armedMs === dueMs) this.#armedMs = undefined;
    const { nowMs } = this.#context.outbox;
    if (this.#resend !== undefined && this.#resend.atMs <= nowMs) this.#send(this.#resend.to, this.#resend.ping);
    this.#client.expire(nowMs);
  }

  /** At the end of each step: the next deadline of the client may have moved. */
  arm(): void {
    const { outbox, self } = this.#context;
    const nextMs = Math.min(this.#client.nextMs ?? Infinity, this.#resend?.atMs ?? Infinity);
    if (self.leaving || nextMs === Infinity || (this.#armedMs !== undefined && this.#armedMs <= nextMs)) return;
    const delayMs = Math.max(0, nextMs - outbox.nowMs);
    this.#armedMs = outbox.nowMs + delayMs;
    outbox.schedule(delayMs, { kind: 'pushClient' });
  }

  #recordReply(member: Member, ack: MembershipMessageOf<'pushAck'>): void {
    const { outbox, table, counters } = this.#context;
    const roundTripMs = outbox.nowMs - this.#sentMs;
    member.lastMessageMs = outbox.nowMs;
    member.viewHash = ack.viewHash;
    member.probeFailed = false;
    member.roundTrip.observe(roundTripMs);
    counters.observeRtt(roundTripMs);
    table.markChanged(member.id);
  }

  #managers(): readonly Peer[] {
    const { self, table } = this.#context;
    const live = [...table.all()].filter((member) => isLiveMember(member) && acceptsProbes(member));
    const alive = preferred(live, ({ state }) => state === 'alive');
    const managers = preferred(alive, ({ entry: { roles } }) => roles.includes('manager') || roles.includes('gate'));
    const ranked = managers.map(({ id, entry }) => ({ entry, rank: rankOf(self.id, id) }));
    return ranked.toSorted((a, b) => a.rank - b.rank).map(({ entry }) => entry);
  }

  #pingContent(to: NodeId): Omit<PushPing, 'kind' | 'seq' | 'hearsYou'> {
    const { self, health, table } = this.#context;
    const { embedded } = self;
    const known = this.#ackedState?.by === to ? this.#ackedState.version : undefined;
    const wanted = embedded !== undefined && embedded.version !== known ? embedded : undefined;
    const manager = table.get(to);
    return {
      incarnation: self.incarnation,
      claims: manager === undefined ? [] : this.#gossiper.claimsFor(manager, embeddedBytes(wanted?.parts)),
      datagrams: false,
      health: health.score,
      stuck: self.stuck,
      lagMs: self.lagMs,
      viewHash: this.#gossiper.viewHash,
      stateVersion: wanted?.version,
      state: wanted?.parts ?? [],
    };
  }

  #send(to: Peer, message: PushPing): void {
    const { outbox } = this.#context;
    this.#sentMs = outbox.nowMs;
    this.#lastPing = { to, ping: message };
    this.#resend = undefined;
    const purpose = { kind: 'push', id: to.id, seq: message.seq } as const;
    outbox.push({ kind: 'request', to, message, timeoutMs: this.#timing.pingIntervalMs, purpose });
  }

  /** Resends the same ping: without an ack within its interval it counts as missed. */
  #scheduleResend(seq: number): void {
    const { outbox } = this.#context;
    if (this.#lastPing?.ping.seq === seq)
      this.#resend = { ...this.#lastPing, atMs: outbox.nowMs + this.#timing.pingIntervalMs / 4 };
  }

  #raiseAbove(incarnation: number): void {
    const { outbox, self } = this.#context;
    if (!self.leaving) outbox.push({ kind: 'saveHints', writes: [self.raiseIncarnationAbove(incarnation)] });
  }

  #noteSilentManager(manager: Peer, why: string): void {
    const { table } = this.#context;
    const member = table.get(manager.id);
    if (member !== undefined) {
      this.#silent.set(manager.id, why);
      member.probeFailed = true;
      table.markChanged(manager.id);
    }
    const dead = table.pick(deadRequestedMax, (one) => one.state === 'dead' && acceptsProbes(one));
    this.#joiner.requestKnown([...this.#seeds, ...dead.map(({ entry }) => entry)]);
  }

  /** Only if a single manager was silent: several silent ones point to a problem of this node. */
  #suspectSilentManagers(repliedBy: NodeId): void {
    const { table } = this.#context;
    const isSingle = this.#silent.size === 1;
    for (const [id, why] of this.#silent) {
      const member = table.get(id);
      if (isSingle && member?.state === 'alive' && id !== repliedBy)
        this.#policy.suspect(member, false, new Map(), why);
      if (member !== undefined) member.probeFailed = false;
      table.markChanged(id);
    }
    this.#silent.clear();
  }
}

/** The members that fit, or all if none does. */
function preferred(members: readonly Member[], fits: (member: Member) => boolean): readonly Member[] {
  const fitting = members.filter(fits);
  return fitting.length > 0 ? fitting : members;
}

/** The rank of a manager in the order of this node. */
function rankOf(self: NodeId, manager: NodeId): number {
  return memberStatusHash(`${self}>${manager}` as NodeId, { generation: 0, incarnation: 0, state: 'alive' });
}
