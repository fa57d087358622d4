/**
 * The SWIM + Lifeguard machine: hands each input to the part that owns it and collects effects. Knows nothing of
 * leadership, work or load.
 *
 *   prober             probes one member after another     crash-observers    detect broken connections at once
 *   suspicion-policy   suspects, declares dead, refutes    local-member       what this node states of itself
 *   gossiper           spreads claims                      anti-entropy       compares views, revives dead members
 *   joiner             requests the view of seeds          join-coordinator   replies to joiners, in batches
 *   graceful-leave     announces a leave                   main-loop-monitor  reports that the main loop is stuck
 *   push-client-part, push-server-part                     failure detection without datagrams
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
      /** Members of the previous generation: requested once, as seeds are; the join does not wait for them. */
      readonly known?: readonly Address[];
      /** The main loop sends beats; without them this node reports itself stuck. */
      readonly watchMainLoop?: boolean;
    }
  /** More seeds, requested until they reply, like those of the start. */
  | { readonly kind: 'join'; readonly seeds: readonly Address[] }
  | { readonly kind: 'datagram'; readonly from: Identity; readonly message: MembershipMessage }
  /** A request by stream; the effect `reply` or `replyError` with the same call ends it. */
  | { readonly kind: 'request'; readonly from: Identity; readonly call: number; readonly message: MembershipMessage }
  | { readonly kind: 'response'; readonly purpose: RequestPurpose; readonly message: MembershipMessage }
  | { readonly kind: 'requestFailed'; readonly purpose: RequestPurpose; readonly code?: ErrorCode | undefined }
  | { readonly kind: 'connection'; readonly change: ConnectionChange }
  | { readonly kind: 'embed'; readonly role: EmbeddingRole; readonly state: Uint8Array }
  | { readonly kind: 'beat' }
  | { readonly kind: 'leave'; readonly reason: string };

type Input = MembershipInput | TimerExpired<MembershipTimer> | PersistFailed;
type Effect = MembershipEffect | Schedule<MembershipTimer> | CancelTimer;

const saveHintsDelayMs = 2_000;

export class Membership implements Machine<Input, Effect> {
  readonly #context: MembershipContext;
  readonly #policy: SuspicionPolicy;
  readonly #gossiper: Gossiper;
  readonly #prober: Prober;
  readonly #antiEntropy: AntiEntropy;
  readonly #joiner: Joiner;
  readonly #joinCoordinator: JoinCoordinator;
  readonly #observers: CrashObservers;
  readonly #gracefulLeave: GracefulLeave;
  readonly #mainLoop: MainLoopMonitor;
  readonly #pushServer: PushServerPart;
  readonly #pushClient: PushClientPart;
  /** The latest time at which this node is known to have run. */
  #ranUntilMs = 0;
  #savedViewHash = 0;
  #saveIsScheduled = false;
  #joined = false;

  constructor(
    self: NodeEntry,
    incarnation: number,
    options: MembershipOptions,
    random: Random,
    table: MemberTableLike = new MemberTable(self.id, options.membersMax, random.fork('table')),
  ) {
    const onOverflow = () =>
      this.#context.self.emitEvent(this.#context.outbox, 'gossip.overflow', 'the gossip queue dropped a claim');
    this.#context = {
      options,
      random,
      self: new LocalMember(self, incarnation, options.membership === 'swim'),
      table,
      gossip: new GossipQueue(options.gossipBufferMax, onOverflow),
      health: new LocalHealth(),
      counters: new MembershipCounters(),
      outbox: new MembershipOutbox(),
    };
    this.#policy = new SuspicionPolicy(this.#context);
    this.#gossiper = new Gossiper(this.#context);
    this.#prober = new Prober(this.#context, this.#policy, this.#gossiper);
    this.#antiEntropy = new AntiEntropy(this.#context, this.#policy, this.#gossiper, this.#prober);
    this.#joiner = new Joiner(this.#context, this.#antiEntropy);
    this.#joinCoordinator = new JoinCoordinator(this.#context, this.#antiEntropy);
    this.#observers = new CrashObservers(this.#context, this.#prober);
    this.#gracefulLeave = new GracefulLeave(this.#context, this.#observers, this.#gossiper);
    this.#mainLoop = new MainLoopMonitor(this.#context);
    this.#pushServer = new PushServerPart(this.#context, this.#policy, this.#gossiper, this.#mainLoop);
    this.#pushClient = new PushClientPart(this.#context, this.#policy, this.#gossiper, this.#antiEntropy, this.#joiner);
    this.#policy.onChange((member) => this.#pushServer.onMemberChange(member));
    this.#policy.onRejoin((member) => this.#antiEntropy.syncWith(member));
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    const { outbox } = this.#context;
    outbox.nowMs = nowMs;
    this.#handle(input);
    this.#pushServer.reassign();
    if (!this.#context.self.hasDatagrams) this.#pushClient.arm();
    this.#gossiper.scheduleTick(this.#policy.takeUrgent());
    this.#observers.scheduleIfChanged();
    this.#scheduleSaveHints();
    return outbox.takeAll();
  }

  get members(): IterableIterator<Member> {
    return this.#context.table.all();
  }

  member(id: NodeId): Member | undefined {
    return this.#context.table.get(id);
  }

  get self(): Readonly<Pick<LocalMember, 'entry' | 'incarnation' | 'leaving' | 'stuck' | 'coordinate'>> {
    return this.#context.self;
  }

  get health(): number {
    return this.#context.health.score;
  }

  get viewHash(): number {
    return this.#gossiper.viewHash;
  }

  /** This node first. */
  views(nowMs: number): MemberView[] {
    return [this.localView(), ...[...this.#context.table.all()].map((member) => memberViewOf(member, nowMs))];
  }

  localView(): MemberView {
    return localMemberView(this.#context.self, this.health);
  }

  /** The members whose view may have changed since the last call; undefined for one that was removed. */
  takeChanges(nowMs: number): ReadonlyMap<NodeId, MemberView | undefined> {
    const { table } = this.#context;
    const changes = new Map<NodeId, MemberView | undefined>();
    for (const id of table.takeChanged()) {
      const member = table.get(id);
      changes.set(id, member === undefined ? undefined : memberViewOf(member, nowMs));
    }
    return changes;
  }

  counters(): Readonly<Record<string, number>> {
    return this.#context.counters.snapshot();
  }

  #handle(input: Input): void {
    const { self } = this.#context;
    switch (input.kind) {
      case 'start':
        return this.#start(input);
      case 'join':
        return void this.#joiner.join(input.seeds);
      case 'datagram':
        return this.#onDatagram(input.from, input.message);
      case 'request':
        return this.#onRequest(input.from, input.call, input.message);
      case 'response':
        return this.#onResponse(input.purpose, input.message);
      case 'requestFailed':
        return this.#onRequestFailed(input.purpose, input.code);
      case 'connection':
        return this.#observers.onConnectionChange(input.change);
      case 'expired':
        return this.#onTimer(input.timer);
      case 'embed':
        return self.setEmbedded(input.role, input.state);
      case 'beat':
        return this.#pushServer.onBeat(this.#mainLoop.beat());
      case 'leave':
        this.#saveKnownMembers();
        this.#gracefulLeave.begin(input.reason, this.#pushClient.manager);
        return this.#pushClient.stop();
      case 'persistFailed':
        return;
    }
  }

  #start({ seeds, known = [], watchMainLoop = false }: MembershipInput & { kind: 'start' }): void {
    const { options, outbox, random, self } = this.#context;
    this.#ranUntilMs = outbox.nowMs;
    const others = this.#joiner.join(seeds);
    this.#joiner.requestKnown(known, others);
    if (others.length === 0) this.#reportJoined();
    if (self.hasDatagrams) outbox.schedule(random.between(0, options.probeIntervalMs), { kind: 'probe' });
    else this.#pushClient.start(others);
    outbox.schedule(options.syncIntervalMs * random.between(0.5, 1), { kind: 'sync' });
    if (self.hasDatagrams) outbox.schedule(options.reviveIntervalMs, { kind: 'revive' });
    outbox.schedule(options.cleanupIntervalMs, { kind: 'reap' });
    if (watchMainLoop) this.#mainLoop.start();
  }

  #reportJoined(): void {
    if (this.#joined) return;
    this.#joined = true;
    this.#context.outbox.push({ kind: 'joined' });
  }

  #onDatagram(from: Identity, message: MembershipMessage): void {
    if (!isDatagram(message)) return;
    this.#policy.confirmAlive(from, message.incarnation);
    for (const claim of message.claims) this.#policy.applyClaim(claim, from.id);
    switch (message.kind) {
      case 'ping':
        return this.#prober.replyToPing(from, message);
      case 'ack':
        return this.#onAck(from, message);
      case 'pingRequest':
        return this.#prober.relays.onRequest(from, message);
      case 'indirectAck':
        return this.#prober.onIndirectAck(from, message.seq);
      case 'nack':
        return this.#prober.onNack(from, message);
      case 'gossip':
        return;
    }
  }

  #onAck(from: Identity, message: MembershipMessageOf<'ack'>): void {
    const member = this.#context.table.get(from.id);
    if (member === undefined || member.generation !== from.generation) return;
    applyMemberReport(this.#context, member, message);
    this.#prober.onAck(from, message);
    this.#antiEntropy.onViewHash(member);
  }

  #onRequest(from: Identity, call: number, message: MembershipMessage): void {
    const { self, outbox } = this.#context;
    if (message.kind === 'syncView') return this.#joinCoordinator.handleSync(from.id, { call, message });
    if (message.kind === 'pushPing') return this.#pushServer.onPing(from, call, message);
    if (message.kind === 'leave') this.#policy.applyClaim(leftClaim(from, message.incarnation), from.id);
    const { generation } = self.entry;
    outbox.push({ kind: 'reply', call, message: { kind: 'streamPong', generation, incarnation: self.incarnation } });
  }

  #onResponse(purpose: RequestPurpose, message: MembershipMessage): void {
    if (purpose.kind === 'departure') return this.#gracefulLeave.acknowledged(purpose.id);
    if (message.kind === 'streamPong') {
      if (purpose.kind === 'probe') this.#prober.onStreamAck(purpose.seq, message.generation);
      if (purpose.kind === 'relay') this.#prober.relays.onStreamAck(purpose.seq);
    }
    if (message.kind === 'pushAck' && purpose.kind === 'push') {
      if (this.#pushClient.onAck(purpose, message)) this.#reportJoined();
      return;
    }
    if (message.kind !== 'syncViewReply') return this.#onRequestFailed(purpose);
    const address = this.#addressOf(purpose);
    const isJoining = purpose.kind === 'join' || purpose.kind === 'greet';
    if (address !== undefined) this.#antiEntropy.onReply(address, message, isJoining);
    if (!this.#context.self.hasDatagrams) return this.#pushClient.onMembersLearned();
    this.#joiner.onReply(message.id, purpose, message.claims.length > 0);
    if (isJoining) this.#reportJoined();
  }

  #addressOf(purpose: RequestPurpose): Address | undefined {
    if (purpose.kind === 'join') return purpose.seed;
    if (purpose.kind === 'greet') return purpose.address;
    const isKnown = purpose.kind === 'sync' || purpose.kind === 'look';
    return isKnown ? this.#context.table.get(purpose.id)?.entry : undefined;
  }

  #onRequestFailed(purpose: RequestPurpose, code?: ErrorCode): void {
    if (purpose.kind === 'join') this.#joiner.onSeedFailed(purpose.seed, purpose.attempt);
    if (purpose.kind === 'departure') this.#gracefulLeave.acknowledged(purpose.id);
    if (purpose.kind === 'push') this.#pushClient.onNoAck(purpose, code);
  }

  #onTimer(timer: MembershipTimer): void {
    const { outbox, options, self } = this.#context;
    if (self.leaving && timer.kind !== 'gossip' && timer.kind !== 'leaving') return;
    this.#detectPause(timer.dueMs);
    switch (timer.kind) {
      case 'probe':
        return this.#prober.tick();
      case 'direct':
        return this.#prober.onDirectTimeout(timer.seq);
      case 'indirect':
        return this.#prober.onIndirectTimeout(timer.seq);
      case 'relay':
        return this.#prober.relays.onDirectTimeout(timer.seq);
      case 'relayEnd':
        return this.#prober.relays.onExpired(timer.seq);
      case 'suspicion':
        if (this.#pushClient.isIsolated) return outbox.schedule(options.probeIntervalMs, timer);
        return this.#policy.expire(timer.id, timer.generation, timer.incarnation);
      case 'gossip':
        return this.#gossiper.expire(timer.dueMs);
      case 'sync':
        return this.#antiEntropy.tick();
      case 'revive':
        return this.#antiEntropy.pingDead();
      case 'observe':
        return this.#observers.expire(timer.dueMs);
      case 'reap':
        this.#policy.reap();
        return outbox.schedule(options.cleanupIntervalMs, { kind: 'reap' });
      case 'join':
        return this.#joiner.requestSeed(timer.seed, timer.attempt);
      case 'recheckView':
        return this.#joiner.recheckView(timer.id, timer.attempt);
      case 'joinBatch':
        return this.#joinCoordinator.expire();
      case 'mainLoop':
        return this.#mainLoop.tick();
      case 'saveHints':
        this.#saveIsScheduled = false;
        return this.#saveKnownMembers();
      case 'pushServer':
        return this.#pushServer.expire(timer.dueMs);
      case 'pushClient':
        return this.#pushClient.expire(timer.dueMs);
      case 'endWithdrawal':
        return this.#policy.endWithdrawal();
      case 'leaving':
        return this.#gracefulLeave.onTimeout();
    }
  }

  /** A late timer means that this node did not run and received nothing meanwhile. Each pause counts once. */
  #detectPause(dueMs: number): void {
    const { outbox, health, options, self, counters } = this.#context;
    const lateMs = outbox.nowMs - Math.max(dueMs, this.#ranUntilMs);
    this.#ranUntilMs = Math.max(this.#ranUntilMs, outbox.nowMs);
    if (lateMs < options.probeTimeoutFloorMs || !options.refinements.pauseAware) return;
    const long = lateMs > options.probeTimeoutMs;
    health.record(long ? 'laggedBadly' : 'lagged');
    counters.increment('pauses');
    this.#prober.cancelAll();
    this.#policy.discountPause(lateMs);
    this.#mainLoop.discountPause(lateMs);
    this.#pushServer.discountPause(lateMs);
    if (long) self.emitEvent(outbox, 'self.paused', `did not run for ${Math.round(lateMs)} ms`);
  }

  /** Saves some addresses for the next start: once per delay after the view has changed, not once per change. */
  #scheduleSaveHints(): void {
    const { outbox, random, table } = this.#context;
    if (this.#saveIsScheduled || table.viewHash === this.#savedViewHash) return;
    this.#saveIsScheduled = true;
    outbox.schedule(saveHintsDelayMs * random.between(0.8, 1.2), { kind: 'saveHints' });
  }

  #saveKnownMembers(): void {
    const { outbox, table } = this.#context;
    if (table.viewHash === this.#savedViewHash) return;
    this.#savedViewHash = table.viewHash;
    outbox.push({
      kind: 'saveHints',
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
