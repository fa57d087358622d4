/**
 * Probes one member per interval: ping, then helpers and TCP, then suspicion. Timeouts follow the measured round trip;
 * a pause of this node voids the round.
 *
 * The prober asks one member after the other whether it is there, each round in a new random order:
 *
 *   ping -> ack                                               well
 *   ping -> silence -> ping request to three helpers -> indirect ack   well, but the direct way is bad
 *                      and a probe by TCP -> answered                   well, but datagrams are lost
 *                   -> nacks or silence                       accuse
 *
 * Timeouts follow the measured round trip of each peer and grow with our own bad health; a helper that cannot even send
 * a nack speaks against us, not against the target. Rounds that span a pause of ours are void. Probes on behalf of
 * others are in probe-relays.ts, verdicts are the judge's.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import { updateCoordinate } from '../state/coordinates.ts';
import type { MembershipContext, MembershipMessageOf } from '../state/context.ts';
import type { SuspicionPolicy } from '../suspicion/suspicion-policy.ts';
import { type Member, isLiveMember, acceptsProbes } from '../state/member-table.ts';
import { ProbeRelays } from './probe-relays.ts';
import { embeddedBytes, type Gossiper } from './gossiper.ts';
import { decodeCoordinate, encodeCoordinate } from '../state/wire-coordinate.ts';

type ProbeRound = {
  readonly target: NodeId;
  readonly generation: number;
  readonly sentMs: number;
  readonly timeoutMs: number;
  readonly helpers: Set<NodeId>;
  /** Helpers that got no answer either, and whether its host refused them. */
  readonly witnesses: Map<NodeId, boolean>;
  refused: boolean;
};

const underWayMax = 1_000;
const lateMax = 256;

function directKey(seq: number): string {
  return `direct ${seq}`;
}

export class Prober {
  readonly #group: MembershipContext;
  readonly #judge: SuspicionPolicy;
  readonly #spreader: Gossiper;
  readonly #rounds = new Map<number, ProbeRound>();
  /** Pings of rounds that ended without an answer: a late one still tells how far the member is. */
  readonly #late = new BoundedLru<number, Pick<ProbeRound, 'target' | 'generation' | 'sentMs'>>(lateMax);
  readonly relays: ProbeRelays;
  #seq = 0;

  constructor(group: MembershipContext, judge: SuspicionPolicy, spreader: Gossiper) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.relays = new ProbeRelays(group, (target) => this.#ping(target));
  }

  /** One round per interval; a node that doubts itself takes its time. */
  tick(): void {
    const { options, outbox, self, table } = this.#group;
    outbox.after(options.probeIntervalMs * this.#timeoutMultiplier, { kind: 'probe' });
    // Who has taken itself out judges nobody.
    const target = self.withdrawn ? undefined : table.nextToProbe();
    if (target !== undefined) this.probe(target, false);
  }

  /** `urgent`: something speaks for a crash, so helpers are asked at once. */
  probe(target: Member, urgent: boolean): void {
    const { options, outbox } = this.#group;
    if (this.#rounds.size >= underWayMax) return;
    this.#group.counters.increment('probes');
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
    outbox.after(urgent ? 0 : timeoutMs, { kind: 'direct', seq }, directKey(seq));
  }

  isProbing(id: NodeId): boolean {
    for (const round of this.#rounds.values()) if (round.target === id) return true;
    return false;
  }

  /** No direct answer: ask others, and try the other way ourselves. */
  directTimeout(seq: number): void {
    const { options, table, health, outbox, self, counters } = this.#group;
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
      const claims = this.#spreader.claimsFor(helper);
      const message = {
        kind: 'pingRequest',
        incarnation: self.incarnation,
        seq,
        claims,
        target: target.id,
        timeoutMs: Math.ceil(waitMs / 2),
      } as const;
      outbox.put({ kind: 'datagram', to: helper.entry, message });
    }
    const purpose = { kind: 'probe', seq } as const;
    outbox.put({ kind: 'request', to: target.entry, message: { kind: 'streamPing' }, timeoutMs: waitMs, purpose });
    outbox.after(helpers.length === 0 ? waitMs / 2 : waitMs, { kind: 'indirect', seq });
  }

  /** The end of a round that nobody answered. */
  indirectTimeout(seq: number): void {
    const { table, health, counters } = this.#group;
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
    const why = `no answer to a probe of ${Math.round(round.timeoutMs)} ms, ${round.witnesses.size} of ${round.helpers.size} helpers got none either`;
    this.#judge.suspect(target, round.refused, this.#witnessesOf(round), why);
  }

  acked(from: Identity, message: MembershipMessageOf<'ack'>): void {
    const { seq } = message;
    if (this.relays.acked(from.id, seq)) return;
    const round = this.#rounds.get(seq) ?? this.#late.peek(seq);
    if (round?.target !== from.id || round.generation !== from.generation) return;
    const member = this.#clearProbeFailed(from.id);
    if (member === undefined) return;
    this.#measured(member, this.#group.outbox.nowMs - round.sentMs, message);
    if (this.#late.delete(seq) === undefined) this.#succeeded(seq);
  }

  indirectlyAcked(from: Identity, seq: number): void {
    if (this.#rounds.get(seq)?.helpers.has(from.id)) this.#succeeded(seq);
  }

  nacked(from: Identity, message: MembershipMessageOf<'nack'>): void {
    const round = this.#rounds.get(message.seq);
    if (round === undefined || !round.helpers.has(from.id)) return;
    round.witnesses.set(from.id, message.refused);
    this.#group.counters.increment('nacks');
    // With our own refusal that makes enough: no need to wait for the slower helpers.
    const refusals = [...round.witnesses.values()].filter(Boolean).length;
    if (round.refused && refusals + 1 >= this.#group.options.refusalsNeededCount) this.indirectTimeout(message.seq);
  }

  /** The probe by TCP was answered, by this or another life of the target. */
  onStreamAck(seq: number, generation: number): void {
    const round = this.#rounds.get(seq);
    if (round?.generation === generation) this.#succeeded(seq);
  }

  /** The host of this member refused us a connection: its port is closed. */
  onPortClosed(id: NodeId): void {
    for (const round of this.#rounds.values()) if (round.target === id) round.refused = true;
    this.relays.onPortClosed(id);
  }

  /** We slept: what we did not hear says nothing. */
  cancelAll(): void {
    for (const round of this.#rounds.values()) this.#clearProbeFailed(round.target);
    this.#rounds.clear();
    this.relays.clear();
  }

  replyToPing(from: Identity, message: MembershipMessageOf<'ping'>): void {
    const { self, health, outbox, table } = this.#group;
    if (self.withdrawn) return this.#replyWithdrawn(from);
    const member = table.get(from.id);
    const embedded = self.embedded;
    const wanted = embedded !== undefined && message.stateVersion !== embedded.version ? embedded : undefined;
    outbox.put({
      kind: 'datagram',
      to: from,
      message: {
        kind: 'ack',
        incarnation: self.incarnation,
        seq: message.seq,
        claims: member === undefined ? [] : this.#spreader.claimsFor(member, embeddedBytes(wanted?.parts)),
        health: health.score,
        stuck: self.stuck,
        viewHash: this.#spreader.viewHash,
        coordinate: encodeCoordinate(self.coordinate),
        stateVersion: wanted?.version,
        state: wanted?.parts ?? [],
        lagMs: self.lagMs,
      },
    });
  }

  /** Somebody has not heard yet that we have taken ourselves out. */
  #replyWithdrawn(to: Identity): void {
    const { self, outbox } = this.#group;
    const message = { kind: 'gossip', incarnation: self.incarnation, claims: [self.claim('dead')] } as const;
    outbox.put({ kind: 'datagram', to, message });
  }

  get #timeoutMultiplier(): number {
    const { options, health } = this.#group;
    return options.refinements.healthAwareProbe ? health.multiplier : 1;
  }

  #witnessesOf(round: ProbeRound): ReadonlyMap<NodeId, boolean> {
    if (this.#group.options.refinements.witnesses) return round.witnesses;
    return new Map([...round.witnesses].filter(([, refused]) => refused));
  }

  /** Returns the number of the ping. */
  #ping(target: Member): number {
    const { self, outbox } = this.#group;
    this.#seq = (this.#seq + 1) >>> 0;
    const seq = this.#seq;
    const claims = this.#spreader.claimsFor(target);
    const message = {
      kind: 'ping',
      incarnation: self.incarnation,
      seq,
      claims,
      stateVersion: target.stateVersion,
    } as const;
    outbox.put({ kind: 'datagram', to: target.entry, message });
    return seq;
  }

  #succeeded(seq: number): void {
    const round = this.#rounds.get(seq);
    this.#rounds.delete(seq);
    if (round !== undefined) this.#clearProbeFailed(round.target);
    this.#group.outbox.forget(directKey(seq));
    this.#group.counters.increment('acks');
    this.#group.health.record('probeSucceeded');
  }

  #clearProbeFailed(id: NodeId): Member | undefined {
    const { table } = this.#group;
    const member = table.get(id);
    if (member?.probeFailed) table.markChanged(id);
    if (member !== undefined) member.probeFailed = false;
    return member;
  }

  #measured(member: Member, roundTripMs: number, message: MembershipMessageOf<'ack'>): void {
    const { self, random, counters } = this.#group;
    member.roundTrip.observe(roundTripMs);
    counters.observeRtt(roundTripMs);
    if (message.coordinate === undefined) return;
    member.coordinate = decodeCoordinate(message.coordinate);
    self.coordinate = updateCoordinate(self.coordinate, member.coordinate, Math.max(roundTripMs, 0.01), random);
  }
}
