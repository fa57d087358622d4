/**
 * Answers claims about this node: raises the incarnation, gossips alive, repeats the refutation to peers that missed
 * it. Never changes other members.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Peer } from '../../base/ports.ts';
import { type Claim, incarnationJumpMax, claimedState } from '../state/claim.ts';
import type { MembershipContext } from '../state/context.ts';
import { acceptsProbes } from '../state/member-table.ts';
import { FlapDamping } from './flap-damping.ts';

export class Refutation {
  readonly #group: MembershipContext;
  readonly restraint = new FlapDamping();

  constructor(group: MembershipContext) {
    this.#group = group;
  }

  /** A claim about us, passed on by `via`. */
  onClaimAboutSelf(claim: Claim, via: NodeId): void {
    const { self, outbox } = this.#group;
    if (claim.generation > self.entry.generation) {
      self.emitEvent(outbox, 'member.conflict', `somebody else uses our id in life ${claim.generation}`);
      return;
    }
    if (self.leaving || self.withdrawn) return;
    const ofThisLife = claim.generation === self.entry.generation;
    const alive = claimedState(claim.kind) === 'alive';
    const touchesUs = alive ? claim.incarnation > self.incarnation : claim.incarnation >= self.incarnation;
    if (ofThisLife && touchesUs) {
      if (claim.incarnation - self.incarnation > incarnationJumpMax) return;
      if (this.#shouldWithdraw(claim)) return;
      this.#refute(claim);
    } else if (alive && ofThisLife) return;
    this.#sendRefutation(via);
  }

  /** Lets somebody that is believed to be gone know what is believed of it. */
  sendClaim(claim: Claim, to: Peer): void {
    this.#say(to, claim);
  }

  endWithdrawal(): void {
    const { self, gossip, outbox } = this.#group;
    if (!self.withdrawn) return;
    self.withdrawn = false;
    outbox.put({ kind: 'remember', writes: [self.raiseIncarnationAbove(self.incarnation)] });
    gossip.add(self.claim('alive'));
    self.emitEvent(outbox, 'self.returned', 'the time out is over');
  }

  /** True when we do not refute it but say the same: then all believe it. */
  #shouldWithdraw(claim: Claim): boolean {
    const { self, gossip, outbox, options, table } = this.#group;
    const state = claimedState(claim.kind);
    if (!options.refinements.flapDamping || (state !== 'suspect' && state !== 'dead')) return false;
    if (claim.incarnation !== self.incarnation) return false;
    const outMs = this.restraint.onAccused(claim.by, state, outbox.nowMs, table.liveCount + 1);
    if (outMs === undefined) return false;
    self.withdrawn = true;
    gossip.add(self.claim('dead'));
    self.emitEvent(outbox, 'self.withdrew', `accused or buried too often: out for ${outMs / 1_000} s`);
    outbox.after(outMs, { kind: 'return' });
    return true;
  }

  #refute(claim: Claim): void {
    const { self, gossip, health, outbox, table, counters } = this.#group;
    outbox.put({ kind: 'remember', writes: [self.raiseIncarnationAbove(claim.incarnation)] });
    if (claimedState(claim.kind) !== 'alive') health.record('accused');
    counters.increment('refutations');
    // Without datagrams the next heartbeat says it, and the one who hears that vouches for it.
    if (self.hasDatagrams) gossip.add(self.claim('alive'));
    self.emitEvent(outbox, 'member.refuted', `called ${claim.kind} by ${table.get(claim.by)?.entry.name ?? claim.by}`);
  }

  #sendRefutation(via: NodeId): void {
    const { self, table } = this.#group;
    const member = table.get(via);
    if (member !== undefined) this.#say(member.entry, self.claim('alive'));
  }

  #say(to: Peer, claim: Claim): void {
    const { self, outbox, table } = this.#group;
    const member = table.get(to.id);
    if (!self.hasDatagrams || (member !== undefined && !acceptsProbes(member))) return;
    outbox.put({ kind: 'datagram', to, message: { kind: 'gossip', incarnation: self.incarnation, claims: [claim] } });
  }
}
