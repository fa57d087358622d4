/**
 * Decides for each directed link whether, when and how often bytes arrive. Never reads them and knows no receivers.
 *
 * Datagrams are lost, duplicated and reordered. Segments of a connection are resent until they arrive: loss costs time,
 * and a cut holds them until the link is mended.
 */
import { assert } from '../../base/assert.ts';
import type { Random } from '../../base/random.ts';
import type { Timeline } from './timeline.ts';

export type LinkConditions = {
  readonly delayMs: number;
  /** Upper bound of a random delay that is added to each datagram or segment. */
  readonly jitterMs: number;
  readonly lossRatio: number;
  readonly duplicateRatio: number;
  /** Share of datagrams that are delayed long enough to be overtaken. */
  readonly reorderRatio: number;
  /** 0: unlimited. */
  readonly bytesPerSecond: number;
};

export const lanConditions: LinkConditions = {
  delayMs: 0.25,
  jitterMs: 0.25,
  lossRatio: 0,
  duplicateRatio: 0,
  reorderRatio: 0,
  bytesPerSecond: 0,
};

const headerBytes = 60;
const resendMs = 200;
const resendsMax = 8;
/** A router with a longer queue drops datagrams. */
const routerQueueMsMax = 250;

type Link = {
  conditions: LinkConditions;
  cuts: number;
  cutSinceMs: number;
  busyUntilMs: number;
  readonly waiting: Set<() => void>;
};

export type CutListener = (from: number, to: number) => void;

export class SimulatedNetwork {
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #base: LinkConditions;
  readonly #links: Link[][] = [];
  readonly #cutListeners: CutListener[] = [];

  constructor(timeline: Timeline, random: Random, base: LinkConditions = lanConditions) {
    this.#timeline = timeline;
    this.#random = random;
    this.#base = base;
  }

  /** Changes the given conditions of one direction. */
  change(from: number, to: number, patch: Partial<LinkConditions>): void {
    const link = this.#link(from, to);
    link.conditions = { ...link.conditions, ...patch };
  }

  /** Restores the named conditions of one direction to those at the start of the world. */
  restore(from: number, to: number, names: readonly (keyof LinkConditions)[]): void {
    this.change(from, to, Object.fromEntries(names.map((name) => [name, this.#base[name]])));
  }

  /** Cuts are counted: a link that two faults cut is mended when both have ended. */
  cut(from: number, to: number): void {
    const link = this.#link(from, to);
    link.cuts += 1;
    if (link.cuts > 1) return;
    link.cutSinceMs = this.#timeline.nowMs;
    for (const listener of this.#cutListeners) listener(from, to);
  }

  mend(from: number, to: number): void {
    const link = this.#link(from, to);
    if (link.cuts === 0) return;
    link.cuts -= 1;
    if (link.cuts === 0) this.#release(link);
  }

  /** Restores every link to its conditions at the start of the world. */
  heal(): void {
    for (const row of this.#links) {
      for (const link of row ?? []) {
        if (link === undefined) continue;
        link.conditions = this.#base;
        link.cuts = 0;
        this.#release(link);
      }
    }
  }

  isCut(from: number, to: number): boolean {
    return this.#link(from, to).cuts > 0;
  }

  /** Start of the current cut; infinity if the link is not cut. */
  cutSinceMs(from: number, to: number): number {
    const link = this.#link(from, to);
    return link.cuts > 0 ? link.cutSinceMs : Number.POSITIVE_INFINITY;
  }

  watchCuts(listener: CutListener): void {
    this.#cutListeners.push(listener);
  }

  /** Calls back some time after the link is mended. The result cancels it. */
  onceMended(from: number, to: number, run: () => void): () => void {
    const link = this.#link(from, to);
    assert(link.cuts > 0, 'the link is not cut');
    link.waiting.add(run);
    return () => link.waiting.delete(run);
  }

  /** Calls `arrive` for each copy that arrives; a copy in flight is lost when the link is cut. */
  datagram(from: number, to: number, sizeBytes: number, arrive: () => void): void {
    const link = this.#link(from, to);
    const { lossRatio, duplicateRatio, reorderRatio, delayMs, jitterMs } = link.conditions;
    if (link.cuts > 0 || this.#drawn(lossRatio)) return;
    const queueMs = this.#queueMs(link, sizeBytes);
    if (queueMs > routerQueueMsMax) return;
    const copies = this.#drawn(duplicateRatio) ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      const heldMs = this.#drawn(reorderRatio) ? this.#random.between(1, 10) * (delayMs + jitterMs) : 0;
      this.#timeline.after(queueMs + this.#travelMs(link) + heldMs, () => {
        if (link.cuts === 0) arrive();
      });
    }
  }

  /** Travel time of a segment of a connection, resends included. */
  segmentMs(from: number, to: number, sizeBytes: number): number {
    const link = this.#link(from, to);
    let travelMs = this.#queueMs(link, sizeBytes) + this.#travelMs(link);
    for (let resends = 0; resends < resendsMax && this.#drawn(link.conditions.lossRatio); resends++) {
      travelMs += resendMs * 2 ** Math.min(resends, 4);
    }
    return travelMs;
  }

  #travelMs(link: Link): number {
    const { delayMs, jitterMs } = link.conditions;
    return jitterMs > 0 ? delayMs + this.#random.fraction() * jitterMs : delayMs;
  }

  #queueMs(link: Link, sizeBytes: number): number {
    const { bytesPerSecond } = link.conditions;
    if (bytesPerSecond === 0) return 0;
    const sendingMs = ((sizeBytes + headerBytes) * 1000) / bytesPerSecond;
    const now = this.#timeline.nowMs;
    const queueMs = Math.max(0, link.busyUntilMs - now) + sendingMs;
    link.busyUntilMs = now + queueMs;
    return queueMs;
  }

  #drawn(ratio: number): boolean {
    return ratio > 0 && this.#random.chance(ratio);
  }

  /** Senders notice the mended link at their next resend. */
  #release(link: Link): void {
    const waiting = [...link.waiting];
    link.waiting.clear();
    for (const run of waiting) this.#timeline.after(this.#random.between(0, resendMs), run);
  }

  #link(from: number, to: number): Link {
    const row = (this.#links[from] ??= []);
    return (row[to] ??= { conditions: this.#base, cuts: 0, cutSinceMs: 0, busyUntilMs: 0, waiting: new Set() });
  }
}
