/**
 * Drives `AssignmentsHeld`: follows the keys of this node, calls the host that really takes and releases, and carries
 * transactions to the registry. It decides nothing.
 */
import { unreachable } from '../../base/assert.ts';
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Loop, noStore } from '../../base/runtime/loop.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Registry } from '../../base/registry.ts';
import { type ContainerName, keyRanges } from '../../registry/cluster-keys.ts';
import {
  AssignmentsHeld,
  type HeldAssignment,
  type HeldAct,
  type HeldEvent,
  type HeldInput,
  type HeldOptions,
  type HeldTimer,
  heldDefaults,
} from './assignments-held.ts';
import { startInformer } from '../../registry/informer.ts';

/** Whoever really holds things. Both may be called again for what is already taken or released, and then just end. */
export type AssignmentHost = {
  /** Begin to serve it. A failure means that nothing of it is held. */
  take(assignment: HeldAssignment, done: Done<void>): void;
  /** Serve it no longer. Durable state stays. Also called while `take` has not ended in time. */
  release(assignment: HeldAssignment, done: Done<void>): void;
};

export type HeldPorts = {
  readonly registry: Pick<Registry, 'range' | 'watch' | 'transact'>;
  readonly clock: Clock;
  readonly host: AssignmentHost;
  readonly tell: (event: HeldEvent) => void;
  readonly onHalt: (error: unknown) => void;
};

const transactTimeoutMs = 5_000;

export class AssignmentsHeldHost {
  readonly #ports: HeldPorts;
  readonly #machine: AssignmentsHeld;
  readonly #loop: Loop<HeldInput, HeldAct, HeldTimer>;
  readonly #self: NodeId;
  #waiting: Done<void> | undefined;
  #unfollow: Cancel = () => {};
  #isLoading = false;

  /** Begins suspended: nothing is taken, released or given back before `resume`. */
  constructor(self: NodeId, ports: HeldPorts, options: Partial<HeldOptions> = {}) {
    this.#self = self;
    this.#ports = ports;
    this.#machine = new AssignmentsHeld(self, { ...heldDefaults, ...options });
    const { clock, onHalt } = ports;
    this.#loop = new Loop(this.#machine, {
      clock,
      store: noStore,
      perform: (effect) => this.#perform(effect),
      onHalt: onHalt,
    });
  }

  /**
   * The registration holds: read anew what is assigned, and hold it. Not what was read before: while it did not hold
   * others may have been given it. Ends when all of it is held or given back; the one who asks has a deadline, and an
   * earlier one who still waits is CANCELLED.
   */
  resume(done: Done<void> = () => {}): void {
    this.#waiting?.(failure('CANCELLED'));
    this.#waiting = done;
    this.#isLoading = true;
    this.#unfollow();
    this.#unfollow = startInformer(this.#ports.registry, this.#ports.clock, keyRanges.ofNode(this.#self), {
      loaded: (entries) => {
        this.#isLoading = false;
        this.#feed({ kind: 'loaded', entries });
        this.#feed({ kind: 'resume' });
      },
      changed: (changes) => this.#feed({ kind: 'changed', changes }),
    });
  }

  /** It may not hold any longer: release everything, until `resume`. */
  suspend(): void {
    this.#unfollow();
    this.#isLoading = false;
    this.#waiting?.(failure('CANCELLED'));
    this.#waiting = undefined;
    this.#feed({ kind: 'suspend' });
  }

  held(): readonly ContainerName[] {
    return this.#machine.held();
  }

  /** Nothing is taken, released or given back from now on. */
  stop(): void {
    this.#unfollow();
    this.#loop.stop();
    this.#waiting?.(failure('CANCELLED'));
    this.#waiting = undefined;
  }

  #feed(input: HeldInput): void {
    this.#loop.feed(input);
    if (this.#waiting === undefined || this.#isLoading || !this.#machine.isSettled) return;
    const done = this.#waiting;
    this.#waiting = undefined;
    done(success(undefined));
  }

  #perform(effect: HeldAct): void {
    if (effect.kind === 'tell') return this.#ports.tell(effect.event);
    const { text, operation } = effect;
    const ended = (outcome: Outcome<unknown>): void => this.#feed({ kind: 'ended', text, operation, outcome });
    switch (effect.kind) {
      case 'take':
        return this.#ports.host.take(effect.assignment, ended);
      case 'release':
        return this.#ports.host.release(effect.assignment, ended);
      case 'transact':
        return this.#ports.registry.transact(effect.transaction, { timeoutMs: transactTimeoutMs }, ended);
      default:
        return unreachable(effect);
    }
  }
}
