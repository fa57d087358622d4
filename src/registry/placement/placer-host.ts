/**
 * Drives the placer: tells it when this node leads, follows `/cluster/` while it does, carries its transactions to the
 * registry, and answers workers that ask for the serving lease. It decides nothing, but acts only while the lease of the
 * leader surely holds.
 */
import { unreachable } from '../../base/assert.ts';
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/loop.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Leadership, Registry, RegistryTransaction } from '../../base/registry.ts';
import { mirror } from '../assignment/mirror.ts';
import { keyRanges } from '../keys.ts';
import type { PlacementView } from './placement-view.ts';
import type { LeaseGrant } from './lease-grant.ts';
import { Placer, type PlacerAct, type PlacerInput, type PlacerPhase } from './placer.ts';
import type { PlacerEvent } from './placer-event.ts';
import { type PlacerOptions, placerDefaults } from './placer-options.ts';
import type { ContainerMove } from './records.ts';
import type { Rank } from './situation.ts';

export type { PlacerOptions } from './placer-options.ts';

export type PlacerPorts = {
  readonly registry: Pick<Registry, 'range' | 'watch' | 'transact'>;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly tell: (event: PlacerEvent) => void;
  readonly halted: (error: unknown) => void;
  /** The wish of a pool's module: where a container should recover. What it throws counts as no wish. */
  readonly rank?: Rank;
};

const transactTimeoutMs = 5_000;
const callsMax = 100;

export class PlacerHost {
  readonly #ports: PlacerPorts;
  readonly #machine: Placer;
  readonly #loop: Loop<PlacerInput, PlacerAct, 'wake'>;
  readonly #calls = new Map<number, Done<void>>();
  #nextCall = 1;
  #unfollow: Cancel = () => {};
  readonly #unwatch: Cancel;

  constructor(ports: PlacerPorts, options: Partial<PlacerOptions> = {}) {
    const { clock, leadership, halted, rank } = ports;
    this.#ports = ports;
    this.#machine = new Placer({ ...placerDefaults, ...options }, harmless(rank));
    this.#loop = new Loop(this.#machine, { clock, store: noStore, perform: (effect) => this.#perform(effect), halted });
    this.#unwatch = leadership.watch({
      became: (fence) => this.#loop.feed({ kind: 'became', fence }),
      lost: () => this.#loop.feed({ kind: 'lost' }),
    });
    const { fence } = leadership.view();
    if (leadership.isLeading() && fence !== undefined) this.#loop.feed({ kind: 'became', fence });
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
    this.#loop.feed({ kind: 'renewed', node });
    return { ok: true, value: { ...outcome.value, term: leadership.view().term } };
  }

  /** Proof, not belief: the process of that life runs no longer. */
  gone(node: NodeId, generation: number): void {
    this.#loop.feed({ kind: 'gone', node, generation });
  }

  /** On the leader only; NOT_LEADER elsewhere. Ends when the move has begun; it goes on by itself. */
  requestMove(pool: string, container: number, to: NodeId, cause: ContainerMove['cause'], done: Done<void>): void {
    if (this.#calls.size === callsMax) {
      this.#ports.clock.schedule(0, () => done(failure('CAPACITY')));
      return;
    }
    const call = this.#nextCall++;
    this.#calls.set(call, done);
    const request = { pool, container, to, cause };
    this.#ports.clock.schedule(0, () => this.#loop.feed({ kind: 'move', call, request }));
  }

  stop(): void {
    this.#unwatch();
    this.#loop.feed({ kind: 'lost' });
    this.#loop.stop();
    this.#unfollow();
    for (const done of this.#calls.values()) done(failure('NOT_LEADER', 'this node is stopping'));
    this.#calls.clear();
  }

  #perform(effect: PlacerAct): void {
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
