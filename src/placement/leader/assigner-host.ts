/** Drives the assigner (see ../leaders-host.ts), and is asked to rebalance. Decides nothing. */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { LeaderMachineHost, type LeaderPorts } from './leader-machine-host.ts';
import {
  Assigner,
  type AssignerOptions,
  type AssignerPhase,
  assignerDefaults,
  type OwnAssignerInput,
} from './assigner.ts';
import type { BalanceEvent } from './assigner-event.ts';
import type { ClusterView } from '../state/cluster-view.ts';
import { rebalanceOptions } from '../balance/rebalance-options.ts';
import { type RebalanceRequest, type RebalanceResult, rebalanceLimits } from '../balance/rebalancer.ts';

export type AssignerPorts = LeaderPorts<BalanceEvent> & {
  /** Units of jobs at a node, and whatever else has to end before it is drained. */
  readonly runningUnitsAt?: (node: NodeId) => number;
  /** Membership knows that the node is dead. */
  readonly isGone?: (node: NodeId) => boolean;
};

export class AssignerHost {
  readonly #machine: Assigner;
  readonly #host: LeaderMachineHost<OwnAssignerInput, RebalanceResult, BalanceEvent>;

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

  /** What the leader sees; undefined on everybody else. */
  get view(): ClusterView | undefined {
    return this.#machine.view;
  }

  /** On the leader only; NOT_LEADER elsewhere. Ends when its moves have begun; they go on by themselves. */
  rebalance(asked: Partial<RebalanceRequest>, done: Done<RebalanceResult>): void {
    const request = { dryRun: false, movesMax: rebalanceLimits.movesMaxDefault, ...asked };
    this.#host.ask((call) => ({ kind: 'rebalance', call, request }), done);
  }

  stop(): void {
    this.#host.stop();
  }
}
