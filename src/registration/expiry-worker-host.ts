/** Runs the expiry worker on the registry while this node leads. Decides nothing. */
import { unreachable } from '../base/assert.ts';
import { failure } from '../base/errors.ts';
import { Loop, noStore } from '../base/runtime/loop.ts';
import type { Cancel, Clock } from '../base/ports.ts';
import type { Leadership, Registry } from '../base/registry.ts';
import { startInformer } from '../registry/informer.ts';
import { keyRanges } from '../registry/cluster-keys.ts';
import { type ExpiryEffect, type ExpiryInput, ExpiryWorker, type NodeLost } from './expiry-worker.ts';
import type { RegistrationOptions } from './registration-options.ts';

export type ExpiryWorkerPorts = {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly leadership: Pick<Leadership, 'isLeading' | 'watch'>;
};

export class ExpiryWorkerHost {
  readonly #ports: ExpiryWorkerPorts;
  readonly #options: RegistrationOptions;
  readonly #event: (event: NodeLost) => void;
  readonly #loop: Loop<ExpiryInput, ExpiryEffect, 'wake'>;
  #unwatchLeadership: Cancel = () => {};
  #stopInformer: Cancel = () => {};

  constructor(
    ports: ExpiryWorkerPorts,
    options: RegistrationOptions,
    reports: { event(event: NodeLost): void; onHalt(error: unknown): void },
  ) {
    this.#ports = ports;
    this.#options = options;
    this.#event = (event) => reports.event(event);
    this.#loop = new Loop(new ExpiryWorker(options), {
      clock: ports.clock,
      store: noStore,
      perform: (effect) => this.#perform(effect),
      onHalt: (error) => reports.onHalt(error),
    });
  }

  start(): void {
    const { leadership } = this.#ports;
    this.#unwatchLeadership = leadership.watch({
      elected: () => this.#loop.feed({ kind: 'elected' }),
      lost: () => this.#loop.feed({ kind: 'leadershipLost' }),
    });
    if (leadership.isLeading()) this.#loop.feed({ kind: 'elected' });
  }

  stop(): void {
    this.#loop.stop();
    this.#unwatchLeadership();
    this.#stopInformer();
  }

  #perform(effect: ExpiryEffect): void {
    const { registry, clock } = this.#ports;
    switch (effect.kind) {
      case 'startInformer':
        this.#stopInformer();
        this.#stopInformer = startInformer(registry, clock, keyRanges.nodeDirectory, {
          loaded: (entries) => this.#loop.feed({ kind: 'loaded', entries }),
          changed: (changes) => this.#loop.feed({ kind: 'changed', changes }),
        });
        return;
      case 'stopInformer':
        return this.#stopInformer();
      case 'write':
        return this.#write(effect);
      case 'event':
        return this.#event(effect.event);
      default:
        return unreachable(effect);
    }
  }

  /** The guards of the transaction hold for any node, but only the leader has waited long enough. */
  #write({ call, transaction }: Extract<ExpiryEffect, { kind: 'write' }>): void {
    const { registry, clock, leadership } = this.#ports;
    if (!leadership.isLeading()) {
      clock.schedule(0, () =>
        this.#loop.feed({ kind: 'written', call, outcome: failure('NOT_LEADER', undefined, 'no') }),
      );
      return;
    }
    registry.transact(transaction, { timeoutMs: this.#options.callTimeoutMs }, (outcome) =>
      this.#loop.feed({ kind: 'written', call, outcome }),
    );
  }
}
