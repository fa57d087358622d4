/**
 * Joins the group: asks seeds with backoff until they answer, asks members of the last run once, and rechecks their
 * views soon after, since gossip is slow to tell of members that joined at the same moment. Never merges a view itself.
 *
 * What an answer says is merged by anti-entropy.ts.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import type { MembershipContext, RequestPurpose } from '../state/context.ts';
import type { AntiEntropy } from './anti-entropy.ts';

/** So often at most; the first look that finds nothing new is the last one. */
const recheckMax = 4;

export class Joiner {
  readonly #group: MembershipContext;
  readonly #views: AntiEntropy;

  constructor(group: MembershipContext, views: AntiEntropy) {
    this.#group = group;
    this.#views = views;
  }

  /** Asks all seeds that are not ourselves; returns which these are. */
  join(seeds: readonly Address[]): readonly Address[] {
    const others = seeds.filter((seed) => !isSame(seed, this.#group.self.entry));
    for (const seed of others) this.ask(seed, 0);
    return others;
  }

  /** Asks a seed, of which only the address is known. It is no member, and never suspected, before it has answered. */
  ask(seed: Address, attempt: number): void {
    this.#views.requestView(seed, 'join', { kind: 'join', seed, attempt });
  }

  /** Asks those that were members in our last life, each once: they may be anywhere by now. */
  askKnown(known: readonly Address[], asked: readonly Address[] = []): void {
    const met = [this.#group.self.entry, ...asked];
    for (const address of known) {
      if (!met.some((one) => isSame(one, address)))
        this.#views.requestView(address, 'join', { kind: 'greet', address });
    }
  }

  /** Goes on asking, ever less often, while nobody is known; otherwise now and then, for seeds that were down at first. */
  onSeedFailed(seed: Address, attempt: number): void {
    const { options, outbox, random, table } = this.#group;
    const backoffMs = Math.min(options.joinRetryMs * 2 ** Math.min(attempt, 8), options.syncIntervalMs);
    const delayMs =
      (table.liveCount === 0 ? Math.min(backoffMs, 5 * options.joinRetryMs) : backoffMs) * random.between(0.75, 1.25);
    outbox.after(delayMs, { kind: 'join', seed, attempt: attempt + 1 });
  }

  /** Somebody has answered; did it know anything new? */
  answered(by: NodeId, purpose: RequestPurpose, hadNews: boolean): void {
    if (purpose.kind === 'join' || purpose.kind === 'greet') this.#lookLater(by, 1);
    if (purpose.kind === 'look' && hadNews && purpose.attempt < recheckMax) this.#lookLater(by, purpose.attempt + 1);
  }

  recheckView(id: NodeId, attempt: number): void {
    const member = this.#group.table.get(id);
    if (member?.state === 'alive') this.#views.requestView(member.entry, 'alive', { kind: 'look', id, attempt });
  }

  /** Not all at once: those who came together would also look together. */
  #lookLater(id: NodeId, attempt: number): void {
    const { options, outbox, random } = this.#group;
    outbox.after(options.gossipIntervalMs * random.between(1, 2), { kind: 'look', id, attempt });
  }
}

function isSame(a: Address, b: Address): boolean {
  return a.host === b.host && a.port === b.port;
}
