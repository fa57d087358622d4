/**
 * Exchanges whole views over TCP (push-pull): at join, periodically, and after a hash mismatch; equal hashes end an
 * exchange early. Pings dead members at a low rate, so that the halves of a healed partition find each other.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import { viewClaimsBytesMax, viewClaimsMax } from '../../messages/membership.ts';
import { type Claim, type MemberStatus, claimedState, supersedes } from '../state/claim.ts';
import { claimBytesBound } from '../state/gossip-queue.ts';
import type { MembershipContext, MembershipMessageOf, RequestPurpose } from '../state/context.ts';
import { type SuspicionPolicy, claimAbout } from '../suspicion/suspicion-policy.ts';
import { type Member, acceptsProbes } from '../state/member-table.ts';
import type { Prober } from '../probe/prober.ts';
import type { Gossiper } from '../probe/gossiper.ts';

/** How many members that a peer reports dead are probed at once; the others wait for their probe round. */
const reprobeMax = 8;

export class AntiEntropy {
  readonly #context: MembershipContext;
  readonly #policy: SuspicionPolicy;
  readonly #gossiper: Gossiper;
  readonly #prober: Prober;
  #lastSyncMs = Number.NEGATIVE_INFINITY;

  constructor(context: MembershipContext, policy: SuspicionPolicy, gossiper: Gossiper, prober: Prober) {
    this.#context = context;
    this.#policy = policy;
    this.#gossiper = gossiper;
    this.#prober = prober;
  }

  /** Requests the view of the node at this address, with the claim of this node about itself. */
  requestView(to: Address, as: 'join' | 'alive', purpose: RequestPurpose): void {
    const { outbox, options } = this.#context;
    this.#lastSyncMs = outbox.nowMs;
    const message = this.#syncMessage(this.#ownClaims(as), 'differences');
    outbox.push({ kind: 'request', to, message, timeoutMs: options.syncTimeoutMs, purpose });
  }

  /** Periodic exchange, preferably with a member whose view differs. */
  tick(): void {
    const { options, outbox, random, table } = this.#context;
    outbox.schedule(options.syncIntervalMs * random.between(0.8, 1.2), { kind: 'sync' });
    const own = this.#gossiper.viewHash;
    const [differing] = table.pick(1, (m) => m.state === 'alive' && m.viewHash !== 0 && m.viewHash !== own);
    const [alive] = table.pick(1, (m) => m.state === 'alive');
    const partner = differing ?? alive;
    if (partner !== undefined) this.syncWith(partner);
  }

  /** An ack carried the view hash of this member. While claims are still being gossiped a difference is expected. */
  onViewHash(member: Member): void {
    const { gossip, options, outbox } = this.#context;
    if (member.viewHash === this.#gossiper.viewHash || gossip.size > 0) return;
    if (outbox.nowMs - this.#lastSyncMs >= options.syncPauseMs) this.syncWith(member);
  }

  syncWith(member: Member): void {
    this.#context.counters.increment('syncs');
    this.requestView(member.entry, 'alive', { kind: 'sync', id: member.id });
  }

  /** Merges the claims of a received request. */
  mergeRequest(from: NodeId, message: MembershipMessageOf<'syncView'>): void {
    this.#merge(message.claims, from, true);
  }

  /** The reply carries the view, unless the sender wants none or has an equal one. */
  replyTo(message: MembershipMessageOf<'syncView'>): MembershipMessageOf<'syncViewReply'> {
    const viewHash = this.#gossiper.viewHash;
    const isEmpty = message.reply === 'nothing' || message.viewHash === viewHash;
    return { kind: 'syncViewReply', viewHash, claims: isEmpty ? [] : this.#view(), id: this.#context.self.id };
  }

  /**
   * Merges the view of the peer and sends back what the peer does not know. A joiner that knows only members of that
   * view does not gossip it: the peer gossips to the same members.
   */
  onReply(from: Address, message: MembershipMessageOf<'syncViewReply'>, isJoining: boolean): void {
    const { outbox, options } = this.#context;
    const { id } = message;
    this.#merge(message.claims, id, !isJoining || this.#knowsOthersThan(message.claims));
    if (message.claims.length === 0 || message.viewHash === this.#gossiper.viewHash) return;
    const theirs = new Map<NodeId, MemberStatus>(message.claims.map((claim) => [claim.id, statusOf(claim)]));
    const missing = this.#view().filter((claim) => {
      const known = theirs.get(claim.id);
      return known === undefined || supersedes(claim, known);
    });
    if (missing.length === 0) return;
    outbox.push({
      kind: 'request',
      to: from,
      message: this.#syncMessage(truncate(missing), 'nothing'),
      timeoutMs: options.syncTimeoutMs,
      purpose: { kind: 'sync', id },
    });
  }

  /** Sends one dead member the claim of its death, which it refutes if it is alive. */
  pingDead(): void {
    const { options, outbox, random, self, table } = this.#context;
    outbox.schedule(options.reviveIntervalMs * random.between(0.8, 1.2), { kind: 'revive' });
    const [dead] = table.pick(1, (m) => m.state === 'dead' && acceptsProbes(m));
    if (dead === undefined) return;
    const message = { kind: 'gossip', incarnation: self.incarnation, claims: [claimAbout(dead, self.id)] } as const;
    outbox.push({ kind: 'datagram', to: dead.entry, message });
  }

  /** Empty without datagrams: only the watcher of this node knows the current incarnation and makes claims about it. */
  #ownClaims(kind: 'join' | 'alive'): Claim[] {
    const { self } = this.#context;
    return self.hasDatagrams ? [self.claim(kind)] : [];
  }

  #syncMessage(claims: readonly Claim[], reply: 'differences' | 'nothing'): MembershipMessageOf<'syncView'> {
    return { kind: 'syncView', viewHash: this.#gossiper.viewHash, claims, reply };
  }

  /**
   * A death in a view may be out of date: it is merged as a suspicion, which the member can refute, and this node
   * probes the member at once instead of waiting out the suspicion. All other claims are merged as they are, and so are
   * deaths at a node without datagrams, which cannot probe.
   */
  #merge(claims: readonly Claim[], via: NodeId, spread: boolean): void {
    const { self, table } = this.#context;
    const toProbe: Member[] = [];
    for (const claim of claims) {
      const member = self.hasDatagrams && claim.kind === 'dead' ? table.get(claim.id) : undefined;
      if (member === undefined) {
        this.#policy.applyClaim(claim, via, spread);
        continue;
      }
      const { state } = member;
      this.#policy.applyClaim({ ...claim, kind: 'suspect', by: via }, via);
      if (state === 'alive' && table.get(claim.id)?.state === 'suspect' && acceptsProbes(member)) toProbe.push(member);
    }
    for (const member of toProbe.slice(0, reprobeMax)) {
      if (!this.#prober.isProbing(member.id)) this.#prober.probe(member, false);
    }
  }

  #knowsOthersThan(claims: readonly Claim[]): boolean {
    const named = new Set(claims.map(({ id }) => id));
    return [...this.#context.table.all()].some(({ id }) => !named.has(id));
  }

  #view(): Claim[] {
    const { self, table } = this.#context;
    const view = this.#ownClaims('alive');
    for (const member of table.all()) view.push(claimAbout(member, self.id));
    return truncate(view);
  }
}

/** As many claims as fit into one message; gossip and the next exchange carry the rest. */
function truncate(claims: readonly Claim[]): Claim[] {
  let bytes = 0;
  return claims.slice(0, viewClaimsMax).filter((claim) => (bytes += claimBytesBound(claim)) <= viewClaimsBytesMax);
}

function statusOf({ kind, generation, incarnation }: Claim): MemberStatus {
  return { generation, incarnation, state: claimedState(kind) };
}
