/**
 * The greeter on the ports: performs what it decides and turns what arrives into its inputs, with the real codec in
 * between. It decides nothing itself. Nothing that comes from outside makes it throw; what cannot be used is counted.
 */
import { type Done, RemusterError, failure, isRemusterError, success } from '../base/errors.ts';
import { Loop } from '../base/loop.ts';
import type { Address, Clock, Datagrams, Identity, Store, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import { Greeter } from '../membership/greeter.ts';
import type { GreeterConfig, GreeterEffect, GreeterInput, GreeterTimer } from '../membership/greeter-words.ts';
import { knownPeersRange, readKnownPeers } from '../membership/known-peers.ts';
import type { MemberEvent, MemberView } from '../membership/member.ts';
import { type Message, decodeMessage, encodeMessage } from '../messages/catalogue.ts';

export type GreetingPorts = {
  readonly clock: Clock;
  readonly datagrams: Datagrams;
  readonly streams: Streams;
  readonly store: Store;
  readonly random: Random;
};

export type GreetingReports = {
  event(event: MemberEvent): void;
  joined(): void;
  /** The greeter is over because of a mistake of ours. */
  halted(error: unknown): void;
  count(name: string): void;
};

const introductionsMax = 1_000;

export class Greeting {
  readonly #ports: GreetingPorts;
  readonly #config: GreeterConfig;
  readonly #requestTimeoutMs: number;
  readonly #reports: GreetingReports;
  readonly #greeter: Greeter;
  readonly #loop: Loop<GreeterInput, GreeterEffect, GreeterTimer>;
  /** Introductions that were asked of us and are not answered yet. */
  readonly #calls = new Map<number, Done<Uint8Array>>();
  #nextCall = 1;
  #farewells = 0;

  constructor(
    ports: GreetingPorts,
    self: Identity,
    config: GreeterConfig & { readonly requestTimeoutMs: number },
    reports: GreetingReports,
  ) {
    this.#ports = ports;
    this.#config = config;
    this.#requestTimeoutMs = config.requestTimeoutMs;
    this.#reports = reports;
    this.#greeter = new Greeter(self, config, ports.random.fork('greeter'));
    this.#loop = new Loop(this.#greeter, {
      clock: ports.clock,
      store: ports.store,
      perform: (effect) => this.#perform(effect),
      halted: (error) => reports.halted(error),
    });
  }

  get joined(): boolean {
    return this.#greeter.joined;
  }

  /** Introductions that wait for their answer. */
  get waiting(): number {
    return this.#calls.size;
  }

  views(): MemberView[] {
    return this.#greeter.views(this.#ports.clock.nowMs());
  }

  /** Begins with the peers of the last life. A store that cannot tell them costs time, not correctness. */
  start(): void {
    this.#ports.store.read({ ...knownPeersRange, limit: this.#config.membersMax }, (found) => {
      if (!found.ok) this.#reports.count('store.readFailed');
      this.#loop.feed({ kind: 'start', remembered: found.ok ? readKnownPeers(found.value) : [] });
    });
  }

  /** A message that came by datagram or as a notification. */
  told(from: Identity, message: Message): void {
    if (message.kind === 'hello') this.#loop.feed({ ...message, from });
    else if (message.kind === 'helloAck') this.#loop.feed({ ...message, from });
    else if (message.kind === 'goodbye') this.#loop.feed({ ...message, from });
    else this.#reports.count('rejected.unexpected');
  }

  introduction(from: Identity, message: Message & { kind: 'introduce' }, reply: Done<Uint8Array>): void {
    if (message.self.id !== from.id) return reply(failure('FORBIDDEN', 'a node introduces only itself'));
    if (this.#calls.size >= introductionsMax) return reply(failure('CAPACITY'));
    const call = this.#nextCall++;
    this.#calls.set(call, reply);
    this.#loop.feed({ kind: 'introduce', from, call, known: message.known });
  }

  /** Says goodbye and ends. True when somebody was told, and deserves a moment in which to hear it. */
  stop(reason: string): boolean {
    this.#loop.feed({ kind: 'stop', reason });
    this.#loop.stop();
    for (const reply of this.#calls.values()) reply(failure('DRAINED'));
    this.#calls.clear();
    return this.#farewells > 0;
  }

  #perform(effect: GreeterEffect): void {
    switch (effect.kind) {
      case 'request':
        this.#introduce(effect.to, encodeMessage(effect.message));
        break;
      case 'reply':
        this.#calls.get(effect.call)?.(success(encodeMessage(effect.message)));
        this.#calls.delete(effect.call);
        break;
      case 'datagram':
        this.#ports.datagrams.send(effect.to, fitted(effect.message));
        break;
      case 'notify':
        this.#farewells += 1;
        if (!this.#ports.streams.notify(effect.to, encodeMessage(effect.message)))
          this.#reports.count('notify.dropped');
        break;
      case 'remember':
        this.#ports.store.write(effect.writes, ({ ok }) => {
          if (!ok) this.#reports.count('store.writeFailed');
          this.#loop.feed({ kind: 'remembered', ok });
        });
        break;
      case 'joined':
        this.#reports.joined();
        break;
      case 'event':
        this.#reports.event(effect.event);
        break;
    }
  }

  #introduce(to: Address, body: Uint8Array): void {
    this.#ports.streams.request(to, body, this.#requestTimeoutMs, (outcome) => {
      const answer = outcome.ok ? readIntroduced(outcome.value) : outcome.error;
      if (answer instanceof RemusterError) {
        this.#reports.count(`introduction.${answer.code}`);
        this.#loop.feed({ kind: 'introductionFailed', by: to });
      } else this.#loop.feed({ ...answer, by: to });
    });
  }
}

function readIntroduced(body: Uint8Array): (Message & { kind: 'introduced' }) | RemusterError {
  try {
    const message = decodeMessage(body);
    return message.kind === 'introduced'
      ? message
      : new RemusterError('MALFORMED', `${message.kind} answers introduce`);
  } catch (error) {
    return isRemusterError(error) ? error : new RemusterError('INTERNAL');
  }
}

/** Very long names may not fit six times into a datagram: then fewer are told. */
function fitted(message: (GreeterEffect & { kind: 'datagram' })['message']): Uint8Array {
  try {
    return encodeMessage(message);
  } catch (error) {
    if (!isRemusterError(error, 'TOO_LARGE') || message.kind === 'goodbye' || message.known.length === 0) throw error;
    return fitted({ ...message, known: message.known.slice(0, message.known.length >> 1) });
  }
}
