/**
 * Runs a machine while this node leads: feeds it leadership, `/cluster/` and transaction results, and answers its
 * callers. Acts only while the leader lease holds.
 */
import { unreachable } from '../../base/assert.ts';
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import { type TimerExpired, Loop, type Machine, noStore, type Schedule } from '../../base/runtime/loop.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type {
  Leadership,
  Registry,
  RegistryChange,
  RegistryEntry,
  RegistryTransaction,
  TransactionResult,
} from '../../base/registry.ts';
import { keyRanges } from '../../registry/cluster-keys.ts';
import { startInformer } from '../../registry/informer.ts';

export type LeaderInput =
  | { readonly kind: 'became'; readonly fence: Fence }
  | { readonly kind: 'lost' }
  | { readonly kind: 'loaded'; readonly entries: readonly RegistryEntry[]; readonly revision: number }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[]; readonly revision: number }
  | { readonly kind: 'transacted'; readonly id: number; readonly outcome: Outcome<TransactionResult> }
  | TimerExpired<'wake'>;

export type LeaderEffect<Result, Event> =
  /** Read everything under `/cluster/` and follow it, until `unfollow`; what was followed before is over. */
  | { readonly kind: 'follow' }
  | { readonly kind: 'unfollow' }
  | { readonly kind: 'transact'; readonly id: number; readonly transaction: RegistryTransaction }
  | { readonly kind: 'answer'; readonly call: number; readonly outcome: Outcome<Result> }
  | { readonly kind: 'tell'; readonly event: Event };

export type LeaderPorts<Event> = {
  readonly registry: Pick<Registry, 'range' | 'watch' | 'transact'>;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly emit: (event: Event) => void;
  readonly onHalt: (error: unknown) => void;
};

const transactTimeoutMs = 5_000;
const callsMax = 100;

/** `Own` are the inputs that only this machine knows. */
export class LeaderMachineHost<Own, Result, Event> {
  readonly #ports: LeaderPorts<Event>;
  readonly #loop: Loop<LeaderInput | Own, LeaderEffect<Result, Event>, 'wake'>;
  readonly #calls = new Map<number, Done<Result>>();
  #nextCall = 1;
  #unfollow: Cancel = () => {};
  readonly #unwatch: Cancel;

  constructor(
    ports: LeaderPorts<Event>,
    machine: Machine<LeaderInput | Own, LeaderEffect<Result, Event> | Schedule<'wake'>>,
  ) {
    const { clock, leadership, onHalt } = ports;
    this.#ports = ports;
    this.#loop = new Loop(machine, { clock, store: noStore, perform: (act) => this.#perform(act), onHalt: onHalt });
    this.#unwatch = leadership.watch({
      elected: (fence) => this.#loop.feed({ kind: 'became', fence }),
      lost: () => this.#loop.feed({ kind: 'lost' }),
    });
    const { fence } = leadership.view();
    if (leadership.isLeading() && fence !== undefined) this.#loop.feed({ kind: 'became', fence });
  }

  feed(input: Own): void {
    this.#loop.feed(input);
  }

  /** On the leader only; NOT_LEADER elsewhere. The machine answers by the number of the call. */
  ask(input: (call: number) => Own, done: Done<Result>): void {
    const { clock } = this.#ports;
    if (this.#calls.size === callsMax) return void clock.schedule(0, () => done(failure('CAPACITY')));
    const call = this.#nextCall++;
    this.#calls.set(call, done);
    clock.schedule(0, () => this.#loop.feed(input(call)));
  }

  stop(): void {
    this.#unwatch();
    this.#loop.feed({ kind: 'lost' });
    this.#loop.stop();
    this.#unfollow();
    for (const done of this.#calls.values()) done(failure('NOT_LEADER', 'this node is stopping'));
    this.#calls.clear();
  }

  #perform(act: LeaderEffect<Result, Event>): void {
    switch (act.kind) {
      case 'follow':
        return this.#follow();
      case 'unfollow':
        return this.#unfollow();
      case 'transact':
        return this.#transact(act.id, act.transaction);
      case 'tell':
        return this.#ports.emit(act.event);
      case 'answer':
        this.#calls.get(act.call)?.(act.outcome);
        this.#calls.delete(act.call);
        return;
      default:
        return unreachable(act);
    }
  }

  #follow(): void {
    this.#unfollow();
    this.#unfollow = startInformer(this.#ports.registry, this.#ports.clock, keyRanges.cluster, {
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
      clock.schedule(0, () =>
        this.#loop.feed({ kind: 'transacted', id, outcome: failure('NOT_LEADER', undefined, 'no') }),
      );
    }
  }
}
