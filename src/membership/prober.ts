/**
 * The prober asks one member after the other whether it is there, each round in a new random order:
 *
 *   ping -> ack                                               well
 *   ping -> silence -> ping request to three helpers -> indirect ack   well, but the direct way is bad
 *                      and a probe by TCP -> answered                   well, but datagrams are lost
 *                   -> nacks or silence                       accuse
 *
 * Timeouts follow the measured round trip of each peer and grow with our own bad health; a helper that cannot even send
 * a nack speaks against us, not against the target. Rounds that span a pause of ours are void. Probes on behalf of others
 * are in relays.ts, verdicts are the judge's.
 */
import { BoundedLru } from '../base/bounded-lru.ts';
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import { moved } from './coordinates.ts';
import type { Group, MessageNamed } from './group.ts';
import type { Judge } from './judge.ts';
import { type Member, isLiving, isProbed } from './member-table.ts';
import { Relays } from './relays.ts';
import { embeddedBytes, type Spreader } from './spreader.ts';
import { pointOf, pointOnWire } from './wire-coordinate.ts';

type Round = {
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
  readonly #group: Group;
  readonly #judge: Judge;
  readonly #spreader: Spreader;
  readonly #rounds = new Map<number, Round>();
  /** Pings of rounds that ended without an answer: a late one still tells how far the member is. */
  readonly #late = new BoundedLru<number, Pick<Round, 'target' | 'generation' | 'sentMs'>>(lateMax);
  readonly relays: Relays;
  #seq = 0;

  constructor(group: Group, judge: Judge, spreader: Spreader) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.relays = new Relays(group, (target) => this.#ping(target));
  }

  /** One round per interval; a node that doubts itself takes its time. */
  tick(): void {
    const { options, out, self, table } = this.#group;
    out.after(options.probeIntervalMs * this.#patience, { kind: 'probe' });
    // Who has taken itself out judges nobody.
    const target = self.out ? undefined : table.nextToProbe();
    if (target !== undefined) this.probe(target, false);
  }

  /** `urgent`: something speaks for a crash, so helpers are asked at once. */
  probe(target: Member, urgent: boolean): void {
    const { options, out } = this.#group;
    if (this.#rounds.size >= underWayMax) return;
    this.#group.tally.note('probes');
    const seq = this.#ping(target);
    const { probeTimeoutFloorMs, probeTimeoutMs } = options;
    const timeoutMs = this.#patience * target.roundTrip.timeoutMs(probeTimeoutFloorMs, probeTimeoutMs);
    const { id, generation } = target;
    this.#rounds.set(seq, {
      target: id,
      generation,
      sentMs: out.nowMs,
      timeoutMs,
      helpers: new Set(),
      witnesses: new Map(),
      refused: urgent,
    });
    out.after(urgent ? 0 : timeoutMs, { kind: 'direct', seq }, directKey(seq));
  }

  isProbing(id: NodeId): boolean {
    for (const round of this.#rounds.values()) if (round.target === id) return true;
    return false;
  }

  /** No direct answer: ask others, and try the other way ourselves. */
  directTimeout(seq: number): void {
    const { options, table, health, out, self, tally } = this.#group;
    const round = this.#rounds.get(seq);
    const target = round && table.get(round.target);
    if (round === undefined || target === undefined) return void this.#rounds.delete(seq);
    target.probeFailed = true;
    table.touch(target.id);
    tally.note('probes.indirect');
    if (!round.refused) health.note('indirectNeeded');
    const waitMs = Math.min(2 * round.timeoutMs, this.#patience * options.indirectTimeoutMs);
    const helpers = table.pick(
      options.helpersCount,
      (m) => m.state === 'alive' && m.id !== target.id && !m.probeFailed && isProbed(m),
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
      out.put({ kind: 'datagram', to: helper.entry, message });
    }
    const purpose = { kind: 'probe', seq } as const;
    out.put({ kind: 'request', to: target.entry, message: { kind: 'streamPing' }, timeoutMs: waitMs, purpose });
    out.after(helpers.length === 0 ? waitMs / 2 : waitMs, { kind: 'indirect', seq });
  }

  /** The end of a round that nobody answered. */
  indirectTimeout(seq: number): void {
    const { table, health, tally } = this.#group;
    const round = this.#rounds.get(seq);
    if (round === undefined) return;
    this.#rounds.delete(seq);
    this.#late.set(seq, round);
    tally.note('probes.failed');
    const target = table.get(round.target);
    if (target === undefined || target.generation !== round.generation || !isLiving(target)) return;
    const missedNacks = round.helpers.size - round.witnesses.size;
    if (round.helpers.size === 0) health.note('probeFailed');
    for (let i = 0; i < missedNacks; i++) health.note('nackMissed');
    const why = `no answer to a probe of ${Math.round(round.timeoutMs)} ms, ${round.witnesses.size} of ${round.helpers.size} helpers got none either`;
    this.#judge.accuse(target, round.refused, this.#witnessesOf(round), why);
  }

  acked(from: Identity, message: MessageNamed<'ack'>): void {
    const { seq } = message;
    if (this.relays.acked(from.id, seq)) return;
    const round = this.#rounds.get(seq) ?? this.#late.peek(seq);
    if (round?.target !== from.id || round.generation !== from.generation) return;
    const member = this.#wellKnown(from.id);
    if (member === undefined) return;
    this.#measured(member, this.#group.out.nowMs - round.sentMs, message);
    if (this.#late.delete(seq) === undefined) this.#succeeded(seq);
  }

  indirectlyAcked(from: Identity, seq: number): void {
    if (this.#rounds.get(seq)?.helpers.has(from.id)) this.#succeeded(seq);
  }

  nacked(from: Identity, message: MessageNamed<'nack'>): void {
    const round = this.#rounds.get(message.seq);
    if (round === undefined || !round.helpers.has(from.id)) return;
    round.witnesses.set(from.id, message.refused);
    this.#group.tally.note('nacks');
    // With our own refusal that makes enough: no need to wait for the slower helpers.
    const refusals = [...round.witnesses.values()].filter(Boolean).length;
    if (round.refused && refusals + 1 >= this.#group.options.refusalsNeededCount) this.indirectTimeout(message.seq);
  }

  /** The probe by TCP was answered, by this or another life of the target. */
  streamAnswered(seq: number, generation: number): void {
    const round = this.#rounds.get(seq);
    if (round?.generation === generation) this.#succeeded(seq);
  }

  /** The host of this member refused us a connection: its port is closed. */
  refused(id: NodeId): void {
    for (const round of this.#rounds.values()) if (round.target === id) round.refused = true;
    this.relays.refused(id);
  }

  /** We slept: what we did not hear says nothing. */
  voidAll(): void {
    for (const round of this.#rounds.values()) this.#wellKnown(round.target);
    this.#rounds.clear();
    this.relays.clear();
  }

  answer(from: Identity, message: MessageNamed<'ping'>): void {
    const { self, health, out, table } = this.#group;
    if (self.out) return this.#confess(from);
    const member = table.get(from.id);
    const embedded = self.embedded;
    const wanted = embedded !== undefined && message.stateVersion !== embedded.version ? embedded : undefined;
    out.put({
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
        coordinate: pointOnWire(self.coordinate),
        stateVersion: wanted?.version,
        state: wanted?.parts ?? [],
        lagMs: self.lagMs,
      },
    });
  }

  /** Somebody has not heard yet that we have taken ourselves out. */
  #confess(to: Identity): void {
    const { self, out } = this.#group;
    const message = { kind: 'gossip', incarnation: self.incarnation, claims: [self.claim('dead')] } as const;
    out.put({ kind: 'datagram', to, message });
  }

  get #patience(): number {
    const { options, health } = this.#group;
    return options.refinements.healthAwareProbe ? health.multiplier : 1;
  }

  #witnessesOf(round: Round): ReadonlyMap<NodeId, boolean> {
    if (this.#group.options.refinements.witnesses) return round.witnesses;
    return new Map([...round.witnesses].filter(([, refused]) => refused));
  }

  /** Returns the number of the ping. */
  #ping(target: Member): number {
    const { self, out } = this.#group;
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
    out.put({ kind: 'datagram', to: target.entry, message });
    return seq;
  }

  #succeeded(seq: number): void {
    const round = this.#rounds.get(seq);
    this.#rounds.delete(seq);
    if (round !== undefined) this.#wellKnown(round.target);
    this.#group.out.forget(directKey(seq));
    this.#group.tally.note('acks');
    this.#group.health.note('probeSucceeded');
  }

  #wellKnown(id: NodeId): Member | undefined {
    const { table } = this.#group;
    const member = table.get(id);
    if (member?.probeFailed) table.touch(id);
    if (member !== undefined) member.probeFailed = false;
    return member;
  }

  #measured(member: Member, roundTripMs: number, message: MessageNamed<'ack'>): void {
    const { self, random, tally } = this.#group;
    member.roundTrip.note(roundTripMs);
    tally.roundTrip(roundTripMs);
    if (message.coordinate === undefined) return;
    member.coordinate = pointOf(message.coordinate);
    self.coordinate = moved(self.coordinate, member.coordinate, Math.max(roundTripMs, 0.01), random);
  }
}
