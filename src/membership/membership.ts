/**
 * Who is alive: SWIM with Lifeguard, as one machine. Each part owns one idea; this file only hands inputs to them.
 *
 *   prober        asks one member after the other              observers     hold connections, see crashes at once
 *   judge         believes, suspects, buries                   refutation    answers what is said about us
 *   spreader      passes news on                               view-exchange compares views, revives
 *   departure     leaves in good order                         main-loop     is our own process stuck?
 *   push-member   pings a manager, without datagrams           push-manager  hears those who do
 *   newcomer      asks to come in                              front-door    answers who comes
 *   member-table  who is known                                 gossip-buffer what is news
 *
 * It knows nothing of leadership, work or load: others read its events. It runs where no user code runs.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Expired, Machine, PersistFailed, Schedule, Unschedule } from '../base/loop.ts';
import type { Address, ConnectionChange, Identity } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import type { EmbeddingRole, MembershipMessage } from '../messages/membership.ts';
import type { NodeEntry } from '../messages/node-entry.ts';
import { Departure } from './departure.ts';
import { FrontDoor } from './front-door.ts';
import { GossipBuffer } from './gossip-buffer.ts';
import { type Group, type MembershipEffect, type MessageNamed, Outbox, type Purpose, type Timer } from './group.ts';
import { Judge } from './judge.ts';
import { LocalHealth } from './local-health.ts';
import { MainLoop } from './main-loop.ts';
import { type Member, MemberTable, type Table, isLiving } from './member-table.ts';
import { takeReport } from './member-report.ts';
import { type MemberView, viewOf, viewOfSelf } from './member-view.ts';
import { knownMax, rememberKnown } from './memory.ts';
import { Newcomer } from './newcomer.ts';
import { Observers } from './observers.ts';
import type { MembershipOptions } from './options.ts';
import { Prober } from './prober.ts';
import { PushManager } from './push-manager.ts';
import { PushMember } from './push-member.ts';
import { Self } from './self.ts';
import { Spreader } from './spreader.ts';
import { Tally } from './tally.ts';
import { ViewExchange } from './view-exchange.ts';

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
  | { readonly kind: 'answered'; readonly purpose: Purpose; readonly message: MembershipMessage }
  | { readonly kind: 'unanswered'; readonly purpose: Purpose; readonly code?: ErrorCode | undefined }
  | { readonly kind: 'connection'; readonly change: ConnectionChange }
  | { readonly kind: 'embed'; readonly role: EmbeddingRole; readonly state: Uint8Array }
  | { readonly kind: 'beat' }
  | { readonly kind: 'leave'; readonly reason: string };

type Input = MembershipInput | Expired<Timer> | PersistFailed;
type Effect = MembershipEffect | Schedule<Timer> | Unschedule;

const rememberPauseMs = 2_000;

export class Membership implements Machine<Input, Effect> {
  readonly #group: Group;
  readonly #judge: Judge;
  readonly #spreader: Spreader;
  readonly #prober: Prober;
  readonly #views: ViewExchange;
  readonly #newcomer: Newcomer;
  readonly #door: FrontDoor;
  readonly #observers: Observers;
  readonly #departure: Departure;
  readonly #mainLoop: MainLoop;
  readonly #pushManager: PushManager;
  readonly #pushMember: PushMember;
  #heardUntilMs = 0;
  #rememberedView = 0;
  #rememberIsDue = false;
  #joined = false;

  constructor(
    self: NodeEntry,
    incarnation: number,
    options: MembershipOptions,
    random: Random,
    table: Table = new MemberTable(self.id, options.membersMax, random.fork('table')),
  ) {
    const overflowed = () =>
      this.#group.self.tell(this.#group.out, 'gossip.overflow', 'more news than the buffer holds');
    this.#group = {
      options,
      random,
      self: new Self(self, incarnation, options.membership === 'swim'),
      table,
      gossip: new GossipBuffer(options.gossipBufferMax, overflowed),
      health: new LocalHealth(),
      tally: new Tally(),
      out: new Outbox(),
    };
    this.#judge = new Judge(this.#group);
    this.#spreader = new Spreader(this.#group);
    this.#prober = new Prober(this.#group, this.#judge, this.#spreader);
    this.#views = new ViewExchange(this.#group, this.#judge, this.#spreader, this.#prober);
    this.#newcomer = new Newcomer(this.#group, this.#views);
    this.#door = new FrontDoor(this.#group, this.#views);
    this.#observers = new Observers(this.#group, this.#prober);
    this.#departure = new Departure(this.#group, this.#observers, this.#spreader);
    this.#mainLoop = new MainLoop(this.#group);
    this.#pushManager = new PushManager(this.#group, this.#judge, this.#spreader, this.#mainLoop);
    this.#pushMember = new PushMember(this.#group, this.#judge, this.#spreader, this.#views, this.#newcomer);
    this.#judge.onSettled((member) => this.#pushManager.settled(member));
    this.#judge.onReturn((member) => this.#views.with(member));
  }

  step(nowMs: number, input: Input): readonly Effect[] {
    const { out } = this.#group;
    out.nowMs = nowMs;
    this.#handle(input);
    this.#pushManager.divide();
    if (!this.#group.self.hasDatagrams) this.#pushMember.arm();
    this.#spreader.wake(this.#judge.takeUrgency());
    this.#observers.wake();
    this.#rememberLater();
    return out.take();
  }

  get members(): IterableIterator<Member> {
    return this.#group.table.all();
  }

  member(id: NodeId): Member | undefined {
    return this.#group.table.get(id);
  }

  get self(): Readonly<Pick<Self, 'entry' | 'incarnation' | 'leaving' | 'stuck' | 'coordinate'>> {
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
    return [this.ownView(), ...[...this.#group.table.all()].map((member) => viewOf(member, nowMs))];
  }

  ownView(): MemberView {
    return viewOfSelf(this.#group.self, this.health);
  }

  /** Of whom the view may have changed since this was last called; undefined for one that was forgotten. */
  takeChanges(nowMs: number): ReadonlyMap<NodeId, MemberView | undefined> {
    const { table } = this.#group;
    const changes = new Map<NodeId, MemberView | undefined>();
    for (const id of table.takeChanged()) {
      const member = table.get(id);
      changes.set(id, member === undefined ? undefined : viewOf(member, nowMs));
    }
    return changes;
  }

  counters(): Readonly<Record<string, number>> {
    return this.#group.tally.snapshot();
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
        return this.#observers.changed(input.change);
      case 'expired':
        return this.#expired(input.timer);
      case 'embed':
        return self.embed(input.role, input.state);
      case 'beat':
        return this.#pushManager.beaten(this.#mainLoop.beat());
      case 'leave':
        this.#rememberMembers();
        this.#departure.begin(input.reason, this.#pushMember.manager);
        return this.#pushMember.stop();
      case 'persistFailed':
        return;
    }
  }

  #start({ seeds, known = [], watchMainLoop = false }: MembershipInput & { kind: 'start' }): void {
    const { options, out, random, self } = this.#group;
    this.#heardUntilMs = out.nowMs;
    const others = this.#newcomer.join(seeds);
    this.#newcomer.greet(known, others);
    if (others.length === 0) this.#join();
    if (self.hasDatagrams) out.after(random.between(0, options.probeIntervalMs), { kind: 'probe' });
    else this.#pushMember.start(others);
    out.after(options.syncIntervalMs * random.between(0.5, 1), { kind: 'sync' });
    if (self.hasDatagrams) out.after(options.reviveIntervalMs, { kind: 'revive' });
    out.after(options.cleanupIntervalMs, { kind: 'reap' });
    if (watchMainLoop) this.#mainLoop.start();
  }

  #join(): void {
    if (this.#joined) return;
    this.#joined = true;
    this.#group.out.put({ kind: 'joined' });
  }

  #received(from: Identity, message: MembershipMessage): void {
    if (!isDatagram(message)) return;
    this.#judge.heard(from, message.incarnation);
    for (const claim of message.claims) this.#judge.hear(claim, from.id);
    switch (message.kind) {
      case 'ping':
        return this.#prober.answer(from, message);
      case 'ack':
        return this.#acked(from, message);
      case 'pingRequest':
        return this.#prober.relays.requested(from, message);
      case 'indirectAck':
        return this.#prober.indirectlyAcked(from, message.seq);
      case 'nack':
        return this.#prober.nacked(from, message);
      case 'gossip':
        return;
    }
  }

  #acked(from: Identity, message: MessageNamed<'ack'>): void {
    const member = this.#group.table.get(from.id);
    if (member === undefined || member.generation !== from.generation) return;
    takeReport(this.#group, member, message);
    this.#prober.acked(from, message);
    this.#views.compared(member);
  }

  #asked(from: Identity, call: number, message: MembershipMessage): void {
    const { self, out } = this.#group;
    if (message.kind === 'sync') return this.#door.asked(from.id, { call, message });
    if (message.kind === 'pushPing') return this.#pushManager.pinged(from, call, message);
    if (message.kind === 'departure') this.#judge.hear(leftClaim(from, message.incarnation), from.id);
    const { generation } = self.entry;
    out.put({ kind: 'reply', call, message: { kind: 'streamPong', generation, incarnation: self.incarnation } });
  }

  #answered(purpose: Purpose, message: MembershipMessage): void {
    if (purpose.kind === 'departure') return this.#departure.ended(purpose.id);
    if (message.kind === 'streamPong') {
      if (purpose.kind === 'probe') this.#prober.streamAnswered(purpose.seq, message.generation);
      if (purpose.kind === 'relay') this.#prober.relays.answered(purpose.seq);
    }
    if (message.kind === 'pushAck' && purpose.kind === 'push') {
      if (this.#pushMember.answered(purpose, message)) this.#join();
      return;
    }
    if (message.kind !== 'synced') return this.#unanswered(purpose);
    const address = this.#placeOf(purpose);
    const asNewcomer = purpose.kind === 'join' || purpose.kind === 'greet';
    if (address !== undefined) this.#views.answered(address, message, asNewcomer);
    if (!this.#group.self.hasDatagrams) return this.#pushMember.look();
    this.#newcomer.answered(message.id, purpose, message.claims.length > 0);
    if (asNewcomer) this.#join();
  }

  #placeOf(purpose: Purpose): Address | undefined {
    if (purpose.kind === 'join') return purpose.seed;
    if (purpose.kind === 'greet') return purpose.address;
    const isKnown = purpose.kind === 'sync' || purpose.kind === 'look';
    return isKnown ? this.#group.table.get(purpose.id)?.entry : undefined;
  }

  #unanswered(purpose: Purpose, code?: ErrorCode): void {
    if (purpose.kind === 'join') this.#newcomer.failed(purpose.seed, purpose.attempt);
    if (purpose.kind === 'departure') this.#departure.ended(purpose.id);
    if (purpose.kind === 'push') this.#pushMember.unanswered(purpose, code);
  }

  #expired(timer: Timer): void {
    const { out, options, self } = this.#group;
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
        return this.#prober.relays.end(timer.seq);
      case 'suspicion':
        if (this.#pushMember.isDeaf) return out.after(options.probeIntervalMs, timer);
        return this.#judge.expire(timer.id, timer.generation, timer.incarnation);
      case 'gossip':
        return this.#spreader.expire(timer.dueMs);
      case 'sync':
        return this.#views.tick();
      case 'revive':
        return this.#views.revive();
      case 'watch':
        return this.#observers.expire(timer.dueMs);
      case 'reap':
        this.#judge.reap();
        return out.after(options.cleanupIntervalMs, { kind: 'reap' });
      case 'join':
        return this.#newcomer.ask(timer.seed, timer.attempt);
      case 'look':
        return this.#newcomer.look(timer.id, timer.attempt);
      case 'crowd':
        return this.#door.expire();
      case 'mainLoop':
        return this.#mainLoop.tick();
      case 'remember':
        return this.#remember();
      case 'heartbeats':
        return this.#pushManager.expire(timer.dueMs);
      case 'link':
        return this.#pushMember.expire(timer.dueMs);
      case 'return':
        return this.#judge.returnToGroup();
      case 'leaving':
        return this.#departure.timeIsUp();
    }
  }

  /** A timer that comes late means that we slept, and heard nothing meanwhile; each stretch of sleep counts once. */
  #noticePause(dueMs: number): void {
    const { out, health, options, self, tally } = this.#group;
    const lateMs = out.nowMs - Math.max(dueMs, this.#heardUntilMs);
    this.#heardUntilMs = Math.max(this.#heardUntilMs, out.nowMs);
    if (lateMs < options.probeTimeoutFloorMs || !options.refinements.pauseAware) return;
    const long = lateMs > options.probeTimeoutMs;
    health.note(long ? 'laggedBadly' : 'lagged');
    tally.note('pauses');
    this.#prober.voidAll();
    this.#judge.excuse(lateMs);
    this.#mainLoop.excuse(lateMs);
    this.#pushManager.excuse(lateMs);
    if (long) self.tell(out, 'self.paused', `did not run for ${Math.round(lateMs)} ms`);
  }

  /** Some members are kept for the next life: a while after the group has changed, whatever else changes until then. */
  #rememberLater(): void {
    const { out, random, table } = this.#group;
    if (this.#rememberIsDue || table.viewHash === this.#rememberedView) return;
    this.#rememberIsDue = true;
    out.after(rememberPauseMs * random.between(0.8, 1.2), { kind: 'remember' });
  }

  #remember(): void {
    this.#rememberIsDue = false;
    this.#rememberMembers();
  }

  #rememberMembers(): void {
    const { out, table } = this.#group;
    if (table.viewHash === this.#rememberedView) return;
    this.#rememberedView = table.viewHash;
    out.put({ kind: 'remember', writes: [rememberKnown(table.pick(knownMax, isLiving).map(({ entry }) => entry))] });
  }
}

type DatagramMessage = MessageNamed<'ping' | 'ack' | 'pingRequest' | 'indirectAck' | 'nack' | 'gossip'>;

function isDatagram(message: MembershipMessage): message is DatagramMessage {
  const { kind } = message;
  return 'claims' in message && 'incarnation' in message && kind !== 'pushPing' && kind !== 'pushAck';
}

function leftClaim({ id, generation }: Identity, incarnation: number) {
  return { kind: 'left', id, generation, incarnation, by: id, refused: false, entry: undefined } as const;
}
