/**
 * Drives the placer (see ../leaders-host.ts), is asked for moves, and answers workers that ask for the serving lease.
 * Decides nothing.
 */
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { LeadersHost, type LeadersPorts } from '../leaders-host.ts';
import type { PlacementView } from './placement-view.ts';
import type { LeaseGrant } from './lease-grant.ts';
import { type OwnPlacerInput, Placer, type PlacerPhase } from './placer.ts';
import type { PlacerEvent } from './placer-event.ts';
import { type PlacerOptions, placerDefaults } from './placer-options.ts';
import type { ContainerMove } from './records.ts';
import type { Rank } from './situation.ts';

export type { PlacerOptions } from './placer-options.ts';

export type PlacerPorts = LeadersPorts<PlacerEvent> & {
  /** The wish of a pool's module: where a container should recover. What it throws counts as no wish. */
  readonly rank?: Rank;
};

export class PlacerHost {
  readonly #ports: PlacerPorts;
  readonly #machine: Placer;
  readonly #host: LeadersHost<OwnPlacerInput, void, PlacerEvent>;

  constructor(ports: PlacerPorts, options: Partial<PlacerOptions> = {}) {
    this.#ports = ports;
    this.#machine = new Placer({ ...placerDefaults, ...options }, harmless(ports.rank));
    this.#host = new LeadersHost(ports, this.#machine);
  }

  get phase(): PlacerPhase {
    return this.#machine.phase;
  }

  /** What the leader sees; undefined on everybody else. */
  get view(): PlacementView | undefined {
    return this.#machine.view;
  }

  /**
   * That life of a node asks whether it may go on serving. NOT_LEADER: somebody else may grant it. FENCED: a later life
   * of that node is known, or this one was proved to be over. `seenRevision` is how far its address table has got: one
   * that is behind what was decided about the node is granted nothing.
   */
  renewed(node: NodeId, generation: number, seenRevision = Infinity): Outcome<LeaseGrant & { readonly term: number }> {
    const { leadership, clock } = this.#ports;
    if (!leadership.isLeading()) return failure('NOT_LEADER', 'only the leader grants the serving lease');
    const outcome = this.#machine.grant(clock.nowMs(), { node, generation, seenRevision });
    if (!outcome.ok) return outcome;
    this.#host.feed({ kind: 'renewed', node });
    return { ok: true, value: { ...outcome.value, term: leadership.view().term } };
  }

  /** Proof, not belief: the process of that life runs no longer. */
  gone(node: NodeId, generation: number): void {
    this.#host.feed({ kind: 'gone', node, generation });
  }

  /** On the leader only; NOT_LEADER elsewhere. Ends when the move has begun; it goes on by itself. */
  requestMove(pool: string, container: number, to: NodeId, cause: ContainerMove['cause'], done: Done<void>): void {
    const request = { pool, container, to, cause };
    this.#host.ask((call) => ({ kind: 'move', call, request }), done);
  }

  stop(): void {
    this.#host.stop();
  }
}

/** Code of users: whatever it does, the leader goes on. */
function harmless(rank: Rank | undefined): Rank {
  return (pool, container, candidates) => {
    try {
      const order: unknown = rank?.(pool, container, candidates);
      return Array.isArray(order) ? order.filter((text) => typeof text === 'string') : undefined;
    } catch {
      return undefined;
    }
  };
}
