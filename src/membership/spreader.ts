/**
 * The spreader passes news on: as a passenger of every message that goes out anyway, and by ticks of its own while
 * there is news. What is said about the receiver itself goes first (Lifeguard's buddy system): the accused hears of it
 * with the next message, whoever sends it. Silent when there is nothing to tell.
 */
import { datagramBytesMax } from '../base/ports.ts';
import type { EmbeddedPart } from '../messages/membership.ts';
import type { Claim } from './claim.ts';
import { claimBytes } from './gossip-buffer.ts';
import type { Group } from './group.ts';
import { claimOf } from './judge.ts';
import { type Member, isLiving, isProbed } from './member-table.ts';

/** What a message takes besides its claims and embedded state. */
const envelopeBytes = 100;
/** Without datagrams there is only the manager to tell, which passes it on; once more in case it was not answered. */
const tellToManagerMax = 2;

/** What a part of the embedded state takes besides itself. */
const partBytes = 8;

export function embeddedBytes(parts: readonly EmbeddedPart[] = []): number {
  return parts.reduce((sum, part) => sum + part.state.length + partBytes, 0);
}

export class Spreader {
  readonly #group: Group;
  #ticking = false;

  constructor(group: Group) {
    this.#group = group;
  }

  get viewHash(): number {
    const { self, table } = this.#group;
    return (self.viewHash + table.viewHash) >>> 0;
  }

  /** The claims that ride on a message to this member. */
  claimsFor(to: Member, besidesBytes = 0): Claim[] {
    const { self, options } = this.#group;
    const room = datagramBytesMax - envelopeBytes - besidesBytes;
    const accused = to.state === 'dead' || (to.state === 'suspect' && options.refinements.buddy);
    if (!accused) return this.#take(room);
    const about = claimOf(to, self.id);
    return [about, ...this.#take(room - claimBytes(about)).filter((claim) => claim.id !== to.id)];
  }

  /** After every step: if there is news and no tick is due, make one due. Bad news does not wait. */
  wake(urgent: boolean): void {
    const { gossip, options, out, self } = this.#group;
    if (gossip.size === 0 || !self.hasDatagrams || (this.#ticking && !urgent)) return;
    this.#ticking = true;
    out.after(urgent ? 0 : options.gossipIntervalMs, { kind: 'gossip' });
  }

  tick(): void {
    const { gossip, table, options, out, self } = this.#group;
    this.#ticking = false;
    if (gossip.size === 0 || !self.hasDatagrams) return;
    const isNear = (m: Member) => isLiving(m) || (m.state === 'dead' && out.nowMs - m.sinceMs < options.gossipToDeadMs);
    for (const member of table.pick(options.gossipFanoutCount, (m) => isProbed(m) && isNear(m))) {
      const claims = this.claimsFor(member);
      if (claims.length === 0) break;
      out.put({
        kind: 'datagram',
        to: member.entry,
        message: { kind: 'gossip', incarnation: self.incarnation, claims },
      });
    }
  }

  #take(bytesMax: number): Claim[] {
    const { gossip, tally } = this.#group;
    const claims = gossip.take(bytesMax, this.#tellMax);
    tally.note('gossip.claims', claims.length);
    return claims;
  }

  get #tellMax(): number {
    const { options, self, table } = this.#group;
    if (!self.hasDatagrams) return tellToManagerMax;
    return Math.max(1, Math.ceil(options.retransmitRatio * Math.log10(table.living + 10)));
  }
}
