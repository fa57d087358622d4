/**
 * Joins the group: requests the view of seeds with backoff until they reply and that of former members once, and
 * rechecks a view soon after, because gossip is slow to spread members that joined at the same moment. Never merges a
 * view itself: anti-entropy.ts does.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import type { MembershipContext, RequestPurpose } from '../state/context.ts';
import type { AntiEntropy } from './anti-entropy.ts';

/** Rechecks of one view; the first that finds nothing new is the last. */
const recheckMax = 4;

export class Joiner {
  readonly #context: MembershipContext;
  readonly #antiEntropy: AntiEntropy;

  constructor(context: MembershipContext, antiEntropy: AntiEntropy) {
    this.#context = context;
    this.#antiEntropy = antiEntropy;
  }

  /** Requests the view of all seeds except this node; returns these seeds. */
  join(seeds: readonly Address[]): readonly Address[] {
    const others = seeds.filter((seed) => !isSame(seed, this.#context.self.entry));
    for (const seed of others) this.requestSeed(seed, 0);
    return others;
  }

  /** A seed is only an address: it becomes a member, and can be suspected, when it replies. */
  requestSeed(seed: Address, attempt: number): void {
    this.#antiEntropy.requestView(seed, 'join', { kind: 'join', seed, attempt });
  }

  /** Requests the view of former members, once each, because their addresses may be out of date. */
  requestKnown(known: readonly Address[], requested: readonly Address[] = []): void {
    const skipped = [this.#context.self.entry, ...requested];
    for (const address of known) {
      if (!skipped.some((one) => isSame(one, address)))
        this.#antiEntropy.requestView(address, 'join', { kind: 'greet', address });
    }
  }

  /** Retries with exponential backoff, and more often while no member is known. Also finds seeds that start late. */
  onSeedFailed(seed: Address, attempt: number): void {
    const { options, outbox, random, table } = this.#context;
    const backoffMs = Math.min(options.joinRetryMs * 2 ** Math.min(attempt, 8), options.syncIntervalMs);
    const delayMs =
      (table.liveCount === 0 ? Math.min(backoffMs, 5 * options.joinRetryMs) : backoffMs) * random.between(0.75, 1.25);
    outbox.schedule(delayMs, { kind: 'join', seed, attempt: attempt + 1 });
  }

  /** A member has replied with its view; `hadClaims` if that view differed. */
  onReply(by: NodeId, purpose: RequestPurpose, hadClaims: boolean): void {
    if (purpose.kind === 'join' || purpose.kind === 'greet') this.#scheduleRecheck(by, 1);
    if (purpose.kind !== 'look' || !hadClaims || purpose.attempt >= recheckMax) return;
    this.#scheduleRecheck(by, purpose.attempt + 1);
  }

  recheckView(id: NodeId, attempt: number): void {
    const member = this.#context.table.get(id);
    if (member?.state === 'alive') this.#antiEntropy.requestView(member.entry, 'alive', { kind: 'look', id, attempt });
  }

  /** With jitter, because members that joined together would also recheck together. */
  #scheduleRecheck(id: NodeId, attempt: number): void {
    const { options, outbox, random } = this.#context;
    outbox.schedule(options.gossipIntervalMs * random.between(1, 2), { kind: 'recheckView', id, attempt });
  }
}

function isSame(a: Address, b: Address): boolean {
  return a.host === b.host && a.port === b.port;
}
