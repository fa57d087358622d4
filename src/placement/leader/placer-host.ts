/** Runs the placer while this node leads, takes move requests, and grants serving leases. Decides nothing. */
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { LeaderMachineHost, type LeaderPorts } from './leader-machine-host.ts';
import type { PlacementView } from '../state/placement-view.ts';
import type { ServingLeaseGrant, ServingLeaseRequest } from '../state/serving-leases.ts';
import { type PlacerRequest, Placer, type PlacerPhase } from './placer.ts';
import { type PlacerEvent, type PlacerOptions, placerDefaults } from './placer-types.ts';
import type { ContainerMove } from '../state/container-records.ts';
import type { RecoveryRanking } from '../plans/planning-context.ts';

export type PlacerPorts = LeaderPorts<PlacerEvent> & {
  /** The preference of a pool's module for the node that recovers a container. An exception counts as no preference. */
  readonly rank?: RecoveryRanking;
};

export class PlacerHost {
  readonly #ports: PlacerPorts;
  readonly #machine: Placer;
  readonly #host: LeaderMachineHost<PlacerRequest, void, PlacerEvent>;

  constructor(ports: PlacerPorts, options: Partial<PlacerOptions> = {}) {
    this.#ports = ports;
    this.#machine = new Placer({ ...placerDefaults, ...options }, checkedRanking(ports.rank));
    this.#host = new LeaderMachineHost(ports, this.#machine);
  }

  get phase(): PlacerPhase {
    return this.#machine.phase;
  }

  /** The view of the leader; undefined on other nodes. */
  get view(): PlacementView | undefined {
    return this.#machine.view;
  }

  /**
   * Grants or renews the serving lease of a node instance. NOT_LEADER: another node may grant it. FENCED: a later
   * generation is known, the process of this one has ended, or the node follows the registry of another group.
   * PRECONDITION: the address table of the node, which has reached `seen`, does not show the latest decisions about it.
   */
  grantServingLease(
    node: NodeId,
    generation: number,
    seen: ServingLeaseRequest['seen'] = { revision: Infinity, epoch: undefined },
  ): Outcome<ServingLeaseGrant & { readonly term: number }> {
    const { leadership, clock } = this.#ports;
    if (!leadership.isLeading()) return failure('NOT_LEADER', 'only the leader grants the serving lease', 'no');
    const outcome = this.#machine.grantServingLease(clock.nowMs(), { node, generation, seen });
    if (!outcome.ok) return outcome;
    this.#host.feed({ kind: 'leaseRenewed', node });
    return { ok: true, value: { ...outcome.value, term: leadership.view().term } };
  }

  /** Proof, not suspicion: the process of that node instance has ended. */
  nodeGone(node: NodeId, generation: number): void {
    this.#host.feed({ kind: 'nodeGone', node, generation });
  }

  /** NOT_LEADER on other nodes. Ends when the move has started; placer and owner complete it. */
  requestMove(pool: string, container: number, to: NodeId, cause: ContainerMove['cause'], done: Done<void>): void {
    const request = { pool, container, to, cause };
    this.#host.request((call) => ({ kind: 'move', call, request }), done);
  }

  stop(): void {
    this.#host.stop();
  }
}

/** The ranking is user code: an exception or a malformed result counts as no preference. */
function checkedRanking(rank: RecoveryRanking | undefined): RecoveryRanking {
  return (pool, container, candidates) => {
    try {
      const order: unknown = rank?.(pool, container, candidates);
      return Array.isArray(order) ? order.filter((text) => typeof text === 'string') : undefined;
    } catch {
      return undefined;
    }
  };
}
