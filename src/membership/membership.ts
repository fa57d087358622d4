/**
 * The SWIM + Lifeguard machine: hands each input to the part that owns it and collects effects. Knows nothing of
 * leadership, work or load.
 *
 *   prober           asks one member after the other       crash-observers   hold connections, see crashes at once
 *   suspicion-policy believes, suspects, declares dead     local-member      refutes what is said about us
 *   gossiper         passes changes on                     anti-entropy      compares views, revives
 *   joiner           asks to come in                       join-coordinator  answers those who join
 *   graceful-leave   leaves in good order                  main-loop-monitor is our own process stuck?
 *   push-client-part, push-server-part                     the same without datagrams
 */
import type { ErrorCode } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { TimerExpired, Machine, PersistFailed, Schedule, CancelTimer } from '../base/runtime/loop.ts';
import type { Address, ConnectionChange, Identity } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import type { EmbeddingRole, MembershipMessage } from '../messages/membership.ts';
import type { NodeEntry } from '../messages/node-entry.ts';
import { GracefulLeave } from './join/graceful-leave.ts';
import { JoinCoordinator } from './join/join-coordinator.ts';
import { GossipQueue } from './state/gossip-queue.ts';
import {
  type MembershipContext,
  type MembershipEffect,
  type MembershipMessageOf,
  MembershipOutbox,
  type RequestPurpose,
  type MembershipTimer,
} from './state/context.ts';
import { SuspicionPolicy } from './suspicion/suspicion-policy.ts';
import { LocalHealth } from './state/local-health.ts';
import { MainLoopMonitor } from './detectors/main-loop-monitor.ts';
import { type Member, MemberTable, type MemberTableLike, isLiveMember } from './state/member-table.ts';
import { applyMemberReport } from './state/member-report.ts';
import { type MemberView, memberViewOf, localMemberView } from './state/member-view.ts';
import { knownMembersMax, knownMembersWrite } from './state/hints.ts';
import { Joiner } from './join/joiner.ts';
import { CrashObservers } from './probe/crash-observers.ts';
import type { MembershipOptions } from './state/options.ts';
import { Prober } from './probe/prober.ts';
import { PushServerPart } from './detectors/push-server-part.ts';
import { PushClientPart } from './detectors/push-client-part.ts';
import { LocalMember } from './state/local-member.ts';
import { Gossiper } from './probe/gossiper.ts';
import { MembershipCounters } from './state/membership-counters.ts';
import { AntiEntropy } from './join/anti-entropy.ts';

export type MembershipInput =
  | {
      readonly kind: 'start';
      readonly seeds: readonly Address[];
      /** Members of the last life: asked as seeds are, but not waited for. */
      readonly known?: readonly Address[];
      /** The main loop will beat, and is to be called stuck when it does not. */
      readonly watchMainLoop?: boolean;
    }
  /** Nodes to ask besides those named at the start; asked until they answer, like those. */
  | { readonly kind: 'join'; readonly seeds: readonly Address[] }
  | { readonly kind: 'datagram'; readonly from: Identity; readonly message: MembershipMessage }
  /** Asked by stream; the effect `reply` with the same call answers it. */
  | { readonly kind: 'asked'; readonly from: Identity; readonly call: number; readonly message: MembershipMessage }
  | { readonly kind: 'answered'; readonly purpose: RequestPurpose; readonly message: MembershipMessage }
  | { readonly kind: 'unanswered'; readonly purpose: RequestPurpose; readonly code?: ErrorCode | undefined }
  | { readonly kind: 'connection'; readonly change: ConnectionChange }
  | { readonly kind: 'embed'; readonly role: EmbeddingRole; readonly state: Uint8Array }
  | { readonly kind: 'beat' }
  | { readonly kind: 'leave'; readonly reason: string };

type Input = MembershipInput | TimerExpired<MembershipTimer> | PersistFailed;
type Effect = MembershipEffect | Schedule<MembershipTimer> | CancelTimer;

const saveHintsDelayMs = 2_000;

export class Membership implements Machine<Input, Effect> {
  readonly #group: MembershipContext;
  readonly #judge: SuspicionPolicy;
  readonly #spreader: Gossiper;
  readonly #prober: Prober;
  readonly #views: AntiEntropy;
  readonly #newcomer: Joiner;
  readonly #joins: JoinCoordinator;
  readonly #observers: CrashObservers;
  readonly #departure: GracefulLeave;
  readonly #mainLoop: MainLoopMonitor;
  readonly #pushManager: PushServerPart;
  readonly #pushMember: PushClientPart;
  #heardUntilMs = 0;
  #rememberedView = 0;
  #rememberIsDue = false;
  #joined = false;

  constructor(
    self: NodeEntry,
    incarnation: number,
    options: MembershipOptions,
    random: Random,
    table: MemberTableLike = new MemberTable(self.id, options.membersMax, random.fork('table')),
  ) {
    const overflowed = () =>
      this.#group.self.emitEvent(this.#group.outbox, 'gossip.overflow', 'more news than the buffer holds');
    this.#group = {
      options,
      random,
      self: new LocalMember(self, incarnation, options.membership === 'swim'),
      table,
      gossip: new GossipQueue(options.gossipBufferMax, overflowed),
      health: new LocalHealth(),
      counters: new MembershipCounters(),
      outbox: new MembershipOutbox(),
    };
    this.#judge = new SuspicionPolicy(this.#group);
    this.#spreader = new Gossiper(this.#group);
    this.#prober = new Prober(this.#group, this.#judge, this.#spreader);
    this.#views = new AntiEntropy(this.#group, this.#judge, this.#spreader, this.#prober);
    this.#newcomer = new Joiner(this.#group, this.#views);
    this.#joins = new JoinCoordinator(this.#group, this.#views);
    this.#observers = new CrashObservers(this.#group, this.#prober);
    this.#departure = new GracefulLeave(this.#group, this.#observers, this.#spreader);
    this.#mainLoop = new MainLoopMonitor(this.#group);
    this.#pushManager = new PushServerPart(this.#group, this.#judge, this.#spreader, this.#mainLoop);
    this.#pushMember = new PushClientPart(this.#group, this.#judge, this.#spreader, this.#views, this.#newcomer);
    this.#judge.onChange((member) => this.#pushManager.onMemberChange(member));
    this.#judge.onRejoin((member) => this.#views.syncWith(member));
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    const { outbox } = this.#group;
    outbox.nowMs = nowMs;
    this.#handle(input);
    this.#pushManager.reassign();
    if (!this.#group.self.hasDatagrams) this.#pushMember.arm();
    this.#spreader.scheduleTick(this.#judge.takeUrgent());
    this.#observers.scheduleIfChanged();
    this.#rememberLater();
    return outbox.take();
  }

  get members(): IterableIterator<Member> {
    return this.#group.table.all();
  }

  member(id: NodeId): Member | undefined {
    return this.#group.table.get(id);
  }

  get self(): Readonly<Pick<LocalMember, 'entry' | 'incarnation' | 'leaving' | 'stuck' | 'coordinate'>> {
    return this.#group.self;
  }

  get health(): number {
    return this.#group.health.score;
  }

  get viewHash(): number {
    return this.#spreader.viewHash;
  }

  /** Ourselves first. */
  views(nowMs: number): MemberView[] {
    return [this.localView(), ...[...this.#group.table.all()].map((member) => memberViewOf(member, nowMs))];
  }

  localView(): MemberView {
    return localMemberView(this.#group.self, this.health);
  }

  /** Of whom the view may have changed since this was last called; undefined for one that was forgotten. */
  takeChanges(nowMs: number): ReadonlyMap<NodeId, MemberView | undefined> {
    const { table } = this.#group;
    const changes = new Map<NodeId, MemberView | undefined>();
    for (const id of table.takeChanged()) {
      const member = table.get(id);
      changes.set(id, member === undefined ? undefined : memberViewOf(member, nowMs));
    }
    return changes;
  }

  counters(): Readonly<Record<string, number>> {
    return this.#group.counters.snapshot();
  }

  #handle(input: Input): void {
    const { self } = this.#group;
    switch (input.kind) {
      case 'start':
        return this.#start(input);
      case 'join':
        return void this.#newcomer.join(input.seeds);
      case 'datagram':
        return this.#received(input.from, input.message);
      case 'asked':
        return this.#asked(input.from, input.call, input.message);
      case 'answered':
        return this.#answered(input.purpose, input.message);
      case 'unanswered':
        return this.#unanswered(input.purpose, input.code);
      case 'connection':
        return this.#observers.onConnectionChange(input.change);
      case 'expired':
        return this.#expired(input.timer);
      case 'embed':
        return self.setEmbedded(input.role, input.state);
      case 'beat':
        return this.#pushManager.onBeat(this.#mainLoop.beat());
      case 'leave':
        this.#rememberMembers();
        this.#departure.begin(input.reason, this.#pushMember.manager);
        return this.#pushMember.stop();
      case 'persistFailed':
        return;
    }
  }

  #start({ seeds, known = [], watchMainLoop = false }: MembershipInput & { kind: 'start' }): void {
    const { options, outbox, random, self } = this.#group;
    this.#heardUntilMs = outbox.nowMs;
    const others = this.#newcomer.join(seeds);
    this.#newcomer.askKnown(known, others);
    if (others.length === 0) this.#join();
    if (self.hasDatagrams) outbox.after(random.between(0, options.probeIntervalMs), { kind: 'probe' });
    else this.#pushMember.start(others);
    outbox.after(options.syncIntervalMs * random.between(0.5, 1), { kind: 'sync' });
    if (self.hasDatagrams) outbox.after(options.reviveIntervalMs, { kind: 'revive' });
    outbox.after(options.cleanupIntervalMs, { kind: 'reap' });
    if (watchMainLoop) this.#mainLoop.start();
  }

  #join(): void {
    if (this.#joined) return;
    this.#joined = true;
    this.#group.outbox.put({ kind: 'joined' });
  }

  #received(from: Identity, message: MembershipMessage): void {
    if (!isDatagram(message)) return;
    this.#judge.confirmAlive(from, message.incarnation);
    for (const claim of message.claims) this.#judge.applyClaim(claim, from.id);
    switch (message.kind) {
      case 'ping':
        return this.#prober.replyToPing(from, message);
      case 'ack':
        return this.#acked(from, message);
      case 'pingRequest':
        return this.#prober.relays.onRequest(from, message);
      case 'indirectAck':
        return this.#prober.indirectlyAcked(from, message.seq);
      case 'nack':
        return this.#prober.nacked(from, message);
      case 'gossip':
        return;
    }
  }

  #acked(from: Identity, message: MembershipMessageOf<'ack'>): void {
    const member = this.#group.table.get(from.id);
    if (member === undefined || member.generation !== from.generation) return;
    applyMemberReport(this.#group, member, message);
    this.#prober.acked(from, message);
    this.#views.onViewHash(member);
  }

  #asked(from: Identity, call: number, message: MembershipMessage): void {
    const { self, outbox } = this.#group;
    if (message.kind === 'syncView') return this.#joins.handleSync(from.id, { call, message });
    if (message.kind === 'pushPing') return this.#pushManager.onPing(from, call, message);
    if (message.kind === 'leave') this.#judge.applyClaim(leftClaim(from, message.incarnation), from.id);
    const { generation } = self.entry;
    outbox.put({ kind: 'reply', call, message: { kind: 'streamPong', generation, incarnation: self.incarnation } });
  }

  #answered(purpose: RequestPurpose, message: MembershipMessage): void {
    if (purpose.kind === 'departure') return this.#departure.acknowledged(purpose.id);
    if (message.kind === 'streamPong') {
      if (purpose.kind === 'probe') this.#prober.onStreamAck(purpose.seq, message.generation);
      if (purpose.kind === 'relay') this.#prober.relays.answered(purpose.seq);
    }
    if (message.kind === 'pushAck' && purpose.kind === 'push') {
      if (this.#pushMember.answered(purpose, message)) this.#join();
      return;
    }
    if (message.kind !== 'syncViewReply') return this.#unanswered(purpose);
    const address = this.#placeOf(purpose);
    const asNewcomer = purpose.kind === 'join' || purpose.kind === 'greet';
    if (address !== undefined) this.#views.onReply(address, message, asNewcomer);
    if (!this.#group.self.hasDatagrams) return this.#pushMember.onMembersLearned();
    this.#newcomer.answered(message.id, purpose, message.claims.length > 0);
    if (asNewcomer) this.#join();
  }

  #placeOf(purpose: RequestPurpose): Address | undefined {
    if (purpose.kind === 'join') return purpose.seed;
    if (purpose.kind === 'greet') return purpose.address;
    const isKnown = purpose.kind === 'sync' || purpose.kind === 'look';
    return isKnown ? this.#group.table.get(purpose.id)?.entry : undefined;
  }

  #unanswered(purpose: RequestPurpose, code?: ErrorCode): void {
    if (purpose.kind === 'join') this.#newcomer.onSeedFailed(purpose.seed, purpose.attempt);
    if (purpose.kind === 'departure') this.#departure.acknowledged(purpose.id);
    if (purpose.kind === 'push') this.#pushMember.unanswered(purpose, code);
  }

  #expired(timer: MembershipTimer): void {
    const { outbox, options, self } = this.#group;
    if (self.leaving && timer.kind !== 'gossip' && timer.kind !== 'leaving') return;
    this.#noticePause(timer.dueMs);
    switch (timer.kind) {
      case 'probe':
        return this.#prober.tick();
      case 'direct':
        return this.#prober.directTimeout(timer.seq);
      case 'indirect':
        return this.#prober.indirectTimeout(timer.seq);
      case 'relay':
        return this.#prober.relays.timeout(timer.seq);
      case 'relayEnd':
        return this.#prober.relays.onExpired(timer.seq);
      case 'suspicion':
        if (this.#pushMember.isIsolated) return outbox.after(options.probeIntervalMs, timer);
        return this.#judge.expire(timer.id, timer.generation, timer.incarnation);
      case 'gossip':
        return this.#spreader.expire(timer.dueMs);
      case 'sync':
        return this.#views.tick();
      case 'revive':
        return this.#views.pingDead();
      case 'watch':
        return this.#observers.expire(timer.dueMs);
      case 'reap':
        this.#judge.reap();
        return outbox.after(options.cleanupIntervalMs, { kind: 'reap' });
      case 'join':
        return this.#newcomer.ask(timer.seed, timer.attempt);
      case 'look':
        return this.#newcomer.recheckView(timer.id, timer.attempt);
      case 'crowd':
        return this.#joins.expire();
      case 'mainLoop':
        return this.#mainLoop.tick();
      case 'remember':
        this.#rememberIsDue = false;
        return this.#rememberMembers();
      case 'heartbeats':
        return this.#pushManager.expire(timer.dueMs);
      case 'link':
        return this.#pushMember.expire(timer.dueMs);
      case 'return':
        return this.#judge.endWithdrawal();
      case 'leaving':
        return this.#departure.onTimeout();
    }
  }

  /** A timer that comes late means that we slept, and heard nothing meanwhile; each stretch of sleep counts once. */
  #noticePause(dueMs: number): void {
    const { outbox, health, options, self, counters } = this.#group;
    const lateMs = outbox.nowMs - Math.max(dueMs, this.#heardUntilMs);
    this.#heardUntilMs = Math.max(this.#heardUntilMs, outbox.nowMs);
    if (lateMs < options.probeTimeoutFloorMs || !options.refinements.pauseAware) return;
    const long = lateMs > options.probeTimeoutMs;
    health.record(long ? 'laggedBadly' : 'lagged');
    counters.increment('pauses');
    this.#prober.cancelAll();
    this.#judge.discountPause(lateMs);
    this.#mainLoop.discountPause(lateMs);
    this.#pushManager.discountPause(lateMs);
    if (long) self.emitEvent(outbox, 'self.paused', `did not run for ${Math.round(lateMs)} ms`);
  }

  /** Some members are kept for the next life: a while after the group has changed, whatever else changes until then. */
  #rememberLater(): void {
    const { outbox, random, table } = this.#group;
    if (this.#rememberIsDue || table.viewHash === this.#rememberedView) return;
    this.#rememberIsDue = true;
    outbox.after(saveHintsDelayMs * random.between(0.8, 1.2), { kind: 'remember' });
  }

  #rememberMembers(): void {
    const { outbox, table } = this.#group;
    if (table.viewHash === this.#rememberedView) return;
    this.#rememberedView = table.viewHash;
    outbox.put({
      kind: 'remember',
      writes: [knownMembersWrite(table.pick(knownMembersMax, isLiveMember).map(({ entry }) => entry))],
    });
  }
}

type DatagramMessage = MembershipMessageOf<'ping' | 'ack' | 'pingRequest' | 'indirectAck' | 'nack' | 'gossip'>;

function isDatagram(message: MembershipMessage): message is DatagramMessage {
  const { kind } = message;
  return 'claims' in message && 'incarnation' in message && kind !== 'pushPing' && kind !== 'pushAck';
}

function leftClaim({ id, generation }: Identity, incarnation: number) {
  return { kind: 'left', id, generation, incarnation, by: id, refused: false, entry: undefined } as const;
}
