/**
 * Compares whole views over TCP (push-pull): at join, periodically, after a hash mismatch. Equal hashes end it early;
 * dead members are pinged to heal partitions.
 *
 * It also knocks at the doors of the dead at a low rate: that is how two halves of a group find each other again.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import { viewClaimsBytesMax, viewClaimsMax } from '../../messages/membership.ts';
import { type Claim, type MemberStatus, supersedes } from '../state/claim.ts';
import { claimBytesBound } from '../state/gossip-queue.ts';
import type { MembershipContext, MembershipMessageOf, RequestPurpose } from '../state/context.ts';
import { type SuspicionPolicy, claimAbout } from '../suspicion/suspicion-policy.ts';
import { type Member, acceptsProbes } from '../state/member-table.ts';
import type { Prober } from '../probe/prober.ts';
import type { Gossiper } from '../probe/gossiper.ts';

/** How many of those whom another calls dead are probed at once; the others wait for their turn. */
const reprobeMax = 8;

export class AntiEntropy {
  readonly #group: MembershipContext;
  readonly #judge: SuspicionPolicy;
  readonly #spreader: Gossiper;
  readonly #prober: Prober;
  #lastSyncMs = Number.NEGATIVE_INFINITY;

  constructor(group: MembershipContext, judge: SuspicionPolicy, spreader: Gossiper, prober: Prober) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.#prober = prober;
  }

  /** Asks for the view of whoever is at this address, and says who we are. */
  requestView(to: Address, as: 'join' | 'alive', purpose: RequestPurpose): void {
    const { outbox, options } = this.#group;
    this.#lastSyncMs = outbox.nowMs;
    const message = this.#sync(this.#own(as), 'differences');
    outbox.put({ kind: 'request', to, message, timeoutMs: options.syncTimeoutMs, purpose });
  }

  /** Anti-entropy: with a member whose view differs, if there is one. */
  tick(): void {
    const { options, outbox, random, table } = this.#group;
    outbox.after(options.syncIntervalMs * random.between(0.8, 1.2), { kind: 'sync' });
    const own = this.#spreader.viewHash;
    const [differing] = table.pick(1, (m) => m.state === 'alive' && m.viewHash !== 0 && m.viewHash !== own);
    const [anybody] = table.pick(1, (m) => m.state === 'alive');
    const partner = differing ?? anybody;
    if (partner !== undefined) this.syncWith(partner);
  }

  /** An ack told the hash of somebody's view. While news is on its way a difference is expected. */
  onViewHash(member: Member): void {
    const { gossip, options, outbox } = this.#group;
    if (member.viewHash === this.#spreader.viewHash || gossip.size > 0) return;
    if (outbox.nowMs - this.#lastSyncMs >= options.syncPauseMs) this.syncWith(member);
  }

  syncWith(member: Member): void {
    this.#group.counters.increment('syncs');
    this.requestView(member.entry, 'alive', { kind: 'sync', id: member.id });
  }

  /** The other side of an exchange: what it says, and what it is told. */
  mergeRequest(from: NodeId, message: MembershipMessageOf<'syncView'>): void {
    this.#merge(message.claims, from, true);
  }

  replyTo(message: MembershipMessageOf<'syncView'>): MembershipMessageOf<'syncViewReply'> {
    const viewHash = this.#spreader.viewHash;
    const told = message.reply === 'nothing' || message.viewHash === viewHash;
    return { kind: 'syncViewReply', viewHash, claims: told ? [] : this.#view(), id: this.#group.self.id };
  }

  /**
   * Takes the other's view over and sends back what it does not know yet. A newcomer that knows nobody but those has
   * nobody to tell of them: whom it could tell, the one that answered tells, too.
   */
  onReply(from: Address, message: MembershipMessageOf<'syncViewReply'>, asNewcomer: boolean): void {
    const { outbox, options } = this.#group;
    const { id } = message;
    this.#merge(message.claims, id, !asNewcomer || this.#knowsOthersThan(message.claims));
    if (message.claims.length === 0 || message.viewHash === this.#spreader.viewHash) return;
    const theirs = new Map<NodeId, MemberStatus>(message.claims.map((claim) => [claim.id, standingOf(claim)]));
    const missing = this.#view().filter((claim) => {
      const known = theirs.get(claim.id);
      return known === undefined || supersedes(claim, known);
    });
    if (missing.length === 0) return;
    outbox.put({
      kind: 'request',
      to: from,
      message: this.#sync(fitting(missing), 'nothing'),
      timeoutMs: options.syncTimeoutMs,
      purpose: { kind: 'sync', id },
    });
  }

  /** Pings one of the dead, with the claim of its death, which it will refute if it can. */
  pingDead(): void {
    const { options, outbox, random, self, table } = this.#group;
    outbox.after(options.reviveIntervalMs * random.between(0.8, 1.2), { kind: 'revive' });
    const [dead] = table.pick(1, (m) => m.state === 'dead' && acceptsProbes(m));
    if (dead === undefined) return;
    const message = { kind: 'gossip', incarnation: self.incarnation, claims: [claimAbout(dead, self.id)] } as const;
    outbox.put({ kind: 'datagram', to: dead.entry, message });
  }

  /** Of a member without datagrams only the one that hears it may speak: it knows who that is, and in which incarnation. */
  #own(kind: 'join' | 'alive'): Claim[] {
    const { self } = this.#group;
    return self.hasDatagrams ? [self.claim(kind)] : [];
  }

  #sync(claims: readonly Claim[], reply: 'differences' | 'nothing'): MembershipMessageOf<'syncView'> {
    return { kind: 'syncView', viewHash: this.#spreader.viewHash, claims, reply };
  }

  /**
   * The death of a member in a view may be old news: it becomes an accusation, which gives it time to refute, and we
   * look for ourselves: whoever missed the news of a crash would else wait out a whole suspicion. Departures and lives
   * are taken over as they are, and everything by a node without datagrams, which can find out nothing better.
   */
  #merge(claims: readonly Claim[], via: NodeId, passOn: boolean): void {
    const { self, table } = this.#group;
    const doubted: Member[] = [];
    for (const claim of claims) {
      const member = self.hasDatagrams && claim.kind === 'dead' ? table.get(claim.id) : undefined;
      if (member === undefined) {
        this.#judge.applyClaim(claim, via, passOn);
        continue;
      }
      const { state } = member;
      this.#judge.applyClaim({ ...claim, kind: 'suspect', by: via }, via);
      if (state === 'alive' && table.get(claim.id)?.state === 'suspect' && acceptsProbes(member)) doubted.push(member);
    }
    for (const member of doubted.slice(0, reprobeMax)) {
      if (!this.#prober.isProbing(member.id)) this.#prober.probe(member, false);
    }
  }

  #knowsOthersThan(claims: readonly Claim[]): boolean {
    const named = new Set(claims.map(({ id }) => id));
    return [...this.#group.table.all()].some(({ id }) => !named.has(id));
  }

  #view(): Claim[] {
    const { self, table } = this.#group;
    const view = this.#own('alive');
    for (const member of table.all()) view.push(claimAbout(member, self.id));
    return fitting(view);
  }
}

/** As many as one message holds; in a group so large the rest is left to gossip and to the next exchange. */
function fitting(claims: readonly Claim[]): Claim[] {
  let bytes = 0;
  return claims.slice(0, viewClaimsMax).filter((claim) => (bytes += claimBytesBound(claim)) <= viewClaimsBytesMax);
}

function standingOf(claim: Claim): MemberStatus {
  return {
    generation: claim.generation,
    incarnation: claim.incarnation,
    state: claim.kind === 'join' ? 'alive' : claim.kind,
  };
}
