/**
 * What is said about ourselves, and what we say to the buried. An accusation is answered by a higher incarnation, which
 * is gossiped, and told once more to whoever still believes the old one: a refutation that was missed is repeated for
 * as long as it is missed. A member that was buried and speaks is told so, which lets it do the same.
 */
import type { NodeId } from '../base/ids.ts';
import type { Peer } from '../base/ports.ts';
import { type Claim, incarnationJumpMax, stateOf } from './claim.ts';
import type { Group } from './group.ts';
import { isProbed } from './member-table.ts';
import { Restraint } from './restraint.ts';

export class Refutation {
  readonly #group: Group;
  readonly restraint = new Restraint();

  constructor(group: Group) {
    this.#group = group;
  }

  /** A claim about us, passed on by `via`. */
  hear(claim: Claim, via: NodeId): void {
    const { self, out } = this.#group;
    if (claim.generation > self.entry.generation) {
      self.tell(out, 'member.conflict', `somebody else uses our id in life ${claim.generation}`);
      return;
    }
    if (self.leaving || self.out) return;
    const ofThisLife = claim.generation === self.entry.generation;
    const alive = stateOf(claim.kind) === 'alive';
    const touchesUs = alive ? claim.incarnation > self.incarnation : claim.incarnation >= self.incarnation;
    if (ofThisLife && touchesUs) {
      if (claim.incarnation - self.incarnation > incarnationJumpMax) return;
      if (this.#withdraws(claim)) return;
      this.#refute(claim);
    } else if (alive && ofThisLife) return;
    this.#sayToItsFace(via);
  }

  /** Lets somebody that is believed to be gone know what is believed of it. */
  tellOfDeath(claim: Claim, to: Peer): void {
    this.#say(to, claim);
  }

  returnToGroup(): void {
    const { self, gossip, out } = this.#group;
    if (!self.out) return;
    self.out = false;
    out.put({ kind: 'remember', writes: [self.raiseAbove(self.incarnation)] });
    gossip.add(self.claim('alive'));
    self.tell(out, 'self.returned', 'the time out is over');
  }

  /** True when we do not refute it but say the same: then all believe it. */
  #withdraws(claim: Claim): boolean {
    const { self, gossip, out, options, table } = this.#group;
    const state = stateOf(claim.kind);
    if (!options.refinements.restraint || (state !== 'suspect' && state !== 'dead')) return false;
    if (claim.incarnation !== self.incarnation) return false;
    const outMs = this.restraint.accused(claim.by, state, out.nowMs, table.living + 1);
    if (outMs === undefined) return false;
    self.out = true;
    gossip.add(self.claim('dead'));
    self.tell(out, 'self.withdrew', `accused or buried too often: out for ${outMs / 1_000} s`);
    out.after(outMs, { kind: 'return' });
    return true;
  }

  #refute(claim: Claim): void {
    const { self, gossip, health, out, table, tally } = this.#group;
    out.put({ kind: 'remember', writes: [self.raiseAbove(claim.incarnation)] });
    if (stateOf(claim.kind) !== 'alive') health.note('accused');
    tally.note('refutations');
    // Without datagrams the next heartbeat says it, and the one who hears that vouches for it.
    if (self.hasDatagrams) gossip.add(self.claim('alive'));
    self.tell(out, 'member.refuted', `called ${claim.kind} by ${table.get(claim.by)?.entry.name ?? claim.by}`);
  }

  #sayToItsFace(via: NodeId): void {
    const { self, table } = this.#group;
    const member = table.get(via);
    if (member !== undefined) this.#say(member.entry, self.claim('alive'));
  }

  #say(to: Peer, claim: Claim): void {
    const { self, out, table } = this.#group;
    const member = table.get(to.id);
    if (!self.hasDatagrams || (member !== undefined && !isProbed(member))) return;
    out.put({ kind: 'datagram', to, message: { kind: 'gossip', incarnation: self.incarnation, claims: [claim] } });
  }
}
