/**
 * The main thread's side of the membership thread: sends its requests, writes its hints, forwards connection events,
 * sends the heartbeat of the main loop, caches the member list. Decides nothing.
 */
import { type Done, RemusterError, failure, success, parseErrorCode } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Identity, Peer, RunningProgram, Streams } from '../../base/ports.ts';
import { type MemberView, initialLocalView } from '../../membership/state/member-view.ts';
import type { MembershipHandle, MembershipListener } from '../../membership/membership-handle.ts';
import type { MembershipHints } from '../../membership/state/hints.ts';
import type { EmbeddingRole } from '../../messages/membership.ts';
import {
  type FromMembershipThread,
  type ToMembershipThread,
  fromMembershipThreadCodec,
  toMembershipThreadCodec,
  memberViewCodec,
} from './membership-thread-protocol.ts';

export type MembershipProxyPorts = {
  readonly clock: Clock;
  readonly streams: Pick<Streams, 'request' | 'watch'>;
  readonly thread: Pick<RunningProgram, 'send'>;
  readonly beatMs: number;
};

/** In the form that the transport takes. */
export type ClusterSecrets = { readonly current: string | undefined; readonly previous: readonly string[] };

/** The bytes of a view are decoded at first use. */
type CachedMember = { view: MemberView | Uint8Array; readonly atMs: number };

const requestsMax = 1_000;

export class MembershipProxy implements MembershipHandle {
  readonly #ports: MembershipProxyPorts;
  readonly #self: Identity;
  readonly #reports: MembershipListener;
  readonly #members = new Map<NodeId, CachedMember>();
  readonly #requests = new Map<number, Done<Uint8Array>>();
  readonly #onLeft: (() => void)[] = [];
  #counters: Readonly<Record<string, number>> = {};
  #transport: Readonly<Record<string, number>> = {};
  #nextRequestId = 1;
  #open = true;
  #nextBeat: Cancel | undefined;

  constructor(ports: MembershipProxyPorts, self: Identity, reports: MembershipListener) {
    this.#ports = ports;
    this.#self = self;
    this.#reports = reports;
    this.#members.set(self.id, { view: initialLocalView(self), atMs: 0 });
  }

  start({ incarnation, known }: MembershipHints): void {
    // Only a lost or refused connection is evidence about a member.
    this.#ports.streams.watch((change) => {
      if (change.kind !== 'connected') this.#send(change);
    });
    this.#send({ kind: 'start', incarnation, known });
    this.#beat();
  }

  join(seeds: readonly Address[]): void {
    this.#send({ kind: 'join', seeds: seeds.map(({ host, port }) => ({ host, port })) });
  }

  members(): readonly MemberView[] {
    const nowMs = this.#ports.clock.nowMs();
    // The map keeps the order of the first reports; this node is the first.
    return [...this.#members.values()].map((cached) => {
      const view = viewOf(cached);
      return view.entry.id === this.#self.id ? view : withSilence(view, nowMs - cached.atMs);
    });
  }

  handleRequest(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void {
    if (!this.#open || this.#requests.size >= requestsMax) return reply(failure('CAPACITY'));
    const requestId = this.#nextRequestId++;
    this.#requests.set(requestId, reply);
    this.#send({ kind: 'incomingRequest', requestId, from, body });
  }

  embed(role: EmbeddingRole, state: Uint8Array): void {
    this.#send({ kind: 'embed', role, state });
  }

  counters(): Readonly<Record<string, number>> {
    return this.#counters;
  }

  /** Counters of the datagrams, which the thread sends and receives. */
  transportCounters(): Readonly<Record<string, number>> {
    return this.#transport;
  }

  /** Cuts off exactly these peers, for failure tests. */
  partitionFrom(peers: readonly Peer[]): void {
    this.#send({ kind: 'partition', peers: peers.map(({ id, host, port }) => ({ id, host, port })) });
  }

  /** The thread seals its messages with the new current secret from now on. */
  setSecrets({ current, previous }: ClusterSecrets): void {
    this.#send({ kind: 'setSecrets', current, previous });
  }

  leave(reason: string, done: () => void): void {
    if (!this.#open) return done();
    this.#onLeft.push(done);
    this.#send({ kind: 'leave', reason: reason.slice(0, 50) });
  }

  stop(): void {
    this.#open = false;
    this.#nextBeat?.();
    for (const reply of this.#requests.values()) reply(failure('DRAINED'));
    this.#requests.clear();
    for (const done of this.#onLeft.splice(0)) done();
  }

  /** A message of the thread. */
  handleMessage(body: Uint8Array): void {
    if (this.#open) this.#handle(fromMembershipThreadCodec.decode(body));
  }

  #handle(message: FromMembershipThread): void {
    switch (message.kind) {
      case 'request':
        return this.#request(message);
      case 'reply':
        return this.#finish(message.requestId, success(message.body));
      case 'replyError':
        return this.#finish(message.requestId, failure(parseErrorCode(message.code), undefined, message.stateChanged));
      case 'event': {
        const { kind: _, ...event } = message;
        return this.#reports.event(event);
      }
      case 'embedded':
        return this.#reports.embedded(message);
      case 'saveHints':
        return this.#reports.saveHints(message.writes.map(({ key, value }) => ({ key, value: value ?? null })));
      case 'requestBeat':
        this.#ports.clock.schedule(0, () => this.#send({ kind: 'beat' }));
        return;
      case 'members':
        return this.#update(message);
      case 'counters':
        this.#counters = { ...this.#counters, ...byName(message.membership) };
        this.#transport = { ...this.#transport, ...byName(message.transport) };
        return;
      case 'joined':
        return this.#reports.joined();
      case 'left':
        for (const done of this.#onLeft.splice(0)) done();
        return;
      case 'halted':
        return this.#reports.onHalt(new RemusterError('INTERNAL', message.error));
      case 'listening':
      case 'failed':
        return;
    }
  }

  #request({ requestId, to, timeoutMs, body }: FromMembershipThread & { kind: 'request' }): void {
    this.#ports.streams.request(to, body, timeoutMs, (outcome) => {
      if (outcome.ok) this.#send({ kind: 'requestSucceeded', requestId, body: outcome.value });
      else {
        const { code, stateChanged } = outcome.error;
        this.#send({ kind: 'requestFailed', requestId, code, stateChanged });
      }
    });
  }

  #finish(requestId: number, outcome: Parameters<Done<Uint8Array>>[0]): void {
    const reply = this.#requests.get(requestId);
    this.#requests.delete(requestId);
    reply?.(outcome);
  }

  #update({ changed, removed }: FromMembershipThread & { kind: 'members' }): void {
    const atMs = this.#ports.clock.nowMs();
    for (const { id, view } of changed) this.#members.set(id, { view, atMs });
    for (const id of removed) this.#members.delete(id);
  }

  #beat(): void {
    this.#send({ kind: 'beat' });
    this.#nextBeat = this.#ports.clock.schedule(this.#ports.beatMs, () => this.#beat());
  }

  #send(message: ToMembershipThread): void {
    if (this.#open) this.#ports.thread.send(toMembershipThreadCodec.encode(message));
  }
}

function byName(counters: readonly { readonly name: string; readonly value: number }[]): Record<string, number> {
  return Object.fromEntries(counters.map(({ name, value }) => [name, value]));
}

function viewOf(cached: CachedMember): MemberView {
  if (cached.view instanceof Uint8Array) ({ view: cached.view } = memberViewCodec.decode(cached.view));
  return cached.view;
}

/** The same view after `elapsedMs` without a newer report. */
function withSilence(view: MemberView, elapsedMs: number): MemberView {
  return { ...view, silentMs: Math.floor(view.silentMs + elapsedMs) };
}
