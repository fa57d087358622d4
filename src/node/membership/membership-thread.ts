/**
 * Program of the membership thread: runs the membership machine beside its own socket, where user code cannot block it.
 * A node without datagrams has connections there instead of a UDP socket. Composition root of that thread.
 */
import { type Done, serializeError, failure, success, parseErrorCode } from '../../base/errors.ts';
import type {
  ProgramEndpoint,
  Clock,
  ConnectionChange,
  Datagrams,
  Identity,
  LogLevel,
  Streams,
} from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import {
  type DatagramTransport,
  type Secrets,
  type TlsOptions,
  type TransportOptions,
  openOutboundTransport,
  openDatagramTransport,
} from '../../io/transport/transport.ts';
import { entropyText } from '../../io/system/entropy.ts';
import { MembershipHost } from '../../membership/membership-host.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { Membership } from '../../membership/membership.ts';
import type { MembershipListener } from '../../membership/membership-handle.ts';
import type { MembershipOptions } from '../../membership/state/options.ts';
import type { Carrier } from '../../messages/codec/message.ts';
import { checkSender } from '../../messages/role-matrix.ts';
import { Chaos } from './chaos.ts';
import {
  type FromMembershipThread,
  type ToMembershipThread,
  fromMembershipThreadCodec,
  memberRowsMax,
  toMembershipThreadCodec,
  memberViewCodec,
} from './membership-thread-protocol.ts';

/** Handed over as JSON when the thread is started. */
export type MembershipThreadData = {
  readonly identity: Identity;
  readonly cluster: string;
  readonly secrets: { readonly current?: string; readonly previous: readonly string[] };
  readonly tls?: TlsOptions;
  readonly connectTimeoutMs: number;
  readonly seeds: readonly { readonly host: string; readonly port: number }[];
  readonly options: MembershipOptions;
};

type MembershipTransports = {
  readonly transport: Pick<DatagramTransport, 'port' | 'counters' | 'setSecrets'>;
  readonly datagrams: Datagrams | undefined;
  readonly streams: Pick<Streams, 'request' | 'watch'>;
};

/** What changes a belief is reported at once; this is for the rest, and a wake-up of two threads is not free. */
const reportIntervalMs = 6_000;
const requestsMax = 10_000;

export function main(channel: ProgramEndpoint): void {
  const data = JSON.parse(new TextDecoder().decode(channel.data)) as MembershipThreadData;
  const end = new MembershipThreadHost(channel, data);
  // Not awaited: whatever fails in there is told over the channel.
  void end.open();
}

class MembershipThreadHost {
  readonly #channel: ProgramEndpoint;
  readonly #data: MembershipThreadData;
  readonly #clock: Clock;
  readonly #chaos: Chaos;
  readonly #requests = new Map<number, Done<Uint8Array>>();
  #watcher: (change: ConnectionChange) => void = () => {};
  #nextCall = 1;
  #ownText = '';
  readonly #membershipCounters = new CounterDelta();
  readonly #transportCounters = new CounterDelta();
  #host: MembershipHost | undefined;
  #transport: MembershipTransports['transport'] | undefined;

  constructor(channel: ProgramEndpoint, data: MembershipThreadData) {
    this.#channel = channel;
    this.#data = data;
    this.#clock = channel.clock;
    this.#chaos = new Chaos(channel.clock);
  }

  async open(): Promise<void> {
    const { identity, seeds, options } = this.#data;
    let ways: MembershipTransports;
    try {
      ways = await this.#openWays();
    } catch (error) {
      const { code, message } = serializeError(error);
      return this.#send({ kind: 'failed', code, text: message });
    }
    const { transport, datagrams, streams } = ways;
    this.#transport = transport;
    const ports = { clock: this.#clock, datagrams, streams, random: new Random(entropyText(16)) };
    const settings = { identity, seeds, options, watchMainLoop: true };
    this.#host = new MembershipHost(ports, settings, this.#reports());
    this.#channel.receive((body) => this.#handle(toMembershipThreadCodec.decode(body)));
    this.#send({ kind: 'opened', port: transport.port });
  }

  async #openWays(): Promise<MembershipTransports> {
    const common = this.#transportOptions();
    if (this.#data.options.membership === 'push') {
      const transport = openOutboundTransport(common);
      return { transport, datagrams: undefined, streams: this.#chaos.streams(transport.streams) };
    }
    const transport = await openDatagramTransport(common);
    return { transport, datagrams: this.#chaos.datagrams(transport.datagrams), streams: this.#streams() };
  }

  #transportOptions(): TransportOptions {
    const { identity, cluster, secrets, tls, connectTimeoutMs: connectMs } = this.#data;
    return {
      ...{ cluster, clock: this.#clock, log: ignoreLog, self: identity, tls },
      bind: { host: identity.host, port: identity.port },
      secrets: secrets as Secrets,
      admit: (carrier: Carrier, from: Identity, body: Uint8Array) => checkSender(carrier, from.roles, body),
      limits: { connectMs },
    };
  }

  /** What the machine knows of connections: requests that the main thread makes for us, and what it sees. */
  #streams(): Pick<Streams, 'request' | 'watch'> {
    return {
      request: (to, body, timeoutMs, done) => {
        if (this.#requests.size >= requestsMax) {
          this.#clock.schedule(0, () => done(failure('CAPACITY')));
          return () => {};
        }
        const call = this.#nextCall++;
        this.#requests.set(call, done);
        // The main thread may be blocked: the deadline is kept here.
        this.#clock.schedule(timeoutMs, () => this.#ended(call, failure('DEADLINE')));
        const { host, port } = to;
        this.#send({ kind: 'request', call, to: { host, port }, timeoutMs: Math.ceil(timeoutMs), body });
        return () => this.#ended(call, failure('CANCELLED'));
      },
      watch: (handler) => {
        this.#watcher = handler;
      },
    };
  }

  #ended(call: number, outcome: Parameters<Done<Uint8Array>>[0]): void {
    const done = this.#requests.get(call);
    this.#requests.delete(call);
    done?.(outcome);
  }

  #reports(): MembershipListener {
    return {
      event: (event) => {
        this.#reportMembers(event.id === this.#data.identity.id);
        this.#send({ kind: 'event', ...event });
      },
      requestBeat: () => this.#send({ kind: 'wantBeat' }),
      joined: () => {
        this.#reportMembers(true);
        this.#send({ kind: 'joined' });
      },
      embedded: ({ id, generation, version, parts }) =>
        this.#send({ kind: 'embedded', id, generation, version, parts }),
      saveHints: (writes) =>
        this.#send({ kind: 'remember', writes: writes.map(({ key, value }) => ({ key, value: value ?? undefined })) }),
      onHalt: (error) => this.#send({ kind: 'halted', error: String(error).slice(0, 500) }),
    };
  }

  #handle(word: ToMembershipThread): void {
    const host = this.#host as MembershipHost;
    switch (word.kind) {
      case 'start':
        return this.#start(host, word);
      case 'join':
        return host.join(word.seeds);
      case 'beat':
        return host.beat();
      case 'disconnected':
      case 'refused':
        return this.#watcher(word);
      case 'answered':
        return this.#ended(word.call, success(word.body));
      case 'unanswered':
        return this.#ended(word.call, failure(parseErrorCode(word.code), undefined, word.stateChanged));
      case 'asked':
        return this.#asked(host, word);
      case 'embed':
        return host.embed(word.role, word.state);
      case 'cutOff':
        return this.#chaos.partitionFrom(word.peers);
      case 'secrets':
        return this.#transport?.setSecrets({ current: word.current, previous: word.previous });
      case 'leave':
        return host.leave(word.reason, () => this.#send({ kind: 'departed' }));
    }
  }

  #start(host: MembershipHost, { incarnation, known }: ToMembershipThread & { kind: 'start' }): void {
    host.start({ incarnation, known });
    this.#every(reportIntervalMs, () => {
      this.#reportMembers(true);
      this.#reportCounters(host);
    });
  }

  #asked(host: MembershipHost, { call, from, body }: ToMembershipThread & { kind: 'asked' }): void {
    host.handleRequest(from, body, (outcome) => {
      if (outcome.ok) this.#send({ kind: 'reply', call, body: outcome.value });
      else {
        const { code, stateChanged } = outcome.error;
        this.#send({ kind: 'noReply', call, code, stateChanged });
      }
    });
  }

  /** What changed since the last report. Of ourselves only now and then: what we think of us changes all the time. */
  #reportMembers(ourselvesToo: boolean): void {
    const machine = this.#host?.machine;
    if (machine === undefined) return;
    const changes = [...machine.takeChanges(this.#clock.nowMs())];
    const views = [...(ourselvesToo ? this.#ownChange(machine) : []), ...changes.flatMap(([, view]) => view ?? [])];
    const changed = views.map((view) => ({ id: view.entry.id, view: memberViewCodec.encode({ kind: 'view', view }) }));
    const forgotten = changes.filter(([, view]) => view === undefined).map(([id]) => id);
    for (let from = 0; from < changed.length || from < forgotten.length; from += memberRowsMax) {
      const part = { changed: changed.slice(from, from + memberRowsMax) };
      this.#send({ kind: 'members', ...part, forgotten: forgotten.slice(from, from + memberRowsMax) });
    }
  }

  #ownChange(machine: Membership): readonly MemberView[] {
    const own = machine.localView();
    const text = JSON.stringify(own);
    if (text === this.#ownText) return [];
    this.#ownText = text;
    return [own];
  }

  #reportCounters(host: MembershipHost): void {
    const membership = this.#membershipCounters.changes(host.counters());
    const transport = this.#transportCounters.changes(this.#transport?.counters() ?? {});
    if (membership.length + transport.length > 0) this.#send({ kind: 'counters', membership, transport });
  }

  #every(intervalMs: number, run: () => void): void {
    this.#clock.schedule(intervalMs, () => {
      run();
      this.#every(intervalMs, run);
    });
  }

  #send(word: FromMembershipThread): void {
    this.#channel.send(fromMembershipThreadCodec.encode(word));
  }
}

const countersMax = 1_000;

/** Remembers what was reported, so that only what changed is reported again. */
class CounterDelta {
  readonly #values = new Map<string, number>();

  changes(counters: Readonly<Record<string, number>>): { readonly name: string; readonly value: number }[] {
    const changed: { name: string; value: number }[] = [];
    for (const [name, value] of Object.entries(counters)) {
      if (this.#values.get(name) === value || changed.length >= countersMax) continue;
      this.#values.set(name, value);
      changed.push({ name, value });
    }
    return changed;
  }
}

/** Refusals are counted; the counters travel. */
function ignoreLog(_level: LogLevel, _message: string): void {}
