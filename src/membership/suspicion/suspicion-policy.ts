/**
 * Decides what to believe of each member: alive, suspect, dead or left; how long a suspect may refute; what to gossip.
 * Never probes. Claims about this node go to refutation.ts.
 *
 *            join, ack                 accused                 time is up, or its port is closed
 *   unknown ----------> alive <----------------------> suspect ---------------------------------> dead --> tombstone
 *                         ^        refuted                                                          |
 *                         +-------------------------------------------------------------------------+
 *                                       higher incarnation or generation
 */
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import {
  type Claim,
  type MemberState,
  type MemberStatus,
  confirms,
  incarnationJumpMax,
  claimedState,
  supersedes,
} from '../state/claim.ts';
import type { MembershipContext } from '../state/context.ts';
import { type Member, isLiveMember } from '../state/member-table.ts';
import type { MembershipEventType } from '../state/membership-event.ts';
import { NameConflicts } from './name-conflicts.ts';
import { Refutation } from './refutation.ts';
import { SuspicionTimer } from './suspicion-timer.ts';

export class SuspicionPolicy {
  readonly #context: MembershipContext;
  readonly #refutation: Refutation;
  readonly #conflicts: NameConflicts;
  readonly #suspicions = new Map<NodeId, SuspicionTimer>();
  /** What the last probe of a suspect found, for the event of its death. */
  readonly #lastWhy = new Map<NodeId, string>();
  #urgent = false;
  #notifyRejoin: (member: Member) => void = () => {};
  #notifyChange: (member: Member) => void = () => {};

  constructor(context: MembershipContext) {
    this.#context = context;
    this.#refutation = new Refutation(context);
    this.#conflicts = new NameConflicts(context);
  }

  /** True once after this node has declared a member dead: gossip must not wait for its interval. */
  takeUrgent(): boolean {
    const urgent = this.#urgent;
    this.#urgent = false;
    return urgent;
  }

  /** `notify` gets each member whose state, generation or incarnation has changed. */
  onChange(notify: (member: Member) => void): void {
    this.#notifyChange = notify;
  }

  /** `notify` gets each dead member that is alive again: both sides should compare their views. */
  onRejoin(notify: (member: Member) => void): void {
    this.#notifyRejoin = notify;
  }

  /** A claim that `via` has sent, or this node itself. `spread` is false if others gossip it already. */
  applyClaim(claim: Claim, via: NodeId, spread = true): void {
    const { self, table, gossip, outbox } = this.#context;
    if (claim.id === self.id) return this.#refutation.onClaimAboutSelf(claim, via);
    const known = table.lastKnown(claim.id);
    if (!isNewer(claim, known)) {
      if (known !== undefined && claim.kind === 'suspect' && confirms(claim, known)) this.#confirm(claim);
      return;
    }
    if (this.#needsOwnSuspicion(claim)) return this.applyClaim({ ...claim, kind: 'suspect' }, via, spread);
    const former = this.#endedGeneration(claim);
    const before = former === undefined ? known?.state : undefined;
    const member = table.apply(claim, outbox.nowMs);
    if (member === undefined) return;
    if (spread) gossip.add(claim);
    else gossip.remove(claim.id);
    if (former !== undefined) this.#emit('member.dead', former, 'it has restarted with a higher generation');
    this.#onApplied(member, claim, before);
    this.#notifyChange(member);
    // Only a member that has the claim from the source compares views; all at once would flood the returned member.
    if (before === 'dead' && member.state === 'alive' && via === member.id) this.#notifyRejoin(member);
  }

  /** A probe of this node failed. Each witness is a helper that failed too, with whether the host refused it. */
  suspect(member: Member, refused: boolean, witnesses: ReadonlyMap<NodeId, boolean>, why: string): void {
    const { self } = this.#context;
    const { id, generation, incarnation } = member;
    this.#lastWhy.set(id, why);
    this.applyClaim({ kind: 'suspect', id, generation, incarnation, by: self.id, refused, entry: undefined }, self.id);
    const suspicion = this.#suspicions.get(id);
    if (suspicion === undefined) return;
    let changed = false;
    for (const [witness, wasRefused] of witnesses) changed = suspicion.addAccuser(witness, wasRefused) || changed;
    if (changed) this.#armTimer(member, suspicion);
  }

  /** A finding of this node about a member that pings only this node. */
  applyVerdict(claim: Claim, why: string): void {
    const { self, table } = this.#context;
    this.#lastWhy.set(claim.id, why);
    this.applyClaim(claim, self.id);
    if (table.get(claim.id)?.state !== 'suspect') this.#lastWhy.delete(claim.id);
  }

  /** Any message of a member proves the generation and incarnation in which it was sent. */
  confirmAlive(from: Identity, incarnation: number): void {
    const { table, outbox } = this.#context;
    const member = table.get(from.id);
    if (member?.generation !== from.generation || member.incarnation !== incarnation) {
      const { id, name, host, port, generation, roles, dc } = from;
      const entry = { id, name, host, port, generation, roles, dc };
      const kind = member === undefined ? 'join' : 'alive';
      this.applyClaim({ kind, id, generation, incarnation, by: id, refused: false, entry }, id);
    }
    const now = table.get(from.id);
    if (now?.generation === from.generation) {
      now.lastMessageMs = outbox.nowMs;
      table.markChanged(now.id);
    }
    this.#notifyIfDead(from);
  }

  /** The timer of a suspicion; its deadline may have moved. */
  expire(id: NodeId, generation: number, incarnation: number): void {
    const { table, outbox } = this.#context;
    const member = table.get(id);
    const suspicion = this.#suspicions.get(id);
    if (member?.state !== 'suspect' || suspicion === undefined) return;
    if (member.generation !== generation || member.incarnation !== incarnation) return;
    // The deadline has moved since, by a pause or a new suspicion: a later timer is scheduled.
    if (suspicion.deadlineMs > outbox.nowMs + 0.5) return;
    this.#declareDead(member);
  }

  /** This node did not run for this long: no suspect loses that time. */
  discountPause(pauseMs: number): void {
    const { table, outbox } = this.#context;
    this.#refutation.flapDamping.onPause(outbox.nowMs);
    for (const [id, suspicion] of this.#suspicions) {
      suspicion.discountPause(pauseMs);
      const member = table.get(id);
      if (member !== undefined) this.#armTimer(member, suspicion);
    }
  }

  /** The withdrawal of this node is over. */
  endWithdrawal(): void {
    this.#refutation.endWithdrawal();
  }

  /** Turns members that have been dead or left for long into tombstones. */
  reap(): void {
    const { table, options, outbox } = this.#context;
    for (const member of [...table.all()]) {
      if (!isLiveMember(member) && outbox.nowMs - member.sinceMs >= options.reapAfterMs) table.tombstone(member);
    }
  }

  #declareDead({ id, generation, incarnation }: Pick<Member, 'id' | 'generation' | 'incarnation'>): void {
    const { self } = this.#context;
    const refused = this.#suspicions.get(id)?.isPortClosed ?? false;
    this.applyClaim({ kind: 'dead', id, generation, incarnation, by: self.id, refused, entry: undefined }, self.id);
  }

  /**
   * True if the death that another member declared counts only as an accusation, so that a slow member which wakes up
   * with old verdicts kills no member. It counts as a death if this node has suspected the member for a while, if the
   * port was closed, if the member claims it of itself (flap-damping.ts), or if this node cannot probe.
   */
  #needsOwnSuspicion(claim: Claim): boolean {
    const { self, table, outbox, options } = this.#context;
    const member = table.get(claim.id);
    if (claim.kind !== 'dead' || claim.by === self.id || claim.refused) return false;
    if (!options.refinements.requireOwnSuspicion || !self.hasDatagrams) return false;
    if (member === undefined || !isLiveMember(member) || claim.generation !== member.generation) return false;
    if (claim.by === claim.id) return false;
    return !this.#suspicions.get(claim.id)?.isMature(outbox.nowMs);
  }

  /** A copy of the member in the live generation that this claim ends. */
  #endedGeneration(claim: Claim): Member | undefined {
    const member = this.#context.table.get(claim.id);
    return member !== undefined && claim.generation > member.generation && isLiveMember(member)
      ? { ...member }
      : undefined;
  }

  #onApplied(member: Member, claim: Claim, before: MemberState | undefined): void {
    if (member.state === 'suspect') return this.#onSuspect(member, claim);
    const suspicion = this.#suspicions.get(member.id);
    this.#suspicions.delete(member.id);
    if (member.state === 'dead' && before !== 'dead') this.#onDead(member, claim, suspicion);
    if (member.state === 'left') this.#emit('member.left', member, 'it announced its leave');
    if (member.state === 'alive') this.#onAlive(member, before);
    this.#lastWhy.delete(member.id);
  }

  #onSuspect(member: Member, claim: Claim): void {
    const { options, table, outbox, counters } = this.#context;
    const timing = {
      alpha: options.suspicionAlphaRatio,
      beta: options.refinements.healthAwareSuspicion ? options.suspicionBetaRatio : 1,
      confirmationsMax: options.confirmationsMax,
      refusalsNeeded: options.refusalsNeededCount,
    };
    const suspicion = new SuspicionTimer(outbox.nowMs, timing, table.liveCount + 1, options.probeIntervalMs);
    this.#suspicions.set(member.id, suspicion);
    suspicion.addAccuser(claim.by, claim.refused);
    counters.increment('suspicions');
    this.#recordAccusation(claim);
    this.#armTimer(member, suspicion);
    this.#emit('member.suspect', member, this.#reason(claim), suspicion);
  }

  #onDead(member: Member, claim: Claim, suspicion: SuspicionTimer | undefined): void {
    this.#context.counters.increment('deaths');
    if (claim.by === this.#context.self.id) this.#urgent = true;
    this.#recordAccusation(claim);
    // A member without datagrams is only known to be silent.
    const isProven = claim.refused && member.entry.watchedBy === undefined;
    this.#emit('member.dead', member, this.#reason(claim), suspicion, isProven);
  }

  #onAlive(member: Member, before: MemberState | undefined): void {
    if (before === 'alive') return;
    if (before === 'suspect') this.#context.counters.increment('suspicions.false');
    const returned = `it was ${before} and returned with incarnation ${member.incarnation}`;
    this.#emit('member.alive', member, before === undefined ? 'it joined' : returned);
    this.#conflicts.check(member);
  }

  /** Other members accuse another one: accusations of this node may have the same cause. */
  #recordAccusation({ id, by }: Claim): void {
    const { self, outbox } = this.#context;
    if (by !== self.id) this.#refutation.flapDamping.onOtherAccused(id, outbox.nowMs);
  }

  /** The finding of this node, or the name of the accuser. */
  #reason(claim: Claim): string {
    if (claim.by === claim.id) return 'it has withdrawn itself';
    if (claim.by !== this.#context.self.id) return `reported by ${this.#nameOf(claim.by)}`;
    return this.#lastWhy.get(claim.id) ?? 'no refutation in time';
  }

  #confirm(claim: Claim): void {
    const { table, gossip } = this.#context;
    const member = table.get(claim.id);
    const suspicion = this.#suspicions.get(claim.id);
    if (member === undefined || suspicion === undefined || !suspicion.addAccuser(claim.by, claim.refused)) return;
    gossip.add(claim);
    this.#armTimer(member, suspicion);
  }

  #armTimer(member: Member, suspicion: SuspicionTimer): void {
    const { id, generation, incarnation } = member;
    const delayMs = Math.max(0, suspicion.deadlineMs - this.#context.outbox.nowMs);
    this.#context.outbox.schedule(delayMs, { kind: 'suspicion', id, generation, incarnation });
  }

  /**
   * Sends a member that is believed dead or left that claim, so that it can refute it; also to one with a tombstone. A
   * withdrawn node does not: two withdrawn nodes would reply to each other for ever.
   */
  #notifyIfDead(from: Identity): void {
    const { self, table } = this.#context;
    if (self.withdrawn) return;
    const known = table.lastKnown(from.id);
    if (known === undefined || known.generation !== from.generation) return;
    if (known.state !== 'dead' && known.state !== 'left') return;
    const { generation, incarnation, state } = known;
    const claim = { kind: state, id: from.id, generation, incarnation, by: self.id, refused: false, entry: undefined };
    this.#refutation.sendClaim(claim, from);
  }

  #emit(
    type: MembershipEventType,
    member: Member,
    why: string,
    suspicion?: SuspicionTimer,
    portIsClosed = false,
  ): void {
    const { id, generation, incarnation } = member;
    const accusers = (suspicion?.accusers ?? []).map((id) => this.#nameOf(id));
    const refusedTo = (suspicion?.refusals ?? []).map((id) => this.#nameOf(id));
    const { name } = member.entry;
    const event = { type, id, name, generation, incarnation, why, accusers, refusedTo, portIsClosed };
    this.#context.outbox.push({ kind: 'event', event });
  }

  #nameOf(id: NodeId): string {
    const { self, table } = this.#context;
    return id === self.id ? self.entry.name : (table.get(id)?.entry.name ?? id);
  }
}

/** True when the claim must be applied. A death or leave of an unknown member adds no member. */
function isNewer(claim: Claim, known: MemberStatus | undefined): boolean {
  if (known !== undefined) return supersedes(claim, known);
  const state = claimedState(claim.kind);
  return claim.entry !== undefined && state !== 'dead' && state !== 'left' && claim.incarnation <= incarnationJumpMax;
}

/** The state of a member in the view of `by`, as a claim. */
export function claimAbout(member: Member, by: NodeId): Claim {
  const { id, generation, incarnation, state, entry } = member;
  return { kind: state, id, generation, incarnation, by, refused: false, entry };
}
