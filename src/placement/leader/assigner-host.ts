/** Runs the assigner while this node leads and takes rebalance requests. Decides nothing. */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { LeaderMachineHost, type LeaderPorts } from './leader-machine-host.ts';
import {
  Assigner,
  type AssignerOptions,
  type AssignerPhase,
  assignerDefaults,
  type AssignerRequest,
} from './assigner.ts';
import type { BalanceEvent } from './assigner-event.ts';
import type { ClusterView } from '../state/cluster-view.ts';
import { rebalanceOptions } from '../balance/rebalance-options.ts';
import { type RebalanceRequest, type RebalanceResult, rebalanceLimits } from '../balance/rebalancer.ts';

export type AssignerPorts = LeaderPorts<BalanceEvent> & {
  /** Units of jobs on a node, which have to end before its drain does. */
  readonly runningUnitsAt?: (node: NodeId) => number;
  /** Membership has declared the node dead. */
  readonly isGone?: (node: NodeId) => boolean;
};

export class AssignerHost {
  readonly #machine: Assigner;
  readonly #host: LeaderMachineHost<AssignerRequest, RebalanceResult, BalanceEvent>;

  constructor(
    ports: AssignerPorts,
    options: Partial<Omit<AssignerOptions, 'wallOffsetMs' | 'runningUnitsAt' | 'isGone'>> = {},
  ) {
    const { clock, runningUnitsAt = () => 0, isGone = () => false } = ports;
    this.#machine = new Assigner({
      ...assignerDefaults,
      rebalance: rebalanceOptions('balanced'),
      ...options,
      wallOffsetMs: clock.wallMs() - clock.nowMs(),
      runningUnitsAt,
      isGone,
    });
    this.#host = new LeaderMachineHost(ports, this.#machine);
  }

  get phase(): AssignerPhase {
    return this.#machine.phase;
  }

  /** The view of the leader; undefined on other nodes. */
  get view(): ClusterView | undefined {
    return this.#machine.view;
  }

  /** NOT_LEADER on other nodes. Ends when all moves have started; the placer completes them. */
  rebalance(requested: Partial<RebalanceRequest>, done: Done<RebalanceResult>): void {
    const request = { dryRun: false, movesMax: rebalanceLimits.movesMaxDefault, ...requested };
    this.#host.request((call) => ({ kind: 'rebalance', call, request }), done);
  }

  stop(): void {
    this.#host.stop();
  }
}
