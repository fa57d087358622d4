/**
 * Sends requests for the serving lease to the leader, or to the next manager if that grants nothing, and notifies
 * watchers. Decides nothing; `holds` reads the clock each time, so it is right even when all timers are late.
 */
import { assert } from '../base/assert.ts';
import type { Outcome, RemusterError } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import { Loop, noStore } from '../base/runtime/loop.ts';
import type { Cancel, Clock, Peer, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import type { RegistryEpoch } from '../base/registry.ts';
import { type Message, encodeMessage, tryDecodeMessage } from '../messages/catalogue.ts';
import type { ServingLease } from './contract.ts';
import {
  type ServingLeaseEffect,
  type ServingLeaseReply,
  type ReceivedServingGrant,
  type ServingLeaseInput,
  type ServingLeaseTimer,
  ServingLeaseRenewal,
} from './serving-lease-renewal.ts';

/** `epoch`: of the revision; undefined while the address table of the node is not loaded. */
export type GrantServingLease = (
  node: NodeId,
  generation: number,
  seen: { readonly revision: number; readonly epoch: RegistryEpoch | undefined },
) => Outcome<ReceivedServingGrant>;

export type ServingLeasePorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly streams: Pick<Streams, 'request'>;
  /** The leader, as far as this node knows. */
  readonly leader: () => Peer | undefined;
  /** All managers, in the order in which they are asked if the leader is unknown or grants nothing. */
  readonly managers: () => readonly Peer[];
  /** A manager has redirected the request to the leader. */
  readonly onLeaderNotice: (notice: Uint8Array) => void;
  /** Used instead of the network while this node leads. */
  readonly grant: GrantServingLease;
  readonly self: { readonly id: NodeId; readonly generation: number };
  readonly onHalt: (error: unknown) => void;
};

const notCancellable: Cancel = () => {};
const watchersMax = 1_000;

export class ServingLeaseHost implements ServingLease {
  readonly #ports: ServingLeasePorts;
  readonly #machine: ServingLeaseRenewal;
  readonly #loop: Loop<ServingLeaseInput, ServingLeaseEffect, ServingLeaseTimer>;
  readonly #watchers = new Set<(holds: boolean) => void>();
  #cancel: Cancel = notCancellable;
  /** Failed requests in a row. */
  #failedRequests = 0;
  #phase: 'new' | 'open' | 'stopped' = 'new';

  /** `leaseMs` is what this node expects; the leader decides. */
  constructor(ports: ServingLeasePorts, leaseMs: number) {
    this.#ports = ports;
    this.#machine = new ServingLeaseRenewal(ports.random, leaseMs);
    const { clock, onHalt } = ports;
    this.#loop = new Loop(this.#machine, {
      clock,
      store: noStore,
      perform: (effect) => this.#perform(effect),
      onHalt: onHalt,
    });
  }

  start(): void {
    if (this.#phase !== 'new') return;
    this.#phase = 'open';
    this.#loop.feed({ kind: 'start' });
  }

  /** Another node leads: request at once instead of waiting for a leader that may be gone. */
  leaderChanged(): void {
    this.#failedRequests = 0;
    if (this.#phase === 'open') this.#loop.feed({ kind: 'leaderChanged' });
  }

  /** The address table has applied all changes up to that revision. */
  tableApplied(revision: number, epoch: RegistryEpoch): void {
    if (this.#phase !== 'stopped') this.#loop.feed({ kind: 'applied', revision, epoch });
  }

  holds(nowMs: number = this.#ports.clock.nowMs()): boolean {
    return this.#phase === 'open' && this.#machine.holds(nowMs);
  }

  watch(changed: (holds: boolean) => void): Cancel {
    assert(this.#watchers.size < watchersMax, 'too many watchers of the serving lease');
    const watcher = (holds: boolean): void => changed(holds);
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** The lease ends, without a notification. */
  stop(): void {
    this.#phase = 'stopped';
    this.#cancel();
    this.#loop.stop();
    this.#watchers.clear();
  }

  #perform(effect: ServingLeaseEffect): void {
    if (effect.kind === 'request') return this.#request(effect.id, effect.timeoutMs);
    for (const watcher of [...this.#watchers]) watcher(effect.holds);
  }

  #request(id: number, timeoutMs: number): void {
    const { grant, streams, self } = this.#ports;
    const { appliedRevision: revision, epoch } = this.#machine;
    this.#cancel();
    this.#cancel = notCancellable;
    const onReply = (reply: ServingLeaseReply): void => {
      this.#failedRequests = reply.kind === 'failed' ? this.#failedRequests + 1 : 0;
      this.#loop.feed({ kind: 'replied', id, reply });
    };
    const to = this.#nextManager();
    if (to === undefined) onReply({ kind: 'failed' });
    else if (to.id === self.id) {
      const outcome = grant(self.id, self.generation, { revision, epoch });
      onReply(outcome.ok ? { kind: 'granted', ...outcome.value } : refusalOf(outcome.error));
    } else {
      const request = encodeMessage({ kind: 'renewServingLease', generation: self.generation, revision, epoch });
      this.#cancel = streams.request(to, request, timeoutMs, (outcome) => {
        const reply = outcome.ok ? tryDecodeMessage(outcome.value) : undefined;
        onReply(outcome.ok ? replyOf(reply) : refusalOf(outcome.error));
        // After the reply: a new leader causes another request.
        if (reply?.kind === 'servingLeaseRedirect') this.#ports.onLeaderNotice(reply.leaderHint);
      });
    }
  }

  /** The known leader; after a failed request, alternately another manager. */
  #nextManager(): Peer | undefined {
    const { leader, managers, self } = this.#ports;
    const known = leader();
    const isLeaderTurn = known !== undefined && this.#failedRequests % 2 === 0;
    if (isLeaderTurn || known?.id === self.id) return known;
    const others = managers().filter(({ id }) => id !== known?.id && id !== self.id);
    return others[Math.floor(this.#failedRequests / 2) % Math.max(1, others.length)] ?? known;
  }
}

function replyOf(reply: Message | undefined): ServingLeaseReply {
  if (reply?.kind !== 'servingLeaseGranted') return { kind: 'failed' };
  const { leaseMs, term, revokedRevision } = reply;
  return { kind: 'granted', leaseMs, term, revokedRevision };
}

function refusalOf(error: RemusterError): ServingLeaseReply {
  if (error.code === 'PRECONDITION') return { kind: 'behind' };
  return { kind: error.code === 'FENCED' ? 'superseded' : 'failed' };
}
