/**
 * Which manager gets the next request: the leader if known, else one manager after another, which redirects to the
 * leader. All requests of a node share one finder. Sends nothing itself.
 */
import type { Peer } from '../../base/ports.ts';

export class LeaderFinder {
  readonly #managers: () => readonly Peer[];
  #leader: Peer | undefined;
  /** Index of the next manager; grows without bound. */
  #next = 0;

  constructor(managers: () => readonly Peer[]) {
    this.#managers = managers;
  }

  /** The leader, or the next manager; undefined if no manager is known. */
  target(): Peer | undefined {
    return this.#leader ?? this.nextManager();
  }

  /** The preferred manager, until it has been avoided. */
  nextManager(): Peer | undefined {
    const managers = this.#managers();
    return managers[this.#next % Math.max(1, managers.length)];
  }

  /** True while this peer is one of the known managers. */
  isCandidate({ id }: Peer): boolean {
    return this.#managers().some((manager) => manager.id === id);
  }

  leaderIs(peer: Peer): void {
    this.#leader = peer;
  }

  /** The peer did not reply or does not lead: the next request goes to another manager. */
  avoid(peer: Peer): void {
    if (this.#leader?.id === peer.id) this.#leader = undefined;
    if (this.nextManager()?.id === peer.id) this.#next += 1;
  }
}
