/**
 * The main thread's side of the membership thread: makes its requests and writes, forwards connection events, sends the
 * heartbeat, caches the member list. Decides nothing.
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

/** As the transport takes them. */
export type ClusterSecrets = { readonly current: string | undefined; readonly previous: readonly string[] };

/** The bytes are read when somebody asks. */
type Seen = { view: MemberView | Uint8Array; readonly atMs: number };

const callsMax = 1_000;

export class MembershipProxy implements MembershipHandle {
  readonly #ports: MembershipProxyPorts;
  readonly #self: Identity;
  readonly #reports: MembershipListener;
  readonly #members = new Map<NodeId, Seen>();
  readonly #calls = new Map<number, Done<Uint8Array>>();
  readonly #departed: (() => void)[] = [];
  #counters: Readonly<Record<string, number>> = {};
  #transport: Readonly<Record<string, number>> = {};
  #nextCall = 1;
  #open = true;
  #beating: Cancel | undefined;

  constructor(ports: MembershipProxyPorts, self: Identity, reports: MembershipListener) {
    this.#ports = ports;
    this.#self = self;
    this.#reports = reports;
    this.#members.set(self.id, { view: initialLocalView(self), atMs: 0 });
  }

  start({ incarnation, known }: MembershipHints): void {
    // Only a connection that is gone, or cannot be made, says anything about a member.
    this.#ports.streams.watch((change) => {
      if (change.kind !== 'connected') this.#say(change);
    });
    this.#say({ kind: 'start', incarnation, known });
    this.#beat();
  }

  join(seeds: readonly Address[]): void {
    this.#say({ kind: 'join', seeds: seeds.map(({ host, port }) => ({ host, port })) });
  }

  members(): readonly MemberView[] {
    const nowMs = this.#ports.clock.nowMs();
    // The map keeps the order in which members were first reported, and we are the first.
    return [...this.#members.values()].map((seen) => {
      const view = viewOf(seen);
      return view.entry.id === this.#self.id ? view : silentFor(view, nowMs - seen.atMs);
    });
  }

  handleRequest(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void {
    if (!this.#open || this.#calls.size >= callsMax) return reply(failure('CAPACITY'));
    const call = this.#nextCall++;
    this.#calls.set(call, reply);
    this.#say({ kind: 'asked', call, from, body });
  }

  embed(role: EmbeddingRole, state: Uint8Array): void {
    this.#say({ kind: 'embed', role, state });
  }

  counters(): Readonly<Record<string, number>> {
    return this.#counters;
  }

  /** Of the datagrams, which the thread sends and receives. */
  transportCounters(): Readonly<Record<string, number>> {
    return this.#transport;
  }

  /** Exactly these peers are cut off from now on: for trying out failures. */
  partitionFrom(peers: readonly Peer[]): void {
    this.#say({ kind: 'cutOff', peers: peers.map(({ id, host, port }) => ({ id, host, port })) });
  }

  /** What is sent from now on is sealed with the new current secret, there as here. */
  setSecrets({ current, previous }: ClusterSecrets): void {
    this.#say({ kind: 'secrets', current, previous });
  }

  leave(reason: string, done: () => void): void {
    if (!this.#open) return done();
    this.#departed.push(done);
    this.#say({ kind: 'leave', reason: reason.slice(0, 50) });
  }

  stop(): void {
    this.#open = false;
    this.#beating?.();
    for (const reply of this.#calls.values()) reply(failure('DRAINED'));
    this.#calls.clear();
    for (const done of this.#departed.splice(0)) done();
  }

  /** A message of the thread. */
  handleMessage(body: Uint8Array): void {
    if (this.#open) this.#hear(fromMembershipThreadCodec.decode(body));
  }

  #hear(word: FromMembershipThread): void {
    switch (word.kind) {
      case 'request':
        return this.#request(word);
      case 'reply':
        return this.#finish(word.call, success(word.body));
      case 'noReply':
        return this.#finish(word.call, failure(parseErrorCode(word.code), undefined, word.stateChanged));
      case 'event': {
        const { kind: _, ...event } = word;
        return this.#reports.event(event);
      }
      case 'embedded':
        return this.#reports.embedded(word);
      case 'remember':
        return this.#reports.saveHints(word.writes.map(({ key, value }) => ({ key, value: value ?? null })));
      case 'wantBeat':
        this.#ports.clock.schedule(0, () => this.#say({ kind: 'beat' }));
        return;
      case 'members':
        return this.#update(word);
      case 'counters':
        this.#counters = { ...this.#counters, ...byName(word.membership) };
        this.#transport = { ...this.#transport, ...byName(word.transport) };
        return;
      case 'joined':
        return this.#reports.joined();
      case 'departed':
        for (const done of this.#departed.splice(0)) done();
        return;
      case 'halted':
        return this.#reports.onHalt(new RemusterError('INTERNAL', word.error));
      case 'opened':
      case 'failed':
        return;
    }
  }

  #request({ call, to, timeoutMs, body }: FromMembershipThread & { kind: 'request' }): void {
    this.#ports.streams.request(to, body, timeoutMs, (outcome) => {
      if (outcome.ok) this.#say({ kind: 'answered', call, body: outcome.value });
      else {
        const { code, stateChanged } = outcome.error;
        this.#say({ kind: 'unanswered', call, code, stateChanged });
      }
    });
  }

  #finish(call: number, outcome: Parameters<Done<Uint8Array>>[0]): void {
    const reply = this.#calls.get(call);
    this.#calls.delete(call);
    reply?.(outcome);
  }

  #update({ changed, forgotten }: FromMembershipThread & { kind: 'members' }): void {
    const atMs = this.#ports.clock.nowMs();
    for (const { id, view } of changed) this.#members.set(id, { view, atMs });
    for (const id of forgotten) this.#members.delete(id);
  }

  #beat(): void {
    this.#say({ kind: 'beat' });
    this.#beating = this.#ports.clock.schedule(this.#ports.beatMs, () => this.#beat());
  }

  #say(word: ToMembershipThread): void {
    if (this.#open) this.#ports.thread.send(toMembershipThreadCodec.encode(word));
  }
}

function byName(counters: readonly { readonly name: string; readonly value: number }[]): Record<string, number> {
  return Object.fromEntries(counters.map(({ name, value }) => [name, value]));
}

function viewOf(seen: Seen): MemberView {
  if (seen.view instanceof Uint8Array) ({ view: seen.view } = memberViewCodec.decode(seen.view));
  return seen.view;
}

/** The same view some time later. */
function silentFor(view: MemberView, moreMs: number): MemberView {
  return { ...view, silentMs: Math.floor(view.silentMs + moreMs) };
}
