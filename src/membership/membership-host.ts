/**
 * Runs the membership machine on ports with the real codec. Decides nothing; counts unusable input and never throws
 * because of it.
 */
import { type Done, type Outcome, failure, isRemusterError, success } from '../base/errors.ts';
import { Loop, noStore } from '../base/runtime/loop.ts';
import type { Address, Clock, Datagrams, Identity, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import { type Message, decodeMessage, encodeMessage } from '../messages/catalogue.ts';
import { peekTag } from '../messages/codec/codec.ts';
import { type EmbeddingRole, type MembershipMessage, membershipMessages } from '../messages/membership.ts';
import { rejectionReason } from '../messages/codec/decode-error.ts';
import { checkSender } from '../messages/role-matrix.ts';
import type { MembershipEffect, RequestPurpose, MembershipTimer } from './state/context.ts';
import { type MemberView, initialLocalView } from './state/member-view.ts';
import { Membership, type MembershipInput } from './membership.ts';
import type { MembershipHandle, MembershipListener } from './membership-handle.ts';
import type { MembershipHints } from './state/hints.ts';
import type { MembershipOptions } from './state/options.ts';

export type MembershipHostPorts = {
  readonly clock: Clock;
  /** Undefined on a node without datagrams; its options must then say `membership: 'push'`. */
  readonly datagrams: Pick<Datagrams, 'send' | 'receive'> | undefined;
  readonly streams: Pick<Streams, 'request' | 'watch'>;
  readonly random: Random;
};

export type MembershipHostSettings = {
  readonly identity: Identity;
  readonly seeds: readonly Address[];
  readonly options: MembershipOptions;
  /** True where the main loop is another thread, which sends beats. */
  readonly watchMainLoop: boolean;
};

const callsMax = 1_000;

export class MembershipHost implements MembershipHandle {
  readonly #ports: MembershipHostPorts;
  readonly #settings: MembershipHostSettings;
  readonly #listener: MembershipListener;
  readonly #counters = new Map<string, number>();
  /** Received requests that wait for their reply, by call number. At most `callsMax`. */
  readonly #pendingReplies = new Map<number, Done<Uint8Array>>();
  #machine: Membership | undefined;
  #loop: Loop<MembershipInput, MembershipEffect, MembershipTimer> | undefined;
  #nextCall = 1;
  /** Callers that wait for the end of their leave: the effect `left`, or a stop before it. */
  readonly #onLeft: (() => void)[] = [];

  constructor(ports: MembershipHostPorts, settings: MembershipHostSettings, listener: MembershipListener) {
    this.#ports = ports;
    this.#settings = settings;
    this.#listener = listener;
  }

  start({ incarnation, known }: MembershipHints): void {
    const { clock, datagrams, streams, random } = this.#ports;
    const { identity, options, seeds, watchMainLoop } = this.#settings;
    this.#machine = new Membership(identity, incarnation, options, random.fork('membership'));
    const perform = (effect: MembershipEffect): void => this.#perform(effect);
    const onHalt = (error: unknown): void => this.#listener.onHalt(error);
    this.#loop = new Loop(this.#machine, { clock, store: noStore, perform, onHalt });
    datagrams?.receive((from, body) => this.#onDatagram(from, body));
    streams.watch((change) => this.#loop?.feed({ kind: 'connection', change }));
    this.#loop.feed({ kind: 'start', seeds, known, watchMainLoop });
  }

  members(): readonly MemberView[] {
    return this.#machine?.views(this.#ports.clock.nowMs()) ?? [initialLocalView(this.#settings.identity)];
  }

  /** The machine, for a caller that publishes its changes to another thread. */
  get machine(): Membership | undefined {
    return this.#machine;
  }

  handleRequest(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void {
    if (this.#loop === undefined || this.#pendingReplies.size >= callsMax) return reply(failure('CAPACITY'));
    const message = this.#decode(body);
    if (message === undefined) return reply(failure('FORBIDDEN', 'the membership message cannot be decoded'));
    const call = this.#nextCall++;
    this.#pendingReplies.set(call, reply);
    this.#loop.feed({ kind: 'request', from, call, message });
  }

  embed(role: EmbeddingRole, state: Uint8Array): void {
    this.#loop?.feed({ kind: 'embed', role, state });
  }

  join(seeds: readonly Address[]): void {
    this.#loop?.feed({ kind: 'join', seeds });
  }

  beat(): void {
    this.#loop?.feed({ kind: 'beat' });
  }

  counters(): Readonly<Record<string, number>> {
    return { ...Object.fromEntries(this.#counters), ...this.#machine?.counters() };
  }

  leave(reason: string, done: () => void): void {
    if (this.#loop === undefined) return done();
    this.#onLeft.push(done);
    this.#loop.feed({ kind: 'leave', reason });
  }

  stop(): void {
    this.#loop?.stop();
    this.#loop = undefined;
    for (const call of this.#pendingReplies.keys()) this.#reply(call, failure('DRAINED'));
    this.#endLeaves();
  }

  #onDatagram(from: Identity, body: Uint8Array): void {
    const refused = checkSender('datagram', from.roles, body);
    if (refused !== undefined) return this.#count(`rejected.${refused}`);
    const message = this.#decode(body);
    if (message !== undefined) this.#loop?.feed({ kind: 'datagram', from, message });
  }

  #perform(effect: MembershipEffect): void {
    switch (effect.kind) {
      case 'datagram':
        return this.#ports.datagrams?.send(effect.to, encodeMessage(effect.message));
      case 'request':
        return this.#request(effect);
      case 'reply':
        return this.#reply(effect.call, success(encodeMessage(effect.message)));
      case 'replyError':
        return this.#reply(effect.call, failure(effect.code));
      case 'event':
        return this.#listener.event(effect.event);
      case 'embedded':
        return this.#listener.embedded(effect);
      case 'saveHints':
        return this.#listener.saveHints(effect.writes);
      case 'requestBeat':
        return this.#listener.requestBeat?.();
      case 'joined':
        return this.#listener.joined();
      case 'left':
        return this.#endLeaves();
    }
  }

  /** Forgets the call first: the caller may stop this host from its callback. */
  #reply(call: number, outcome: Outcome<Uint8Array>): void {
    const reply = this.#pendingReplies.get(call);
    this.#pendingReplies.delete(call);
    reply?.(outcome);
  }

  #endLeaves(): void {
    for (const done of this.#onLeft.splice(0)) done();
  }

  #request({ to, message, timeoutMs, purpose }: MembershipEffect & { kind: 'request' }): void {
    this.#ports.streams.request(to, encodeMessage(message), timeoutMs, (outcome) =>
      this.#onRequestEnded(purpose, outcome),
    );
  }

  #onRequestEnded(purpose: RequestPurpose, outcome: Outcome<Uint8Array>): void {
    if (!outcome.ok) this.#count(`requests.${purpose.kind}.${outcome.error.code}`);
    const message = outcome.ok ? this.#decode(outcome.value) : undefined;
    const code = outcome.ok ? undefined : outcome.error.code;
    const input =
      message === undefined ? ({ kind: 'requestFailed', code } as const) : ({ kind: 'response', message } as const);
    this.#loop?.feed({ ...input, purpose });
  }

  #decode(body: Uint8Array): MembershipMessage | undefined {
    try {
      const message = decodeMessage(body);
      if (isMembershipMessage(message)) return message;
      this.#count('rejected.unexpected');
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      this.#count(`rejected.${rejectionReason(error) ?? error.code}`);
    }
    return undefined;
  }

  #count(name: string): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1);
  }
}

const declared = membershipMessages;
const kinds = new Set<string>(declared.map(({ kind }) => kind));
const requestKinds: readonly string[] = ['streamPing', 'syncView', 'leave', 'pushPing'];
const requestTags = new Set(declared.filter(({ kind }) => requestKinds.includes(kind)).map(({ tag }) => tag));

/** True for a body that belongs to `handleRequest`. Looks at the tag only, without decoding. */
export function isMembershipRequest(body: Uint8Array): boolean {
  const tag = peekTag(body);
  return tag !== undefined && requestTags.has(tag);
}

function isMembershipMessage(message: Message): message is MembershipMessage {
  return kinds.has(message.kind);
}
