/**
 * Handles claims about this node: raises the incarnation above them, gossips alive, and repeats the refutation to peers
 * that missed it; or withdraws the node if it flaps. Never changes other members.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Peer } from '../../base/ports.ts';
import { type Claim, incarnationJumpMax, claimedState } from '../state/claim.ts';
import type { MembershipContext } from '../state/context.ts';
import { acceptsProbes } from '../state/member-table.ts';
import { FlapDamping } from './flap-damping.ts';

export class Refutation {
  readonly #context: MembershipContext;
  readonly flapDamping = new FlapDamping();

  constructor(context: MembershipContext) {
    this.#context = context;
  }

  /** A claim about this node, received from `via`. */
  onClaimAboutSelf(claim: Claim, via: NodeId): void {
    const { self, outbox } = this.#context;
    if (claim.generation > self.entry.generation) {
      self.emitEvent(
        outbox,
        'member.conflict',
        `another process uses this node id with generation ${claim.generation}`,
      );
      return;
    }
    if (self.leaving || self.withdrawn) return;
    const isThisGeneration = claim.generation === self.entry.generation;
    const isAlive = claimedState(claim.kind) === 'alive';
    const isCurrent = isAlive ? claim.incarnation > self.incarnation : claim.incarnation >= self.incarnation;
    if (isThisGeneration && isCurrent) {
      if (claim.incarnation - self.incarnation > incarnationJumpMax) return;
      if (this.#shouldWithdraw(claim)) return;
      this.#refute(claim);
    } else if (isAlive && isThisGeneration) return;
    this.#sendRefutation(via);
  }

  endWithdrawal(): void {
    const { self, gossip, outbox } = this.#context;
    if (!self.withdrawn) return;
    self.withdrawn = false;
    outbox.push({ kind: 'saveHints', writes: [self.raiseIncarnationAbove(self.incarnation)] });
    gossip.add(self.claim('alive'));
    self.emitEvent(outbox, 'self.returned', 'the time of its withdrawal has passed');
  }

  /** True when this node confirms its death instead of refuting it: then all members believe it. */
  #shouldWithdraw(claim: Claim): boolean {
    const { self, gossip, outbox, options, table } = this.#context;
    const state = claimedState(claim.kind);
    if (!options.refinements.flapDamping || (state !== 'suspect' && state !== 'dead')) return false;
    if (claim.incarnation !== self.incarnation) return false;
    const withdrawMs = this.flapDamping.onAccused(claim.by, state, outbox.nowMs, table.liveCount + 1);
    if (withdrawMs === undefined) return false;
    self.withdrawn = true;
    gossip.add(self.claim('dead'));
    self.emitEvent(
      outbox,
      'self.withdrew',
      `suspected or declared dead too often: withdrawn for ${withdrawMs / 1_000} s`,
    );
    outbox.schedule(withdrawMs, { kind: 'endWithdrawal' });
    return true;
  }

  #refute(claim: Claim): void {
    const { self, gossip, health, outbox, table, counters } = this.#context;
    outbox.push({ kind: 'saveHints', writes: [self.raiseIncarnationAbove(claim.incarnation)] });
    if (claimedState(claim.kind) !== 'alive') health.record('accused');
    counters.increment('refutations');
    // Without datagrams the next heartbeat carries the incarnation, and its receiver makes the claim.
    if (self.hasDatagrams) gossip.add(self.claim('alive'));
    self.emitEvent(outbox, 'member.refuted', `called ${claim.kind} by ${table.get(claim.by)?.entry.name ?? claim.by}`);
  }

  #sendRefutation(via: NodeId): void {
    const { self, table } = this.#context;
    const member = table.get(via);
    if (member !== undefined) this.sendClaim(self.claim('alive'), member.entry);
  }

  /** Sends one claim directly to this peer, if it has datagrams. */
  sendClaim(claim: Claim, to: Peer): void {
    const { self, outbox, table } = this.#context;
    const member = table.get(to.id);
    if (!self.hasDatagrams || (member !== undefined && !acceptsProbes(member))) return;
    outbox.push({ kind: 'datagram', to, message: { kind: 'gossip', incarnation: self.incarnation, claims: [claim] } });
  }
}
