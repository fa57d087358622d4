/**
 * Piggybacks claims on every message and gossips by ticks while there are some. Claims about the receiver go first (the
 * buddy system of Lifeguard), so that the accused hears of it with the next message.
 */
import { datagramBytesMax } from '../../base/ports.ts';
import type { EmbeddedPart } from '../../messages/membership.ts';
import type { Claim } from '../state/claim.ts';
import { claimBytesBound } from '../state/gossip-queue.ts';
import type { MembershipContext } from '../state/context.ts';
import { claimAbout } from '../suspicion/suspicion-policy.ts';
import { type Member, isLiveMember, acceptsProbes } from '../state/member-table.ts';

/** What a message takes besides its claims and embedded state. */
const envelopeBytes = 100;
/** Without datagrams there is only the manager to tell, which passes it on; once more in case it was not answered. */
const transmitToManagerMax = 2;

/** What a part of the embedded state takes besides itself. */
const partBytes = 8;

export function embeddedBytes(parts: readonly EmbeddedPart[] = []): number {
  return parts.reduce((sum, part) => sum + part.state.length + partBytes, 0);
}
/** Of the pause between two ticks: how long news that came together with other news is held back at most. */
const batchRatio = 1 / 8;

export class Gossiper {
  readonly #group: MembershipContext;
  #tickedMs = Number.NEGATIVE_INFINITY;
  /** When the next tick is due; infinite when none is. */
  #dueMs = Infinity;

  constructor(group: MembershipContext) {
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
    const accused = to.state === 'dead' || (to.state === 'suspect' && options.refinements.buddySystem);
    if (!accused) return this.#takeClaims(room);
    const about = claimAbout(to, self.id);
    return [about, ...this.#takeClaims(room - claimBytesBound(about)).filter((claim) => claim.id !== to.id)];
  }

  /**
   * After every step: news makes a tick due. What nobody was told yet hardly waits, only so long that news which comes
   * in crowds shares a message; bad news of our own does not wait at all.
   */
  scheduleTick(urgent: boolean): void {
    const { gossip, options, outbox, self } = this.#group;
    if (gossip.size === 0 || !self.hasDatagrams) return;
    const pauseMs = urgent ? 0 : options.gossipIntervalMs * (gossip.hasUnsent ? batchRatio : 1);
    const delayMs = Math.max(0, this.#tickedMs + pauseMs - outbox.nowMs);
    if (outbox.nowMs + delayMs >= this.#dueMs) return;
    this.#dueMs = outbox.nowMs + delayMs;
    outbox.after(delayMs, { kind: 'gossip' });
  }

  /** The timer of a tick; not of the next one if that was moved forward meanwhile. */
  expire(dueMs: number): void {
    if (dueMs === this.#dueMs) this.tick();
  }

  tick(): void {
    const { gossip, table, options, outbox, self } = this.#group;
    this.#dueMs = Infinity;
    this.#tickedMs = outbox.nowMs;
    if (gossip.size === 0 || !self.hasDatagrams) return;
    const isNear = (m: Member) =>
      isLiveMember(m) || (m.state === 'dead' && outbox.nowMs - m.sinceMs < options.gossipToDeadMs);
    for (const member of table.pick(options.gossipFanoutCount, (m) => acceptsProbes(m) && isNear(m))) {
      const claims = this.claimsFor(member);
      if (claims.length === 0) break;
      outbox.put({
        kind: 'datagram',
        to: member.entry,
        message: { kind: 'gossip', incarnation: self.incarnation, claims },
      });
    }
  }

  #takeClaims(bytesMax: number): Claim[] {
    const { gossip, counters } = this.#group;
    const claims = gossip.take(bytesMax, this.#transmitMax);
    counters.increment('gossip.claims', claims.length);
    return claims;
  }

  get #transmitMax(): number {
    const { options, self, table } = this.#group;
    if (!self.hasDatagrams) return transmitToManagerMax;
    return Math.max(1, Math.ceil(options.retransmitRatio * Math.log10(table.liveCount + 10)));
  }
}
