/**
 * Decides what to believe of each member: alive, suspect, dead, left; how long a suspect has; what to gossip. Never
 * probes. Claims about this node go to refutation.ts.
 *
 *            join, ack                 accused                 time is up, or its port is closed
 *   unknown ----------> alive <----------------------> suspect ---------------------------------> dead --> forgotten
 *                         ^        refuted                                                          |
 *                         +-------------------------------------------------------------------------+
 *                                         higher incarnation, or a new life
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
  readonly #group: MembershipContext;
  readonly #refutation: Refutation;
  readonly #conflicts: NameConflicts;
  readonly #suspicions = new Map<NodeId, SuspicionTimer>();
  /** What our last probe of a suspect found, for the event of its death. */
  readonly #lastWhy = new Map<NodeId, string>();
  #urgent = false;
  /** Told when a member that was given up is back: the views of both sides should be compared. */
  #returned: (member: Member) => void = () => {};
  #settled: (member: Member) => void = () => {};

  constructor(group: MembershipContext) {
    this.#group = group;
    this.#refutation = new Refutation(group);
    this.#conflicts = new NameConflicts(group);
  }

  /** True once after bad news: it should be told at once. */
  takeUrgent(): boolean {
    const urgent = this.#urgent;
    this.#urgent = false;
    return urgent;
  }

  /** Told of each member whose state, life or incarnation has changed. */
  onChange(settled: (member: Member) => void): void {
    this.#settled = settled;
  }

  onRejoin(returned: (member: Member) => void): void {
    this.#returned = returned;
  }

  /** A claim that somebody (`via`) passed on to us; nobody need hear it from us if it is not to be passed on. */
  applyClaim(claim: Claim, via: NodeId, passOn = true): void {
    const { self, table, gossip, outbox } = this.#group;
    if (claim.id === self.id) return this.#refutation.onClaimAboutSelf(claim, via);
    const known = table.lastKnown(claim.id);
    if (!isNews(claim, known)) {
      if (known !== undefined && claim.kind === 'suspect' && confirms(claim, known)) this.#confirm(claim);
      return;
    }
    if (this.#needsOwnSuspicion(claim)) return this.applyClaim({ ...claim, kind: 'suspect' }, via, passOn);
    const formerLife = this.#formerLife(claim);
    const before = formerLife === undefined ? known?.state : undefined;
    const member = table.apply(claim, outbox.nowMs);
    if (member === undefined) return;
    if (passOn) gossip.add(claim);
    else gossip.remove(claim.id);
    if (formerLife !== undefined) this.#tell('member.dead', formerLife, 'a later life of it appeared');
    this.#settle(member, claim, before);
    this.#settled(member);
    // Only who hears it first-hand compares views; if all did, it would be buried again, under questions.
    if (before === 'dead' && member.state === 'alive' && via === member.id) this.#returned(member);
  }

  /** Our own finding: nobody got an answer from it. Each witness says whether the host refused it. */
  suspect(member: Member, refused: boolean, witnesses: ReadonlyMap<NodeId, boolean>, why: string): void {
    const { self } = this.#group;
    const { id, generation, incarnation } = member;
    this.#lastWhy.set(id, why);
    this.applyClaim({ kind: 'suspect', id, generation, incarnation, by: self.id, refused, entry: undefined }, self.id);
    const suspicion = this.#suspicions.get(id);
    if (suspicion === undefined) return;
    let news = false;
    for (const [witness, wasRefused] of witnesses) news = suspicion.addAccuser(witness, wasRefused) || news;
    if (news) this.#await(member, suspicion);
  }

  /** Our own finding about a member that only we hear. */
  applyVerdict(claim: Claim, why: string): void {
    const { self, table } = this.#group;
    this.#lastWhy.set(claim.id, why);
    this.applyClaim(claim, self.id);
    if (table.get(claim.id)?.state !== 'suspect') this.#lastWhy.delete(claim.id);
  }

  /** Any message from a member proves the life and incarnation it was sent in. */
  confirmAlive(from: Identity, incarnation: number): void {
    const { table, outbox } = this.#group;
    const member = table.get(from.id);
    if (member?.generation !== from.generation || member.incarnation !== incarnation) {
      const { id, name, host, port, generation, roles, dc } = from;
      const entry = { id, name, host, port, generation, roles, dc };
      const kind = member === undefined ? 'join' : 'alive';
      this.applyClaim({ kind, id, generation, incarnation, by: id, refused: false, entry }, id);
    }
    const now = table.get(from.id);
    if (now?.generation === from.generation) {
      now.heardMs = outbox.nowMs;
      table.markChanged(now.id);
    }
    this.#answerTheBuried(from);
  }

  /** The time of a suspicion may be up. */
  expire(id: NodeId, generation: number, incarnation: number): void {
    const { table, outbox } = this.#group;
    const member = table.get(id);
    const suspicion = this.#suspicions.get(id);
    if (member?.state !== 'suspect' || suspicion === undefined) return;
    if (member.generation !== generation || member.incarnation !== incarnation) return;
    // An earlier deadline was meant, or it was moved because we slept: a later timer is under way.
    if (suspicion.deadlineMs > outbox.nowMs + 0.5) return;
    this.#declareDead(member);
  }

  /** We were not listening for this long: nobody is to be blamed for it. */
  discountPause(pauseMs: number): void {
    const { table, outbox } = this.#group;
    this.#refutation.restraint.onPause(outbox.nowMs);
    for (const [id, suspicion] of this.#suspicions) {
      suspicion.discountPause(pauseMs);
      const member = table.get(id);
      if (member !== undefined) this.#await(member, suspicion);
    }
  }

  /** The time that we wanted to stay out is over. */
  endWithdrawal(): void {
    this.#refutation.endWithdrawal();
  }

  /** Forgets those that have been dead or gone for long. */
  reap(): void {
    const { table, options, outbox } = this.#group;
    for (const member of [...table.all()]) {
      if (!isLiveMember(member) && outbox.nowMs - member.sinceMs >= options.reapAfterMs) table.tombstone(member);
    }
  }

  #declareDead({ id, generation, incarnation }: Pick<Member, 'id' | 'generation' | 'incarnation'>): void {
    const { self } = this.#group;
    const refused = this.#suspicions.get(id)?.isPortClosed ?? false;
    this.applyClaim({ kind: 'dead', id, generation, incarnation, by: self.id, refused, entry: undefined }, self.id);
  }

  /**
   * A death that somebody else declared is believed at once by those who have suspected the member for a while
   * themselves, if its port was found closed, or if the member says so of itself (restraint.ts). To all others it is one
   * more accusation: a slow member that wakes up with old verdicts buries nobody. Without datagrams we find nothing out
   * ourselves, and take the word of those who do.
   */
  #needsOwnSuspicion(claim: Claim): boolean {
    const { self, table, outbox, options } = this.#group;
    const member = table.get(claim.id);
    if (claim.kind !== 'dead' || claim.by === self.id || claim.refused) return false;
    if (!options.refinements.requireOwnSuspicion || !self.hasDatagrams) return false;
    if (member === undefined || !isLiveMember(member) || claim.generation !== member.generation) return false;
    if (claim.by === claim.id) return false;
    return !this.#suspicions.get(claim.id)?.isMature(outbox.nowMs);
  }

  /** A copy of what is known of the life that this claim ends, if it was not over. */
  #formerLife(claim: Claim): Member | undefined {
    const member = this.#group.table.get(claim.id);
    return member !== undefined && claim.generation > member.generation && isLiveMember(member)
      ? { ...member }
      : undefined;
  }

  #settle(member: Member, claim: Claim, before: MemberState | undefined): void {
    if (member.state === 'suspect') return this.#suspect(member, claim);
    const suspicion = this.#suspicions.get(member.id);
    this.#suspicions.delete(member.id);
    if (member.state === 'dead' && before !== 'dead') this.#buried(member, claim, suspicion);
    if (member.state === 'left') this.#tell('member.left', member, 'it said so');
    if (member.state === 'alive') this.#alive(member, before);
    this.#lastWhy.delete(member.id);
  }

  #suspect(member: Member, claim: Claim): void {
    const { options, table, outbox, counters } = this.#group;
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
    this.#noteTrouble(claim);
    this.#await(member, suspicion);
    this.#tell('member.suspect', member, this.#reason(claim), suspicion);
  }

  #buried(member: Member, claim: Claim, suspicion: SuspicionTimer | undefined): void {
    this.#group.counters.increment('deaths');
    if (claim.by === this.#group.self.id) this.#urgent = true;
    this.#noteTrouble(claim);
    // Of a member without datagrams nobody knows more than that it is silent.
    const isProven = claim.refused && member.entry.watchedBy === undefined;
    this.#tell('member.dead', member, this.#reason(claim), suspicion, isProven);
  }

  #alive(member: Member, before: MemberState | undefined): void {
    if (before === 'alive') return;
    if (before === 'suspect') this.#group.counters.increment('suspicions.false');
    const again = `it was ${before} and came back with incarnation ${member.incarnation}`;
    this.#tell('member.alive', member, before === undefined ? 'it joined' : again);
    this.#conflicts.check(member);
  }

  /** Others than us find somebody else silent: then what is said of us may have the same reason. */
  #noteTrouble({ id, by }: Claim): void {
    const { self, outbox } = this.#group;
    if (by !== self.id) this.#refutation.restraint.onOtherAccused(id, outbox.nowMs);
  }

  /** What we found ourselves, or who says so. */
  #reason(claim: Claim): string {
    if (claim.by === claim.id) return 'it takes itself out';
    if (claim.by !== this.#group.self.id) return `says ${this.#nameOf(claim.by)}`;
    return this.#lastWhy.get(claim.id) ?? 'no refutation in time';
  }

  #confirm(claim: Claim): void {
    const { table, gossip } = this.#group;
    const member = table.get(claim.id);
    const suspicion = this.#suspicions.get(claim.id);
    if (member === undefined || suspicion === undefined || !suspicion.addAccuser(claim.by, claim.refused)) return;
    gossip.add(claim);
    this.#await(member, suspicion);
  }

  #await(member: Member, suspicion: SuspicionTimer): void {
    const { id, generation, incarnation } = member;
    const delayMs = Math.max(0, suspicion.deadlineMs - this.#group.outbox.nowMs);
    this.#group.outbox.after(delayMs, { kind: 'suspicion', id, generation, incarnation });
  }

  /**
   * Whoever speaks and is believed to be dead or gone hears of it; also one that is long forgotten. Not from one that is
   * out itself: two that do not refute would tell each other for ever.
   */
  #answerTheBuried(from: Identity): void {
    const { self, table } = this.#group;
    if (self.withdrawn) return;
    const known = table.lastKnown(from.id);
    if (known === undefined || known.generation !== from.generation) return;
    if (known.state !== 'dead' && known.state !== 'left') return;
    const { generation, incarnation, state } = known;
    const claim = { kind: state, id: from.id, generation, incarnation, by: self.id, refused: false, entry: undefined };
    this.#refutation.sendClaim(claim, from);
  }

  #tell(
    type: MembershipEventType,
    member: Member,
    why: string,
    suspicion?: SuspicionTimer,
    portIsClosed = false,
  ): void {
    const { id, generation, incarnation } = member;
    const accusers = (suspicion?.accusers ?? []).map((one) => this.#nameOf(one));
    const refusedTo = (suspicion?.refusals ?? []).map((one) => this.#nameOf(one));
    const { name } = member.entry;
    const event = { type, id, name, generation, incarnation, why, accusers, refusedTo, portIsClosed };
    this.#group.outbox.put({ kind: 'event', event });
  }

  #nameOf(id: NodeId): string {
    const { self, table } = this.#group;
    return id === self.id ? self.entry.name : (table.get(id)?.entry.name ?? id);
  }
}

/** Must it be taken over and passed on? Nobody is introduced to us by an obituary. */
function isNews(claim: Claim, known: MemberStatus | undefined): boolean {
  if (known !== undefined) return supersedes(claim, known);
  const state = claimedState(claim.kind);
  return claim.entry !== undefined && state !== 'dead' && state !== 'left' && claim.incarnation <= incarnationJumpMax;
}

/** What we believe of a member, as a claim. */
export function claimAbout(member: Member, by: NodeId): Claim {
  const { id, generation, incarnation, state, entry } = member;
  return { kind: state, id, generation, incarnation, by, refused: false, entry };
}
