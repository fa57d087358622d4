/**
 * Managers that lately asked this node about their group. For a moment they may be known to nobody else: whoever asks
 * next is told of them, so that two managers which share this node as a seed learn of each other. Bounded, and forgets.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Clock, Identity } from '../../base/ports.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';

const rememberedMs = 10_000;
const askersMax = 64;

export class RecentRequesters {
  readonly #clock: Clock;
  readonly #askers = new Map<NodeId, { readonly who: Identity; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note(who: Identity): void {
    this.#askers.delete(who.id);
    this.#askers.set(who.id, { who, atMs: this.#clock.nowMs() });
    const [oldest] = this.#askers.keys();
    if (this.#askers.size > askersMax && oldest !== undefined) this.#askers.delete(oldest);
  }

  of(dc: string): readonly GroupMember[] {
    const sinceMs = this.#clock.nowMs() - rememberedMs;
    return [...this.#askers.values()]
      .filter(({ who, atMs }) => who.dc === dc && atMs >= sinceMs)
      .map(({ who: { id, name, host, port } }) => ({ id, name, host, port, standing: 'syncing' }));
  }
}
