/**
 * Runs a machine of the leader: feeds it leadership, the content of `/cluster/` and transaction results, and returns
 * its replies to callers. Starts no transaction after this node has lost its leader lease.
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
  RegistryEpoch,
  RegistryTransaction,
  TransactionResult,
} from '../../base/registry.ts';
import { keyRanges } from '../../registry/cluster-keys.ts';
import { startInformer } from '../../registry/informer.ts';

export type LeaderInput =
  | { readonly kind: 'elected'; readonly fence: Fence }
  | { readonly kind: 'lost' }
  | {
      readonly kind: 'loaded';
      readonly entries: readonly RegistryEntry[];
      readonly revision: number;
      readonly epoch: RegistryEpoch;
    }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[]; readonly revision: number }
  | { readonly kind: 'transacted'; readonly id: number; readonly outcome: Outcome<TransactionResult> }
  | TimerExpired<'wake'>;

export type LeaderEffect<Result, Event> =
  /** List and watch `/cluster/` until `unwatch`; replaces an earlier watch. */
  | { readonly kind: 'watch' }
  | { readonly kind: 'unwatch' }
  | { readonly kind: 'transact'; readonly id: number; readonly transaction: RegistryTransaction }
  | { readonly kind: 'reply'; readonly call: number; readonly outcome: Outcome<Result> }
  | { readonly kind: 'emit'; readonly event: Event };

export type LeaderPorts<Event> = {
  readonly registry: Pick<Registry, 'range' | 'watch' | 'transact'>;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly emit: (event: Event) => void;
  readonly onHalt: (error: unknown) => void;
};

const transactTimeoutMs = 5_000;
const callsMax = 100;
const stopping = 'this node is stopping';

/** `Request` has the inputs of this machine alone, `Result` the result of a request. */
export class LeaderMachineHost<Request, Result, Event> {
  readonly #ports: LeaderPorts<Event>;
  readonly #loop: Loop<LeaderInput | Request, LeaderEffect<Result, Event>, 'wake'>;
  readonly #calls = new Map<number, Done<Result>>();
  #nextCall = 1;
  #unwatchCluster: Cancel = () => {};
  readonly #unwatchLeadership: Cancel;
  #stopped = false;

  constructor(
    ports: LeaderPorts<Event>,
    machine: Machine<LeaderInput | Request, LeaderEffect<Result, Event> | Schedule<'wake'>>,
  ) {
    const { clock, leadership, onHalt } = ports;
    this.#ports = ports;
    this.#loop = new Loop(machine, { clock, store: noStore, perform: (effect) => this.#perform(effect), onHalt });
    this.#unwatchLeadership = leadership.watch({
      elected: (fence) => this.#loop.feed({ kind: 'elected', fence }),
      lost: () => this.#loop.feed({ kind: 'lost' }),
    });
    const { fence } = leadership.view();
    if (leadership.isLeading() && fence !== undefined) this.#loop.feed({ kind: 'elected', fence });
  }

  feed(input: Request): void {
    this.#loop.feed(input);
  }

  /**
   * Feeds the request with a call number; the machine replies under that number, with NOT_LEADER on other nodes and
   * after a stop.
   */
  request(input: (call: number) => Request, done: Done<Result>): void {
    const { clock } = this.#ports;
    // At once: the clock of a node that stops takes no more timers.
    if (this.#stopped) return done(failure('NOT_LEADER', stopping, 'no'));
    if (this.#calls.size === callsMax) return void clock.schedule(0, () => done(failure('CAPACITY')));
    const call = this.#nextCall++;
    this.#calls.set(call, done);
    clock.schedule(0, () => this.#loop.feed(input(call)));
  }

  stop(): void {
    this.#stopped = true;
    this.#unwatchLeadership();
    this.#loop.feed({ kind: 'lost' });
    this.#loop.stop();
    this.#unwatchCluster();
    for (const call of this.#calls.keys()) this.#reply(call, failure('NOT_LEADER', stopping));
  }

  /** Forgets the call first: the caller may stop this host from its callback. */
  #reply(call: number, outcome: Outcome<Result>): void {
    const done = this.#calls.get(call);
    this.#calls.delete(call);
    done?.(outcome);
  }

  #perform(effect: LeaderEffect<Result, Event>): void {
    switch (effect.kind) {
      case 'watch':
        return this.#watchCluster();
      case 'unwatch':
        return this.#unwatchCluster();
      case 'transact':
        return this.#transact(effect.id, effect.transaction);
      case 'emit':
        return this.#ports.emit(effect.event);
      case 'reply':
        return this.#reply(effect.call, effect.outcome);
      default:
        return unreachable(effect);
    }
  }

  #watchCluster(): void {
    this.#unwatchCluster();
    this.#unwatchCluster = startInformer(this.#ports.registry, this.#ports.clock, keyRanges.cluster, {
      loaded: (entries, revision, epoch) => this.#loop.feed({ kind: 'loaded', entries, revision, epoch }),
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
