/**
 * The Streams port on simulated connections: requests with deadlines, bounded one-way messages, byte streams. Bodies
 * are copied, and overwritten after each call, because they are valid only during it.
 */
import { assert } from '../../base/assert.ts';
import { type Done, serializeError, failure, type Outcome, success } from '../../base/errors.ts';
import type {
  Address,
  ByteStream,
  ByteStreamEvents,
  Cancel,
  Clock,
  ConnectionChange,
  Identity,
  StreamService,
  Streams,
} from '../../base/ports.ts';
import { ByteStreamSide } from './byte-stream-side.ts';
import { poisonByte } from './simulated-datagrams.ts';
import { SimulatedConnection, type ConnectionReceiver } from './simulated-connection.ts';
import type { BoundPort } from './bound-port.ts';
import type { ConnectionTable } from './connection-table.ts';

export function simulatedStreams(table: ConnectionTable, self: BoundPort, clock: Clock): Streams {
  const endpoint = new StreamEndpoint(table, self, clock);
  return {
    request: (to, body, timeoutMs, done) => endpoint.request(to, body, timeoutMs, done),
    notify: (to, body) => endpoint.notify(to, body),
    drained: (to, done) => endpoint.drained(to, done),
    open: (to, opening, events) => endpoint.openStream(to, opening, events),
    serve: (service) => endpoint.serve(service),
    watch: (handler) => endpoint.watch(handler),
    close: (done) => endpoint.close(done),
  };
}

class StreamEndpoint {
  readonly #table: ConnectionTable;
  readonly #self: BoundPort;
  readonly #clock: Clock;
  readonly #connections = new Set<SimulatedConnection>();
  /** By host, then port. */
  readonly #byAddress = new Map<string, Map<number, SimulatedConnection>>();
  /** Open connections per peer; watchers are notified of the first and the last. */
  readonly #connectionCounts = new Map<string, number>();
  readonly #watchers: ((change: ConnectionChange) => void)[] = [];
  #service: StreamService | undefined;
  #open = true;

  constructor(table: ConnectionTable, self: BoundPort, clock: Clock) {
    this.#table = table;
    this.#self = self;
    this.#clock = clock;
    self.accept = (caller) => this.#accept(caller);
    self.process.onExit(() => table.processDied([...this.#connections], self.host.powered));
  }

  serve(service: StreamService): void {
    this.#service = service;
  }

  watch(handler: (change: ConnectionChange) => void): void {
    this.#watchers.push(handler);
  }

  request(to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel {
    let over = false;
    let cancelOnClose: Cancel | undefined;
    const finish = (outcome: Outcome<Uint8Array>): void => {
      if (over) return;
      over = true;
      cancelTimer();
      cancelOnClose?.();
      this.#self.process.after(0, () => {
        done(outcome);
        if (outcome.ok) outcome.value.fill(poisonByte);
      });
    };
    const cancelTimer = this.#clock.schedule(timeoutMs, () => finish(failure('DEADLINE')));
    const connection = this.#connectionWithCapacity(to, 'request-queue-full');
    if (connection === undefined) finish(failure(this.#open ? 'CAPACITY' : 'UNREACHABLE'));
    else {
      cancelOnClose = connection.onClose((reason) => finish(connectionLost(connection, reason)));
      const copy = body.slice();
      const deadlineMs = this.#clock.nowMs() + timeoutMs;
      connection.send(copy.length, (peer) => {
        const reply = (outcome: Outcome<Uint8Array>): void => {
          peer.send(outcome.ok ? outcome.value.length : 0, () => finish(outcome));
        };
        if (!over) peer.receiver.requested(peer, copy, Math.max(0, deadlineMs - this.#clock.nowMs()), reply);
      });
    }
    return () => finish(failure('CANCELLED'));
  }

  notify(to: Address, body: Uint8Array): boolean {
    const connection = this.#connectionWithCapacity(to, 'notify-queue-full');
    if (connection === undefined) return false;
    const copy = body.slice();
    connection.send(copy.length, (peer) => peer.receiver.notified(peer, copy));
    return true;
  }

  drained(to: Address, done: () => void): void {
    const connection = this.#known(to);
    if (connection === undefined) this.#self.process.after(0, done);
    else connection.onceDrained(done);
  }

  openStream(to: Address, opening: Uint8Array, events: ByteStreamEvents): ByteStream {
    const connection = this.#open ? this.#connectionTo(to) : this.#createConnection(to);
    const side = new ByteStreamSide(connection, this.#table.limits.creditBytes, this.#table.failpoints);
    side.listen(events);
    const copy = opening.slice();
    connection.send(copy.length, (peer) => peer.receiver.opened(peer, copy, side));
    if (!this.#open) connection.close('this node has closed its connections');
    return side.stream;
  }

  close(done: Done<void>): void {
    this.#open = false;
    delete this.#self.accept;
    for (const connection of [...this.#connections]) connection.closeGracefully('closed');
    this.#self.process.after(0, () => done(success(undefined)));
  }

  readonly #receiver: ConnectionReceiver = {
    accepted: (connection, peer) => {
      connection.open(peer);
      this.#onConnected(connection);
    },
    requested: (connection, body, remainingMs, reply) => {
      const service = this.#service;
      let replied = false;
      const once: Done<Uint8Array> = (outcome) => {
        if (replied) return;
        replied = true;
        reply(copiedReply(outcome));
      };
      this.#logDetail(() => `gets a request of ${body.length} bytes from ${remoteOf(connection).name}`);
      if (service === undefined) return once(failure('CAPACITY'));
      const isOk = this.#self.process.guard(() => service.request(remoteOf(connection), body, remainingMs, once));
      body.fill(poisonByte);
      if (!isOk) once(failure('INTERNAL'));
    },
    notified: (connection, body) => {
      this.#logDetail(() => `gets a message of ${body.length} bytes from ${remoteOf(connection).name}`);
      this.#self.process.guard(() => this.#service?.notify(remoteOf(connection), body));
      body.fill(poisonByte);
    },
    opened: (connection, opening, opener) => {
      this.#logDetail(() => `gets a stream from ${remoteOf(connection).name}`);
      const side = new ByteStreamSide(connection, this.#table.limits.creditBytes, this.#table.failpoints);
      side.join(opener);
      const isOk = this.#self.process.guard(() => {
        const events = this.#service?.open(remoteOf(connection), opening, side.stream);
        if (events !== undefined) side.listen(events);
      });
      opening.fill(poisonByte);
      if (!isOk || this.#service === undefined) side.stream.abort('the handler of the stream failed');
    },
  };

  #connectionWithCapacity(
    to: Address,
    failpoint: 'notify-queue-full' | 'request-queue-full',
  ): SimulatedConnection | undefined {
    if (!this.#open || this.#table.failpoints(failpoint)) return undefined;
    const connection = this.#connectionTo(to);
    return connection.queuedBytes < this.#table.limits.queueBytesMax ? connection : undefined;
  }

  #connectionTo(to: Address): SimulatedConnection {
    const known = this.#known(to);
    if (known !== undefined) return known;
    const connection = this.#createConnection(to);
    this.#add(connection);
    this.#table.dial(connection);
    return connection;
  }

  #known({ host, port }: Address): SimulatedConnection | undefined {
    return this.#byAddress.get(host)?.get(port);
  }

  #createConnection({ host, port }: Address): SimulatedConnection {
    return new SimulatedConnection(this.#table, this.#self, { host, port }, this.#receiver);
  }

  /** The first message of the accepting side opens the connection at the dialing side. */
  #accept(caller: SimulatedConnection): void {
    const connection = this.#createConnection(caller.self.identity);
    this.#add(connection);
    connection.open(caller);
    connection.send(0, (peer) => peer.receiver.accepted(peer, connection));
    this.#onConnected(connection);
  }

  #add(connection: SimulatedConnection): void {
    this.#connections.add(connection);
    const { host, port } = connection.address;
    const atHost = this.#byAddress.get(host) ?? new Map<number, SimulatedConnection>();
    this.#byAddress.set(host, atHost);
    if (!atHost.has(port)) atHost.set(port, connection);
    connection.onClose((reason) => {
      this.#connections.delete(connection);
      if (atHost.get(port) === connection) atHost.delete(port);
      this.#onDisconnected(connection, reason);
    });
  }

  #onConnected(connection: SimulatedConnection): void {
    const peer = remoteOf(connection);
    const count = (this.#connectionCounts.get(instanceKey(peer)) ?? 0) + 1;
    this.#connectionCounts.set(instanceKey(peer), count);
    if (count === 1) this.#notifyWatchers({ kind: 'connected', peer });
  }

  #onDisconnected(connection: SimulatedConnection, reason: string): void {
    const peer = connection.remote;
    if (peer === undefined) return this.#notifyWatchers({ kind: 'refused', address: connection.address, reason });
    const count = (this.#connectionCounts.get(instanceKey(peer)) ?? 1) - 1;
    this.#connectionCounts.set(instanceKey(peer), count);
    if (count > 0) return;
    this.#connectionCounts.delete(instanceKey(peer));
    this.#notifyWatchers({ kind: 'disconnected', peer, reason, graceful: !this.#open });
  }

  #logDetail(format: () => string): void {
    this.#table.log.detail(this.#self.host.name, format);
  }

  #notifyWatchers(change: ConnectionChange): void {
    this.#logDetail(() => changeText(change));
    this.#self.process.after(0, () => {
      for (const handler of this.#watchers) handler(change);
    });
  }
}

function addressText(address: Address): string {
  return `${address.host}:${address.port}`;
}

function changeText(change: ConnectionChange): string {
  if (change.kind === 'connected') return `is connected to ${change.peer.name}`;
  if (change.kind === 'refused') return `cannot connect to ${addressText(change.address)}: ${change.reason}`;
  return `is disconnected from ${change.peer.name}: ${change.reason}`;
}

function instanceKey(peer: Identity): string {
  return `${peer.id}/${peer.generation}`;
}

function remoteOf(connection: SimulatedConnection): Identity {
  assert(connection.remote !== undefined, 'an open connection has two sides');
  return connection.remote;
}

/** Without a peer nothing was sent; otherwise the peer may have executed the request. */
function connectionLost(connection: SimulatedConnection, reason: string): Outcome<never> {
  if (connection.remote === undefined) return failure('UNREACHABLE', `no connection: ${reason}`);
  return failure('NETWORK_TIMEOUT', `the connection was lost before the reply: ${reason}`);
}

/** Of an error only code, message and `stateChanged` are sent, as over a real connection. */
function copiedReply(outcome: Outcome<Uint8Array>): Outcome<Uint8Array> {
  if (outcome.ok) return success(outcome.value.slice());
  const { code, message, stateChanged } = serializeError(outcome.error);
  return failure(code, message, stateChanged);
}
