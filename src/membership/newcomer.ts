/**
 * How we come into a group: asks seeds until they answer, greets those that were members in our last life, and looks a
 * few times again at the views of those that answered. Others may have come at the same moment: whom the seed heard of a
 * little later, it would else be left to gossip to tell us, and the last piece of news by gossip is a slow one.
 *
 * What an answer says is merged by view-exchange.ts.
 */
import type { NodeId } from '../base/ids.ts';
import type { Address } from '../base/ports.ts';
import type { Group, Purpose } from './group.ts';
import type { ViewExchange } from './view-exchange.ts';

/** So often at most; the first look that finds nothing new is the last one. */
const looksMax = 4;

export class Newcomer {
  readonly #group: Group;
  readonly #views: ViewExchange;

  constructor(group: Group, views: ViewExchange) {
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
    this.#views.ask(seed, 'join', { kind: 'join', seed, attempt });
  }

  /** Asks those that were members in our last life, each once: they may be anywhere by now. */
  greet(known: readonly Address[], asked: readonly Address[] = []): void {
    const met = [this.#group.self.entry, ...asked];
    for (const address of known) {
      if (!met.some((one) => isSame(one, address))) this.#views.ask(address, 'join', { kind: 'greet', address });
    }
  }

  /** Goes on asking, ever less often, while nobody is known; otherwise now and then, for seeds that were down at first. */
  failed(seed: Address, attempt: number): void {
    const { options, out, random, table } = this.#group;
    const backoffMs = Math.min(options.joinRetryMs * 2 ** Math.min(attempt, 8), options.syncIntervalMs);
    const delayMs =
      (table.living === 0 ? Math.min(backoffMs, 5 * options.joinRetryMs) : backoffMs) * random.between(0.75, 1.25);
    out.after(delayMs, { kind: 'join', seed, attempt: attempt + 1 });
  }

  /** Somebody has answered; did it know anything new? */
  answered(by: NodeId, purpose: Purpose, hadNews: boolean): void {
    if (purpose.kind === 'join' || purpose.kind === 'greet') this.#lookLater(by, 1);
    if (purpose.kind === 'look' && hadNews && purpose.attempt < looksMax) this.#lookLater(by, purpose.attempt + 1);
  }

  look(id: NodeId, attempt: number): void {
    const member = this.#group.table.get(id);
    if (member?.state === 'alive') this.#views.ask(member.entry, 'alive', { kind: 'look', id, attempt });
  }

  /** Not all at once: those who came together would also look together. */
  #lookLater(id: NodeId, attempt: number): void {
    const { options, out, random } = this.#group;
    out.after(options.gossipIntervalMs * random.between(1, 2), { kind: 'look', id, attempt });
  }
}

function isSame(a: Address, b: Address): boolean {
  return a.host === b.host && a.port === b.port;
}
