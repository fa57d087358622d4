/**
 * Runs the registration machine on the registry and the clock, and turns each result into its input. Decides nothing.
 */
import { unreachable } from '../base/assert.ts';
import type { Done, RemusterError } from '../base/errors.ts';
import { Loop, noStore } from '../base/runtime/loop.ts';
import type { Cancel, Clock, Identity } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import { type LeaseId, type Leadership, type Registry, type WatchEvents, onlyKey } from '../base/registry.ts';
import { clusterKey } from '../registry/cluster-keys.ts';
import type {
  RegistrationEffect,
  RegistrationEvent,
  RegistrationInput,
  RegistrationTimer,
} from './registration-types.ts';
import type { RegistrationOptions } from './registration-options.ts';
import { readClusterSnapshot } from './cluster-snapshot.ts';
import type { NodeStateRecord } from './registration-records.ts';
import { Registration } from './registration.ts';

/** What a node does with its registration. */
export type RegistrationHooks = {
  /**
   * At the start, and after each time in which changes may have been missed: learn again what this node holds. It is
   * not active before this has succeeded; a failure is retried.
   */
  reconcile(done: Done<void>): void;
  event(event: RegistrationEvent): void;
  /** FENCED: another life of this node has taken over, and this process must end. */
  fenced(error: RemusterError): void;
  /** The program is wrong. */
  onHalt(error: unknown): void;
};

export type RegistrationPorts = {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
  readonly leadership: Pick<Leadership, 'view' | 'watch'>;
};

export class RegistrationHost {
  readonly #ports: RegistrationPorts;
  readonly #identity: Identity;
  readonly #options: RegistrationOptions;
  readonly #hooks: RegistrationHooks;
  readonly #machine: Registration;
  readonly #loop: Loop<RegistrationInput, RegistrationEffect, RegistrationTimer>;
  #watches: readonly Cancel[] = [];
  #unlead: Cancel = () => {};
  #left: Done<void> = () => {};

  constructor(ports: RegistrationPorts, identity: Identity, options: RegistrationOptions, hooks: RegistrationHooks) {
    this.#ports = ports;
    this.#identity = identity;
    this.#options = options;
    this.#hooks = hooks;
    this.#machine = new Registration(identity, options, ports.random);
    this.#loop = new Loop(this.#machine, {
      clock: ports.clock,
      store: noStore,
      perform: (effect) => this.#perform(effect),
      onHalt: (error) => hooks.onHalt(error),
    });
  }

  start(): void {
    const { leadership } = this.#ports;
    this.#unlead = leadership.watch({ changed: ({ term }) => this.#loop.feed({ kind: 'term', term }) });
    this.#loop.feed({ kind: 'start' });
  }

  /** The process ends and may be back soon: the registration stays until its time is over. */
  stop(): void {
    this.#loop.stop();
    this.#unwatch();
    this.#unlead();
  }

  /** The node goes for good: it is unregistered and its state forgotten. Drain it first, or what it holds is taken. */
  leave(done: Done<void>): void {
    this.#left = done;
    this.#loop.feed({ kind: 'leave' });
  }

  /** For `members` and for people; undefined until the registry has answered. */
  get state(): NodeStateRecord | undefined {
    return this.#machine.state;
  }

  /** For keys that shall end together with the registration, such as the load report. */
  get lease(): LeaseId | undefined {
    return this.#machine.lease;
  }

  #perform(effect: RegistrationEffect): void {
    const { registry } = this.#ports;
    const options = { timeoutMs: this.#options.callTimeoutMs };
    switch (effect.kind) {
      case 'look':
        return this.#look(effect.call);
      case 'grant':
        return registry.grant(this.#options.ttlMs, options, (outcome) =>
          this.#loop.feed({ kind: 'granted', call: effect.call, outcome }),
        );
      case 'write':
        return registry.transact(effect.transaction, options, (outcome) =>
          this.#loop.feed({ kind: 'written', call: effect.call, outcome }),
        );
      case 'renew':
        return registry.keepAlive(effect.lease, options, (outcome) =>
          this.#loop.feed({ kind: 'renewed', call: effect.call, outcome }),
        );
      case 'revoke':
        // Whether or not it works: what is not renewed ends by itself.
        return registry.revoke(effect.lease, options, () => {});
      case 'reconcile':
        return this.#hooks.reconcile((outcome) => this.#loop.feed({ kind: 'reconciled', call: effect.call, outcome }));
      case 'watch':
        return this.#watch(effect.watch, effect.fromRevision);
      case 'unwatch':
        return this.#unwatch();
      case 'event':
      case 'left':
      case 'fenced':
        return this.#report(effect);
      default:
        return unreachable(effect);
    }
  }

  #report(effect: Extract<RegistrationEffect, { kind: 'event' | 'left' | 'fenced' }>): void {
    switch (effect.kind) {
      case 'event':
        return this.#hooks.event(effect.event);
      case 'left':
        return this.#left(effect.outcome);
      case 'fenced':
        return this.#hooks.fenced(effect.error);
      default:
        return unreachable(effect);
    }
  }

  #look(call: number): void {
    const { registry, clock, leadership } = this.#ports;
    const outside = (): { term: number; wallMs: number } => ({ term: leadership.view().term, wallMs: clock.wallMs() });
    readClusterSnapshot(registry, this.#identity.id, this.#options.callTimeoutMs, outside, (outcome) =>
      this.#loop.feed({ kind: 'looked', call, outcome }),
    );
  }

  #watch(watch: number, fromRevision: number): void {
    this.#unwatch();
    const { id: node } = this.#identity;
    const events: WatchEvents = {
      changed: (changes) => this.#loop.feed({ kind: 'changed', watch, changes }),
      compacted: () => this.#loop.feed({ kind: 'compacted', watch }),
    };
    const keys = [clusterKey({ kind: 'state', node }), clusterKey({ kind: 'registration', node })];
    this.#watches = keys.map((key) => this.#ports.registry.watch(onlyKey(key), fromRevision, events));
  }

  #unwatch(): void {
    for (const cancel of this.#watches) cancel();
    this.#watches = [];
  }
}
