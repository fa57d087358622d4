/**
 * Drives the assigner: tells it when this node leads, follows `/cluster/` while it does, and carries its transactions to
 * the registry. It decides nothing, but acts only while the lease of the leader surely holds.
 */
import { unreachable } from '../../base/assert.ts';
import { type Done, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/loop.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Leadership, Registry, RegistryTransaction } from '../../base/registry.ts';
import { keyRanges } from '../keys.ts';
import {
  Assigner,
  type AssignerAct,
  type AssignerInput,
  type AssignerOptions,
  type AssignerPhase,
  assignerDefaults,
} from './assigner.ts';
import type { AssignerEvent } from './assigner-event.ts';
import type { ClusterView } from './cluster-view.ts';
import { mirror } from './mirror.ts';
import { rebalanceOptions } from './rebalance-options.ts';
import { type RebalanceRequest, type RebalanceResult, rebalanceLimits } from './rebalancer.ts';

export type AssignerPorts = {
  readonly registry: Pick<Registry, 'range' | 'watch' | 'transact'>;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly tell: (event: AssignerEvent) => void;
  readonly halted: (error: unknown) => void;
  /** Units of jobs at a node, and whatever else has to end before it is drained. */
  readonly workAt?: (node: NodeId) => number;
};

const transactTimeoutMs = 5_000;
const callsMax = 100;

export class AssignerHost {
  readonly #ports: AssignerPorts;
  readonly #machine: Assigner;
  readonly #loop: Loop<AssignerInput, AssignerAct, 'wake'>;
  readonly #calls = new Map<number, Done<RebalanceResult>>();
  #nextCall = 1;
  #unfollow: Cancel = () => {};
  readonly #unwatch: Cancel;

  constructor(ports: AssignerPorts, options: Partial<Omit<AssignerOptions, 'wallOffsetMs' | 'workAt'>> = {}) {
    const { clock, leadership, halted } = ports;
    this.#ports = ports;
    this.#machine = new Assigner({
      ...assignerDefaults,
      rebalance: rebalanceOptions('balanced'),
      ...options,
      wallOffsetMs: clock.wallMs() - clock.nowMs(),
      workAt: ports.workAt ?? (() => 0),
    });
    this.#loop = new Loop(this.#machine, { clock, store: noStore, perform: (effect) => this.#perform(effect), halted });
    this.#unwatch = leadership.watch({
      became: (fence) => this.#loop.feed({ kind: 'became', fence }),
      lost: () => this.#loop.feed({ kind: 'lost' }),
    });
    const { fence } = leadership.view();
    if (leadership.isLeading() && fence !== undefined) this.#loop.feed({ kind: 'became', fence });
  }

  get phase(): AssignerPhase {
    return this.#machine.phase;
  }

  /** What the leader sees; undefined on everybody else. */
  get view(): ClusterView | undefined {
    return this.#machine.view;
  }

  /** On the leader only; NOT_LEADER elsewhere. Ends when its moves have begun; they go on by themselves. */
  rebalance(request: Partial<RebalanceRequest>, done: Done<RebalanceResult>): void {
    if (this.#calls.size === callsMax) {
      this.#ports.clock.schedule(0, () => done(failure('CAPACITY')));
      return;
    }
    const call = this.#nextCall++;
    this.#calls.set(call, done);
    const asked = { dryRun: false, movesMax: rebalanceLimits.movesMaxDefault, ...request };
    this.#ports.clock.schedule(0, () => this.#loop.feed({ kind: 'rebalance', call, request: asked }));
  }

  stop(): void {
    this.#unwatch();
    this.#loop.feed({ kind: 'lost' });
    this.#loop.stop();
    this.#unfollow();
    for (const done of this.#calls.values()) done(failure('NOT_LEADER', 'this node is stopping'));
    this.#calls.clear();
  }

  #perform(effect: AssignerAct): void {
    switch (effect.kind) {
      case 'follow':
        return this.#follow();
      case 'unfollow':
        return this.#unfollow();
      case 'transact':
        return this.#transact(effect.id, effect.transaction);
      case 'tell':
        return this.#ports.tell(effect.event);
      case 'answer':
        this.#calls.get(effect.call)?.(effect.outcome);
        this.#calls.delete(effect.call);
        return;
      default:
        return unreachable(effect);
    }
  }

  #follow(): void {
    this.#unfollow();
    this.#unfollow = mirror(this.#ports.registry, this.#ports.clock, keyRanges.cluster, {
      loaded: (entries, revision) => this.#loop.feed({ kind: 'loaded', entries, revision }),
      changed: (changes, revision) => this.#loop.feed({ kind: 'changed', changes, revision }),
    });
  }

  #transact(id: number, transaction: RegistryTransaction): void {
    const { registry, leadership, clock } = this.#ports;
    if (leadership.isLeading()) {
      registry.transact(transaction, { timeoutMs: transactTimeoutMs }, (outcome) => {
        this.#loop.feed({ kind: 'transacted', id, outcome });
      });
    } else {
      clock.schedule(0, () => this.#loop.feed({ kind: 'transacted', id, outcome: failure('NOT_LEADER') }));
    }
  }
}
