/**
 * Probes one member per interval, in a new random order each round. Decides nothing: suspicion-policy.ts does. Relays
 * for other members are in probe-relays.ts.
 *
 *   ping -> ack                                                          alive
 *   ping -> timeout -> ping requests to three helpers -> indirect ack    alive, but the direct path is bad
 *                      and a ping by TCP -> ack                          alive, but datagrams are lost
 *                   -> nacks or timeout                                  suspect
 *
 * Timeouts follow the measured round trip and grow with bad local health. A helper that does not even send a nack
 * counts against this node, not against the target. A round that spans a pause of this node is void.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import { decodeCoordinate, encodeCoordinate, updateCoordinate } from '../state/coordinates.ts';
import type { MembershipContext, MembershipMessageOf } from '../state/context.ts';
import type { SuspicionPolicy } from '../suspicion/suspicion-policy.ts';
import { type Member, isLiveMember, acceptsProbes } from '../state/member-table.ts';
import { ProbeRelays } from './probe-relays.ts';
import { embeddedBytes, type Gossiper } from './gossiper.ts';

type ProbeRound = {
  readonly target: NodeId;
  readonly generation: number;
  readonly sentMs: number;
  readonly timeoutMs: number;
  readonly helpers: Set<NodeId>;
  /** Helpers that sent a nack, and whether the host of the target refused them. A subset of `helpers`. */
  readonly witnesses: Map<NodeId, boolean>;
  refused: boolean;
};

const roundsMax = 1_000;
const lateMax = 256;

function directTimerKey(seq: number): string {
  return `direct ${seq}`;
}

export class Prober {
  readonly #context: MembershipContext;
  readonly #policy: SuspicionPolicy;
  readonly #gossiper: Gossiper;
  /** Open rounds by sequence number; at most `roundsMax`. */
  readonly #rounds = new Map<number, ProbeRound>();
  /** Rounds that ended without an ack: a late ack still measures the round trip. */
  readonly #late = new BoundedLru<number, Pick<ProbeRound, 'target' | 'generation' | 'sentMs'>>(lateMax);
  readonly relays: ProbeRelays;
  #seq = 0;

  constructor(context: MembershipContext, policy: SuspicionPolicy, gossiper: Gossiper) {
    this.#context = context;
    this.#policy = policy;
    this.#gossiper = gossiper;
    this.relays = new ProbeRelays(context, (target) => this.#ping(target));
  }

  /** One probe per interval; the interval grows with bad local health. */
  tick(): void {
    const { options, outbox, self, table } = this.#context;
    outbox.schedule(options.probeIntervalMs * this.#timeoutMultiplier, { kind: 'probe' });
    // A withdrawn member probes no member.
    const target = self.withdrawn ? undefined : table.nextToProbe();
    if (target !== undefined) this.probe(target, false);
  }

  /** `urgent`: the port was refused, so the helpers get their request at once. */
  probe(target: Member, urgent: boolean): void {
    const { options, outbox } = this.#context;
    if (this.#rounds.size >= roundsMax) return;
    this.#context.counters.increment('probes');
    const seq = this.#ping(target);
    const { probeTimeoutFloorMs, probeTimeoutMs } = options;
    const timeoutMs = this.#timeoutMultiplier * target.roundTrip.timeoutMs(probeTimeoutFloorMs, probeTimeoutMs);
    const { id, generation } = target;
    this.#rounds.set(seq, {
      target: id,
      generation,
      sentMs: outbox.nowMs,
      timeoutMs,
      helpers: new Set(),
      witnesses: new Map(),
      refused: urgent,
    });
    outbox.schedule(urgent ? 0 : timeoutMs, { kind: 'direct', seq }, directTimerKey(seq));
  }

  isProbing(id: NodeId): boolean {
    for (const round of this.#rounds.values()) if (round.target === id) return true;
    return false;
  }

  /** No ack in time: requests indirect probes of helpers, and pings by TCP. */
  onDirectTimeout(seq: number): void {
    const { options, table, health, outbox, self, counters } = this.#context;
    const round = this.#rounds.get(seq);
    const target = round && table.get(round.target);
    if (round === undefined || target === undefined) return void this.#rounds.delete(seq);
    target.probeFailed = true;
    table.markChanged(target.id);
    counters.increment('probes.indirect');
    if (!round.refused) health.record('indirectNeeded');
    const waitMs = Math.min(2 * round.timeoutMs, this.#timeoutMultiplier * options.indirectTimeoutMs);
    const helpers = table.pick(
      options.helpersCount,
      (m) => m.state === 'alive' && m.id !== target.id && !m.probeFailed && acceptsProbes(m),
    );
    for (const helper of helpers) {
      round.helpers.add(helper.id);
      const claims = this.#gossiper.claimsFor(helper);
      const message = {
        kind: 'pingRequest',
        incarnation: self.incarnation,
        seq,
        claims,
        target: target.id,
        timeoutMs: Math.ceil(waitMs / 2),
      } as const;
      outbox.push({ kind: 'datagram', to: helper.entry, message });
    }
    const purpose = { kind: 'probe', seq } as const;
    outbox.push({ kind: 'request', to: target.entry, message: { kind: 'streamPing' }, timeoutMs: waitMs, purpose });
    outbox.schedule(helpers.length === 0 ? waitMs / 2 : waitMs, { kind: 'indirect', seq });
  }

  /** The end of a round without any ack. */
  onIndirectTimeout(seq: number): void {
    const { table, health, counters } = this.#context;
    const round = this.#rounds.get(seq);
    if (round === undefined) return;
    this.#rounds.delete(seq);
    this.#late.set(seq, round);
    counters.increment('probes.failed');
    const target = table.get(round.target);
    if (target === undefined || target.generation !== round.generation || !isLiveMember(target)) return;
    const missedNacks = round.helpers.size - round.witnesses.size;
    if (round.helpers.size === 0) health.record('probeFailed');
    for (let i = 0; i < missedNacks; i++) health.record('nackMissed');
    const nacks = `${round.witnesses.size} of ${round.helpers.size} helpers sent a nack`;
    const why = `no ack of a probe within ${Math.round(round.timeoutMs)} ms, and ${nacks}`;
    this.#policy.suspect(target, round.refused, this.#witnessesOf(round), why);
  }

  onAck(from: Identity, message: MembershipMessageOf<'ack'>): void {
    const { seq } = message;
    if (this.relays.onAck(from.id, seq)) return;
    const round = this.#rounds.get(seq) ?? this.#late.peek(seq);
    if (round?.target !== from.id || round.generation !== from.generation) return;
    const member = this.#clearProbeFailed(from.id);
    if (member === undefined) return;
    this.#observeRoundTrip(member, this.#context.outbox.nowMs - round.sentMs, message);
    if (this.#late.delete(seq) === undefined) this.#succeeded(seq);
  }

  onIndirectAck(from: Identity, seq: number): void {
    if (this.#rounds.get(seq)?.helpers.has(from.id)) this.#succeeded(seq);
  }

  onNack(from: Identity, message: MembershipMessageOf<'nack'>): void {
    const round = this.#rounds.get(message.seq);
    if (round === undefined || !round.helpers.has(from.id)) return;
    round.witnesses.set(from.id, message.refused);
    this.#context.counters.increment('nacks');
    // Enough refusals, the one of this node included: the round need not wait for the slower helpers.
    const refusals = [...round.witnesses.values()].filter(Boolean).length;
    if (round.refused && refusals + 1 >= this.#context.options.refusalsNeededCount) this.onIndirectTimeout(message.seq);
  }

  /** The TCP ping has its reply, from this or another generation of the target. */
  onStreamAck(seq: number, generation: number): void {
    const round = this.#rounds.get(seq);
    if (round?.generation === generation) this.#succeeded(seq);
  }

  /** The host of this member refused a connection: its port is closed. */
  onPortClosed(id: NodeId): void {
    for (const round of this.#rounds.values()) if (round.target === id) round.refused = true;
    this.relays.onPortClosed(id);
  }

  /** This node was paused: a missing ack proves nothing. */
  cancelAll(): void {
    for (const round of this.#rounds.values()) this.#clearProbeFailed(round.target);
    this.#rounds.clear();
    this.relays.clear();
  }

  replyToPing(from: Identity, message: MembershipMessageOf<'ping'>): void {
    const { self, health, outbox, table } = this.#context;
    if (self.withdrawn) return this.#replyWithdrawn(from);
    const member = table.get(from.id);
    const embedded = self.embedded;
    const wanted = embedded !== undefined && message.stateVersion !== embedded.version ? embedded : undefined;
    outbox.push({
      kind: 'datagram',
      to: from,
      message: {
        kind: 'ack',
        incarnation: self.incarnation,
        seq: message.seq,
        claims: member === undefined ? [] : this.#gossiper.claimsFor(member, embeddedBytes(wanted?.parts)),
        health: health.score,
        stuck: self.stuck,
        viewHash: this.#gossiper.viewHash,
        coordinate: encodeCoordinate(self.coordinate),
        stateVersion: wanted?.version,
        state: wanted?.parts ?? [],
        lagMs: self.lagMs,
      },
    });
  }

  /** The sender does not know that this node has withdrawn itself. */
  #replyWithdrawn(to: Identity): void {
    const { self, outbox } = this.#context;
    const message = { kind: 'gossip', incarnation: self.incarnation, claims: [self.claim('dead')] } as const;
    outbox.push({ kind: 'datagram', to, message });
  }

  get #timeoutMultiplier(): number {
    const { options, health } = this.#context;
    return options.refinements.healthAwareProbe ? health.multiplier : 1;
  }

  #witnessesOf(round: ProbeRound): ReadonlyMap<NodeId, boolean> {
    if (this.#context.options.refinements.witnesses) return round.witnesses;
    return new Map([...round.witnesses].filter(([, refused]) => refused));
  }

  /** Returns the sequence number of the ping. */
  #ping(target: Member): number {
    const { self, outbox } = this.#context;
    this.#seq = (this.#seq + 1) >>> 0;
    const seq = this.#seq;
    const claims = this.#gossiper.claimsFor(target);
    const message = {
      kind: 'ping',
      incarnation: self.incarnation,
      seq,
      claims,
      stateVersion: target.stateVersion,
    } as const;
    outbox.push({ kind: 'datagram', to: target.entry, message });
    return seq;
  }

  #succeeded(seq: number): void {
    const round = this.#rounds.get(seq);
    this.#rounds.delete(seq);
    if (round !== undefined) this.#clearProbeFailed(round.target);
    this.#context.outbox.cancel(directTimerKey(seq));
    this.#context.counters.increment('acks');
    this.#context.health.record('probeSucceeded');
  }

  #clearProbeFailed(id: NodeId): Member | undefined {
    const { table } = this.#context;
    const member = table.get(id);
    if (member?.probeFailed) table.markChanged(id);
    if (member !== undefined) member.probeFailed = false;
    return member;
  }

  #observeRoundTrip(member: Member, roundTripMs: number, message: MembershipMessageOf<'ack'>): void {
    const { self, random, counters } = this.#context;
    member.roundTrip.observe(roundTripMs);
    counters.observeRtt(roundTripMs);
    if (message.coordinate === undefined) return;
    member.coordinate = decodeCoordinate(message.coordinate);
    self.coordinate = updateCoordinate(self.coordinate, member.coordinate, Math.max(roundTripMs, 0.01), random);
  }
}
