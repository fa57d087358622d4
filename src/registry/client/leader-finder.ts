/**
 * Whom to ask next: the leader as far as it is known, otherwise one manager after the other, who will say who leads.
 * All calls of a node share what one of them has learned.
 */
import type { Peer } from '../../base/ports.ts';

export class LeaderFinder {
  readonly #managers: () => readonly Peer[];
  #leader: Peer | undefined;
  #turn = 0;

  constructor(managers: () => readonly Peer[]) {
    this.#managers = managers;
  }

  /** Undefined when no manager is known. */
  target(): Peer | undefined {
    return this.#leader ?? this.nextManager();
  }

  /** The nearest one, until it has been avoided. */
  nextManager(): Peer | undefined {
    const managers = this.#managers();
    return managers[this.#turn % Math.max(1, managers.length)];
  }

  /** Whether it may be asked at all at this moment. */
  isCandidate({ id }: Peer): boolean {
    return this.#managers().some((manager) => manager.id === id);
  }

  leaderIs(peer: Peer): void {
    this.#leader = peer;
  }

  /** It did not answer, or does not lead: whoever asks next begins with another one. */
  avoid(peer: Peer): void {
    if (this.#leader?.id === peer.id) this.#leader = undefined;
    if (this.nextManager()?.id === peer.id) this.#turn += 1;
  }
}
