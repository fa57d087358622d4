/**
 * Program and composition root of the membership thread: runs the membership machine with its own socket, where user
 * code cannot block it. A node without datagrams has outbound connections there instead of a UDP socket.
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

/** Passed as JSON when the thread starts. */
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

/** Events are reported at once. This interval is for the rest, because each report wakes two threads. */
const reportIntervalMs = 6_000;
const requestsMax = 10_000;

export function main(channel: ProgramEndpoint): void {
  const data = JSON.parse(new TextDecoder().decode(channel.data)) as MembershipThreadData;
  // Not awaited: `open` reports a failure over the channel.
  void new MembershipThreadHost(channel, data).open();
}

class MembershipThreadHost {
  readonly #channel: ProgramEndpoint;
  readonly #data: MembershipThreadData;
  readonly #clock: Clock;
  readonly #chaos: Chaos;
  readonly #requests = new Map<number, Done<Uint8Array>>();
  #watcher: (change: ConnectionChange) => void = () => {};
  #nextRequestId = 1;
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
    let transports: MembershipTransports;
    try {
      transports = await this.#openTransports();
    } catch (error) {
      const { code, message } = serializeError(error);
      return this.#send({ kind: 'failed', code, text: message });
    }
    const { transport, datagrams, streams } = transports;
    this.#transport = transport;
    const ports = { clock: this.#clock, datagrams, streams, random: new Random(entropyText(16)) };
    const settings = { identity, seeds, options, watchMainLoop: true };
    this.#host = new MembershipHost(ports, settings, this.#reports());
    this.#channel.receive((body) => this.#handle(toMembershipThreadCodec.decode(body)));
    this.#send({ kind: 'listening', port: transport.port });
  }

  async #openTransports(): Promise<MembershipTransports> {
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

  /** Connections belong to the main thread: it sends the requests of this thread and reports lost connections. */
  #streams(): Pick<Streams, 'request' | 'watch'> {
    return {
      request: (to, body, timeoutMs, done) => {
        if (this.#requests.size >= requestsMax) {
          this.#clock.schedule(0, () => done(failure('CAPACITY')));
          return () => {};
        }
        const requestId = this.#nextRequestId++;
        this.#requests.set(requestId, done);
        // The main thread may be blocked, so this thread enforces the deadline.
        this.#clock.schedule(timeoutMs, () => this.#finish(requestId, failure('DEADLINE')));
        const { host, port } = to;
        this.#send({ kind: 'request', requestId, to: { host, port }, timeoutMs: Math.ceil(timeoutMs), body });
        return () => this.#finish(requestId, failure('CANCELLED'));
      },
      watch: (handler) => {
        this.#watcher = handler;
      },
    };
  }

  #finish(requestId: number, outcome: Parameters<Done<Uint8Array>>[0]): void {
    const done = this.#requests.get(requestId);
    this.#requests.delete(requestId);
    done?.(outcome);
  }

  #reports(): MembershipListener {
    return {
      event: (event) => {
        this.#reportMembers(event.id === this.#data.identity.id);
        this.#send({ kind: 'event', ...event });
      },
      requestBeat: () => this.#send({ kind: 'requestBeat' }),
      joined: () => {
        this.#reportMembers(true);
        this.#send({ kind: 'joined' });
      },
      embedded: ({ id, generation, version, parts }) =>
        this.#send({ kind: 'embedded', id, generation, version, parts }),
      saveHints: (writes) =>
        this.#send({ kind: 'saveHints', writes: writes.map(({ key, value }) => ({ key, value: value ?? undefined })) }),
      onHalt: (error) => this.#send({ kind: 'halted', error: String(error).slice(0, 500) }),
    };
  }

  #handle(message: ToMembershipThread): void {
    const host = this.#host as MembershipHost;
    switch (message.kind) {
      case 'start':
        return this.#start(host, message);
      case 'join':
        return host.join(message.seeds);
      case 'beat':
        return host.beat();
      case 'disconnected':
      case 'refused':
        return this.#watcher(message);
      case 'requestSucceeded':
        return this.#finish(message.requestId, success(message.body));
      case 'requestFailed':
        return this.#finish(message.requestId, failure(parseErrorCode(message.code), undefined, message.stateChanged));
      case 'incomingRequest':
        return this.#onRequest(host, message);
      case 'embed':
        return host.embed(message.role, message.state);
      case 'partition':
        return this.#chaos.partitionFrom(message.peers);
      case 'setSecrets':
        return this.#transport?.setSecrets({ current: message.current, previous: message.previous });
      case 'leave':
        return host.leave(message.reason, () => this.#send({ kind: 'left' }));
    }
  }

  #start(host: MembershipHost, { incarnation, known }: ToMembershipThread & { kind: 'start' }): void {
    host.start({ incarnation, known });
    this.#every(reportIntervalMs, () => {
      this.#reportMembers(true);
      this.#reportCounters(host);
    });
  }

  #onRequest(host: MembershipHost, { requestId, from, body }: ToMembershipThread & { kind: 'incomingRequest' }): void {
    host.handleRequest(from, body, (outcome) => {
      if (outcome.ok) this.#send({ kind: 'reply', requestId, body: outcome.value });
      else {
        const { code, stateChanged } = outcome.error;
        this.#send({ kind: 'replyError', requestId, code, stateChanged });
      }
    });
  }

  /**
   * Changes since the last report. This node itself is included only on request, because its own view always changes.
   */
  #reportMembers(includeSelf: boolean): void {
    const machine = this.#host?.machine;
    if (machine === undefined) return;
    const changes = [...machine.takeChanges(this.#clock.nowMs())];
    const views = [...(includeSelf ? this.#ownChange(machine) : []), ...changes.flatMap(([, view]) => view ?? [])];
    const changed = views.map((view) => ({ id: view.entry.id, view: memberViewCodec.encode({ kind: 'view', view }) }));
    const removed = changes.filter(([, view]) => view === undefined).map(([id]) => id);
    for (let from = 0; from < changed.length || from < removed.length; from += memberRowsMax) {
      const part = { changed: changed.slice(from, from + memberRowsMax) };
      this.#send({ kind: 'members', ...part, removed: removed.slice(from, from + memberRowsMax) });
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

  #send(message: FromMembershipThread): void {
    this.#channel.send(fromMembershipThreadCodec.encode(message));
  }
}

const countersMax = 1_000;

/** Returns the counters that changed since the last call. */
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

/** The transport counts refusals; the main thread receives the counters. */
function ignoreLog(_level: LogLevel, _message: string): void {}
