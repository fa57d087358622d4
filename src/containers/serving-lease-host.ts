/**
 * Carries lease requests to the leader, or to the next manager when it does not grant, and tells watchers. Decides
 * nothing; `holds` reads the clock each time, so it is right when every timer is late.
 */
import { assert } from '../base/assert.ts';
import type { Outcome, RemusterError } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import { Loop, noStore } from '../base/runtime/loop.ts';
import type { Cancel, Clock, Peer, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
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

export type ServingLeasePorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly streams: Pick<Streams, 'request'>;
  /** Who leads, as far as this node knows. */
  readonly leader: () => Peer | undefined;
  /** Who could lead, or say who does: those to be asked first in front. */
  readonly managers: () => readonly Peer[];
  /** A manager that was asked tells who leads. */
  readonly onLeaderNotice: (notice: Uint8Array) => void;
  /** Asked instead of the network while this node leads. */
  readonly grant: (node: NodeId, generation: number, revision: number) => Outcome<ReceivedServingGrant>;
  readonly self: { readonly id: NodeId; readonly generation: number };
  readonly onHalt: (error: unknown) => void;
};

const nothing: Cancel = () => {};
const watchersMax = 1_000;

export class ServingLeaseHost implements ServingLease {
  readonly #ports: ServingLeasePorts;
  readonly #machine: ServingLeaseRenewal;
  readonly #loop: Loop<ServingLeaseInput, ServingLeaseEffect, ServingLeaseTimer>;
  readonly #watchers = new Set<(holds: boolean) => void>();
  #cancel: Cancel = nothing;
  /** How often in a row nobody granted it. */
  #vain = 0;
  #phase: 'new' | 'open' | 'stopped' = 'new';

  /** `leaseMs` is what this node expects; the leader decides. */
  constructor(ports: ServingLeasePorts, leaseMs: number) {
    this.#ports = ports;
    this.#machine = new ServingLeaseRenewal(ports.random, leaseMs);
    const { clock, onHalt } = ports;
    this.#loop = new Loop(this.#machine, {
      clock,
      store: noStore,
      perform: (act) => this.#perform(act),
      onHalt: onHalt,
    });
  }

  start(): void {
    if (this.#phase !== 'new') return;
    this.#phase = 'open';
    this.#loop.feed({ kind: 'begin' });
  }

  /** Somebody else leads: ask at once instead of waiting for one that may be gone. */
  leaderChanged(): void {
    this.#vain = 0;
    if (this.#phase === 'open') this.#loop.feed({ kind: 'leaderChanged' });
  }

  /** The address table has applied everything up to that revision: its version. */
  tableApplied(revision: number): void {
    if (this.#phase !== 'stopped') this.#loop.feed({ kind: 'applied', revision });
  }

  holds(nowMs: number = this.#ports.clock.nowMs()): boolean {
    return this.#phase === 'open' && this.#machine.holds(nowMs);
  }

  watch(changed: (holds: boolean) => void): Cancel {
    assert(this.#watchers.size < watchersMax, 'too many watch the serving lease');
    const watcher = (holds: boolean): void => changed(holds);
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** It holds no longer, and nobody is told of anything. */
  stop(): void {
    this.#phase = 'stopped';
    this.#cancel();
    this.#loop.stop();
    this.#watchers.clear();
  }

  #perform(act: ServingLeaseEffect): void {
    if (act.kind === 'ask') return this.#ask(act.id, act.timeoutMs);
    for (const watcher of [...this.#watchers]) watcher(act.holds);
  }

  #ask(id: number, timeoutMs: number): void {
    const { grant, streams, self } = this.#ports;
    const { appliedRevision: revision } = this.#machine;
    this.#cancel();
    this.#cancel = nothing;
    const answered = (answer: ServingLeaseReply): void => {
      this.#vain = answer.kind === 'failed' ? this.#vain + 1 : 0;
      this.#loop.feed({ kind: 'answered', id, answer });
    };
    const to = this.#nextToAsk();
    if (to === undefined) answered({ kind: 'failed' });
    else if (to.id === self.id) {
      const outcome = grant(self.id, self.generation, revision);
      answered(outcome.ok ? { kind: 'granted', ...outcome.value } : refusalOf(outcome.error));
    } else {
      const question = encodeMessage({ kind: 'renewServingLease', generation: self.generation, revision });
      this.#cancel = streams.request(to, question, timeoutMs, (outcome) => {
        const answer = outcome.ok ? tryDecodeMessage(outcome.value) : undefined;
        answered(outcome.ok ? answerOf(answer) : refusalOf(outcome.error));
        // Last: one that is new to us makes us ask again.
        if (answer?.kind === 'servingLeaseRedirect') this.#ports.onLeaderNotice(answer.leaderHint);
      });
    }
  }

  /** The leader as far as it is known; after that was in vain also the other managers, in turns with it. */
  #nextToAsk(): Peer | undefined {
    const { leader, managers, self } = this.#ports;
    const known = leader();
    const isItsTurn = known !== undefined && this.#vain % 2 === 0;
    if (isItsTurn || known?.id === self.id) return known;
    const others = managers().filter(({ id }) => id !== known?.id && id !== self.id);
    return others[Math.floor(this.#vain / 2) % Math.max(1, others.length)] ?? known;
  }
}

function answerOf(answer: Message | undefined): ServingLeaseReply {
  if (answer?.kind !== 'servingLeaseGranted') return { kind: 'failed' };
  const { leaseMs, term, revokedRevision } = answer;
  return { kind: 'granted', leaseMs, term, revokedRevision };
}

function refusalOf(error: RemusterError): ServingLeaseReply {
  if (error.code === 'PRECONDITION') return { kind: 'behind' };
  return { kind: error.code === 'FENCED' ? 'superseded' : 'failed' };
}
