/**
 * Runs the registration machine on the registry and the clock, and turns each result into its input. Decides nothing.
 */
import { unreachable } from '../base/assert.ts';
import type { Done, RemusterError } from '../base/errors.ts';
import { Loop, noStore } from '../base/runtime/loop.ts';
import type { Cancel, Clock, Identity } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import {
  type LeaseId,
  type Leadership,
  type Registry,
  type WatchEvents,
  onlyKey,
  type WatchStart,
} from '../base/registry.ts';
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

/** The callbacks of the node. */
export type RegistrationHooks = {
  /**
   * Compares what this node holds with the registry, at the start and after every period in which changes may have been
   * missed. The node becomes active only after success; a failure is retried.
   */
  reconcile(done: Done<void>): void;
  event(event: RegistrationEvent): void;
  /** FENCED: another process of this node is registered; this one must end. */
  fenced(error: RemusterError): void;
  /** The machine threw: the node must halt. */
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
  #unwatchLeadership: Cancel = () => {};
  #onLeft: Done<void> = () => {};

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
    this.#unwatchLeadership = leadership.watch({ changed: ({ term }) => this.#loop.feed({ kind: 'term', term }) });
    this.#loop.feed({ kind: 'start' });
  }

  /** The process ends and may restart soon: the registration stays until its lease expires. */
  stop(): void {
    this.#loop.stop();
    this.#unwatch();
    this.#unwatchLeadership();
  }

  /** Removes the node for good, with registration and state. Drain it first, or its containers are taken over. */
  leave(done: Done<void>): void {
    this.#onLeft = done;
    this.#loop.feed({ kind: 'leave' });
  }

  /** Undefined until the registry has replied. */
  get state(): NodeStateRecord | undefined {
    return this.#machine.state;
  }

  /** For keys that end together with the registration, such as the load report. */
  get lease(): LeaseId | undefined {
    return this.#machine.lease;
  }

  #perform(effect: RegistrationEffect): void {
    const { registry } = this.#ports;
    const options = { timeoutMs: this.#options.callTimeoutMs };
    switch (effect.kind) {
      case 'readSnapshot':
        return this.#readSnapshot(effect.call);
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
        // A failure does no harm: a lease that is not renewed expires.
        return registry.revoke(effect.lease, options, () => {});
      case 'reconcile':
        return this.#hooks.reconcile((outcome) => this.#loop.feed({ kind: 'reconciled', call: effect.call, outcome }));
      case 'watch':
        return this.#watch(effect.watch, effect.start);
      case 'unwatch':
        return this.#unwatch();
      case 'event':
      case 'left':
      case 'fenced':
        return this.#notify(effect);
      default:
        return unreachable(effect);
    }
  }

  #notify(effect: Extract<RegistrationEffect, { kind: 'event' | 'left' | 'fenced' }>): void {
    switch (effect.kind) {
      case 'event':
        return this.#hooks.event(effect.event);
      case 'left':
        return this.#onLeft(effect.outcome);
      case 'fenced':
        return this.#hooks.fenced(effect.error);
      default:
        return unreachable(effect);
    }
  }

  #readSnapshot(call: number): void {
    const { registry, clock, leadership } = this.#ports;
    const environment = (): { term: number; wallMs: number } => ({
      term: leadership.view().term,
      wallMs: clock.wallMs(),
    });
    readClusterSnapshot(registry, this.#identity.id, this.#options.callTimeoutMs, environment, (outcome) =>
      this.#loop.feed({ kind: 'snapshotRead', call, outcome }),
    );
  }

  #watch(watch: number, start: WatchStart): void {
    this.#unwatch();
    const { id: node } = this.#identity;
    const events: WatchEvents = {
      changed: (changes) => this.#loop.feed({ kind: 'changed', watch, changes }),
      compacted: () => this.#loop.feed({ kind: 'compacted', watch }),
    };
    const keys = [clusterKey({ kind: 'state', node }), clusterKey({ kind: 'registration', node })];
    this.#watches = keys.map((key) => this.#ports.registry.watch(onlyKey(key), start, events));
  }

  #unwatch(): void {
    for (const cancel of this.#watches) cancel();
    this.#watches = [];
  }
}
