/**
 * Piggybacks claims on every message and gossips by ticks while the queue holds some. A claim that accuses the receiver
 * goes first (the buddy system of Lifeguard), so that it can refute at once.
 */
import { datagramBytesMax } from '../../base/ports.ts';
import type { EmbeddedPart } from '../../messages/membership.ts';
import type { Claim } from '../state/claim.ts';
import { claimBytesBound } from '../state/gossip-queue.ts';
import type { MembershipContext } from '../state/context.ts';
import { claimAbout } from '../suspicion/suspicion-policy.ts';
import { type Member, isLiveMember, acceptsProbes } from '../state/member-table.ts';

/** Bytes of a message without its claims and embedded state. */
const envelopeBytes = 100;
/** Without datagrams the manager is the only receiver and spreads the claim; twice, in case a ping is lost. */
const transmitToManagerMax = 2;

/** Of the gossip interval: how long a new claim waits at most for others to share a message with. */
const batchRatio = 1 / 8;
/** Bytes of a part of the embedded state without its content. */
const partBytes = 8;

export function embeddedBytes(parts: readonly EmbeddedPart[] = []): number {
  return parts.reduce((sum, part) => sum + part.state.length + partBytes, 0);
}
export class Gossiper {
  readonly #context: MembershipContext;
  #tickedMs = Number.NEGATIVE_INFINITY;
  /** When the next tick is due; infinite when none is. */
  #dueMs = Infinity;

  constructor(context: MembershipContext) {
    this.#context = context;
  }

  get viewHash(): number {
    const { self, table } = this.#context;
    return (self.viewHash + table.viewHash) >>> 0;
  }

  /** The claims that ride on a message to this member, which has `otherBytes` of other content. */
  claimsFor(to: Member, otherBytes = 0): Claim[] {
    const { self, options } = this.#context;
    const freeBytes = datagramBytesMax - envelopeBytes - otherBytes;
    const accused = to.state === 'dead' || (to.state === 'suspect' && options.refinements.buddySystem);
    if (!accused) return this.#takeClaims(freeBytes);
    const about = claimAbout(to, self.id);
    return [about, ...this.#takeClaims(freeBytes - claimBytesBound(about)).filter((claim) => claim.id !== to.id)];
  }

  /**
   * After every step: schedules a tick while the queue holds claims. A claim that was not sent yet waits only for
   * others to share a message with; a death that this node found (`urgent`) does not wait.
   */
  scheduleTick(urgent: boolean): void {
    const { gossip, options, outbox, self } = this.#context;
    if (gossip.size === 0 || !self.hasDatagrams) return;
    const pauseMs = urgent ? 0 : options.gossipIntervalMs * (gossip.hasUnsent ? batchRatio : 1);
    const delayMs = Math.max(0, this.#tickedMs + pauseMs - outbox.nowMs);
    if (outbox.nowMs + delayMs >= this.#dueMs) return;
    this.#dueMs = outbox.nowMs + delayMs;
    outbox.schedule(delayMs, { kind: 'gossip' });
  }

  /** A timer that was replaced by an earlier one does nothing. */
  expire(dueMs: number): void {
    if (dueMs === this.#dueMs) this.tick();
  }

  tick(): void {
    const { gossip, table, options, outbox, self } = this.#context;
    this.#dueMs = Infinity;
    this.#tickedMs = outbox.nowMs;
    if (gossip.size === 0 || !self.hasDatagrams) return;
    const isReceiver = (m: Member) =>
      isLiveMember(m) || (m.state === 'dead' && outbox.nowMs - m.sinceMs < options.gossipToDeadMs);
    for (const member of table.pick(options.gossipFanoutCount, (m) => acceptsProbes(m) && isReceiver(m))) {
      const claims = this.claimsFor(member);
      if (claims.length === 0) break;
      outbox.push({
        kind: 'datagram',
        to: member.entry,
        message: { kind: 'gossip', incarnation: self.incarnation, claims },
      });
    }
  }

  #takeClaims(bytesMax: number): Claim[] {
    const { gossip, counters } = this.#context;
    const claims = gossip.take(bytesMax, this.#transmitMax);
    counters.increment('gossip.claims', claims.length);
    return claims;
  }

  get #transmitMax(): number {
    const { options, self, table } = this.#context;
    if (!self.hasDatagrams) return transmitToManagerMax;
    return Math.max(1, Math.ceil(options.retransmitRatio * Math.log10(table.liveCount + 10)));
  }
}
