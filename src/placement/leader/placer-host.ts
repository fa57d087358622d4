/** Runs the placer while this node leads, takes move requests, and grants serving leases. Decides nothing. */
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { LeaderMachineHost, type LeaderPorts } from './leader-machine-host.ts';
import type { PlacementView } from '../state/placement-view.ts';
import type { ServingLeaseGrant } from '../state/lease-grant.ts';
import { type PlacerRequest, Placer, type PlacerPhase } from './placer.ts';
import type { PlacerEvent } from './placer-types.ts';
import { type PlacerOptions, placerDefaults } from './placer-options.ts';
import type { ContainerMove } from '../state/container-records.ts';
import type { RecoveryRanking } from '../plans/planning-context.ts';

export type { PlacerOptions } from './placer-options.ts';

export type PlacerPorts = LeaderPorts<PlacerEvent> & {
  /** The wish of a pool's module: where a container should recover. What it throws counts as no wish. */
  readonly rank?: RecoveryRanking;
};

export class PlacerHost {
  readonly #ports: PlacerPorts;
  readonly #machine: Placer;
  readonly #host: LeaderMachineHost<PlacerRequest, void, PlacerEvent>;

  constructor(ports: PlacerPorts, options: Partial<PlacerOptions> = {}) {
    this.#ports = ports;
    this.#machine = new Placer({ ...placerDefaults, ...options }, harmless(ports.rank));
    this.#host = new LeaderMachineHost(ports, this.#machine);
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
  grantServingLease(
    node: NodeId,
    generation: number,
    seenRevision = Infinity,
  ): Outcome<ServingLeaseGrant & { readonly term: number }> {
    const { leadership, clock } = this.#ports;
    if (!leadership.isLeading()) return failure('NOT_LEADER', 'only the leader grants the serving lease', 'no');
    const outcome = this.#machine.grantServingLease(clock.nowMs(), { node, generation, seenRevision });
    if (!outcome.ok) return outcome;
    this.#host.feed({ kind: 'renewed', node });
    return { ok: true, value: { ...outcome.value, term: leadership.view().term } };
  }

  /** Proof, not belief: the process of that life runs no longer. */
  nodeGone(node: NodeId, generation: number): void {
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
function harmless(rank: RecoveryRanking | undefined): RecoveryRanking {
  return (pool, container, candidates) => {
    try {
      const order: unknown = rank?.(pool, container, candidates);
      return Array.isArray(order) ? order.filter((text) => typeof text === 'string') : undefined;
    } catch {
      return undefined;
    }
  };
}
