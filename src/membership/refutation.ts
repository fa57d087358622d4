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

export class Refutation {
  readonly #group: Group;

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
    if (self.leaving) return;
    const ofThisLife = claim.generation === self.entry.generation;
    const alive = stateOf(claim.kind) === 'alive';
    const touchesUs = alive ? claim.incarnation > self.incarnation : claim.incarnation >= self.incarnation;
    if (ofThisLife && touchesUs) {
      if (claim.incarnation - self.incarnation > incarnationJumpMax) return;
      this.#refute(claim);
    } else if (alive && ofThisLife) return;
    this.#sayToItsFace(via);
  }

  /** Lets somebody that is believed to be gone know what is believed of it. */
  tellOfDeath(claim: Claim, to: Peer): void {
    this.#say(to, claim);
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
