/** Drives the assigner (see ../leaders-host.ts), and is asked to rebalance. Decides nothing. */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { LeadersHost, type LeadersPorts } from '../leaders-host.ts';
import {
  Assigner,
  type AssignerOptions,
  type AssignerPhase,
  assignerDefaults,
  type OwnAssignerInput,
} from './assigner.ts';
import type { AssignerEvent } from './assigner-event.ts';
import type { ClusterView } from './cluster-view.ts';
import { rebalanceOptions } from './rebalance-options.ts';
import { type RebalanceRequest, type RebalanceResult, rebalanceLimits } from './rebalancer.ts';

export type AssignerPorts = LeadersPorts<AssignerEvent> & {
  /** Units of jobs at a node, and whatever else has to end before it is drained. */
  readonly workAt?: (node: NodeId) => number;
};

export class AssignerHost {
  readonly #machine: Assigner;
  readonly #host: LeadersHost<OwnAssignerInput, RebalanceResult, AssignerEvent>;

  constructor(ports: AssignerPorts, options: Partial<Omit<AssignerOptions, 'wallOffsetMs' | 'workAt'>> = {}) {
    const { clock, workAt = () => 0 } = ports;
    this.#machine = new Assigner({
      ...assignerDefaults,
      rebalance: rebalanceOptions('balanced'),
      ...options,
      wallOffsetMs: clock.wallMs() - clock.nowMs(),
      workAt,
    });
    this.#host = new LeadersHost(ports, this.#machine);
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
