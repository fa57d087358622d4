/**
 * The Streams port on simulated connections: requests with deadlines, bounded one-way messages, byte streams. Bodies
 * are bytes, so they passed the real codec; they are copied, and overwritten after each call, because they are valid
 * only during it.
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

export function simulatedStreams(board: ConnectionTable, self: BoundPort, clock: Clock): Streams {
  const endpoint = new StreamEndpoint(board, self, clock);
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
  readonly #board: ConnectionTable;
  readonly #self: BoundPort;
  readonly #clock: Clock;
  readonly #lines = new Set<SimulatedConnection>();
  /** By host and port. */
  readonly #byAddress = new Map<string, Map<number, SimulatedConnection>>();
  /** How many lines each proved peer has; watchers are told of the first and of the last. */
  readonly #lineCounts = new Map<string, number>();
  readonly #watchers: ((change: ConnectionChange) => void)[] = [];
  #service: StreamService | undefined;
  #open = true;

  constructor(board: ConnectionTable, self: BoundPort, clock: Clock) {
    this.#board = board;
    this.#self = self;
    this.#clock = clock;
    self.accept = (caller) => this.#accept(caller);
    self.process.onExit(() => board.processDied([...this.#lines], self.host.powered));
  }

  serve(service: StreamService): void {
    this.#service = service;
  }

  watch(handler: (change: ConnectionChange) => void): void {
    this.#watchers.push(handler);
  }

  request(to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel {
    let over = false;
    let forget: Cancel | undefined;
    const finish = (outcome: Outcome<Uint8Array>): void => {
      if (over) return;
      over = true;
      cancelTimer();
      forget?.();
      this.#self.process.after(0, () => {
        done(outcome);
        if (outcome.ok) outcome.value.fill(poisonByte);
      });
    };
    const cancelTimer = this.#clock.schedule(timeoutMs, () => finish(failure('DEADLINE')));
    const line = this.#lineWithRoom(to, 'request-queue-full');
    if (line === undefined) finish(failure(this.#open ? 'CAPACITY' : 'UNREACHABLE'));
    else {
      forget = line.onClose((reason) => finish(lost(line, reason)));
      const copy = body.slice();
      const deadlineMs = this.#clock.nowMs() + timeoutMs;
      line.send(copy.length, (there) => {
        const answer = (outcome: Outcome<Uint8Array>): void => {
          there.send(outcome.ok ? outcome.value.length : 0, () => finish(outcome));
        };
        if (!over) there.receiver.requested(there, copy, Math.max(0, deadlineMs - this.#clock.nowMs()), answer);
      });
    }
    return () => finish(failure('CANCELLED'));
  }

  notify(to: Address, body: Uint8Array): boolean {
    const line = this.#lineWithRoom(to, 'notify-queue-full');
    if (line === undefined) return false;
    const copy = body.slice();
    line.send(copy.length, (there) => there.receiver.notified(there, copy));
    return true;
  }

  drained(to: Address, done: () => void): void {
    const line = this.#known(to);
    if (line === undefined) this.#self.process.after(0, done);
    else line.onceDrained(done);
  }

  openStream(to: Address, opening: Uint8Array, events: ByteStreamEvents): ByteStream {
    const line = this.#open ? this.#lineTo(to) : this.#newLine(to);
    const side = new ByteStreamSide(line, this.#board.limits.creditBytes, this.#board.rare);
    side.listen(events);
    const copy = opening.slice();
    line.send(copy.length, (there) => there.receiver.opened(there, copy, side));
    if (!this.#open) line.close('this node has closed its connections');
    return side.stream;
  }

  close(done: Done<void>): void {
    this.#open = false;
    delete this.#self.accept;
    for (const line of [...this.#lines]) line.closeGracefully('closed');
    this.#self.process.after(0, () => done(success(undefined)));
  }

  readonly #receiver: ConnectionReceiver = {
    accepted: (line, peer) => {
      line.open(peer);
      this.#connected(line);
    },
    requested: (line, body, remainingMs, reply) => {
      const service = this.#service;
      let replied = false;
      const once: Done<Uint8Array> = (outcome) => {
        if (replied) return;
        replied = true;
        reply(copiedReply(outcome));
      };
      this.#note(() => `is asked ${body.length} bytes by ${remoteOf(line).name}`);
      if (service === undefined) return once(failure('CAPACITY'));
      const fine = this.#self.process.guard(() => service.request(remoteOf(line), body, remainingMs, once));
      body.fill(poisonByte);
      if (!fine) once(failure('INTERNAL'));
    },
    notified: (line, body) => {
      this.#note(() => `is told ${body.length} bytes by ${remoteOf(line).name}`);
      this.#self.process.guard(() => this.#service?.notify(remoteOf(line), body));
      body.fill(poisonByte);
    },
    opened: (line, opening, opener) => {
      this.#note(() => `gets a stream from ${remoteOf(line).name}`);
      const side = new ByteStreamSide(line, this.#board.limits.creditBytes, this.#board.rare);
      side.join(opener);
      const fine = this.#self.process.guard(() => {
        const events = this.#service?.open(remoteOf(line), opening, side.stream);
        if (events !== undefined) side.listen(events);
      });
      opening.fill(poisonByte);
      if (!fine || this.#service === undefined) side.stream.abort('the handler of the stream failed');
    },
  };

  #lineWithRoom(to: Address, rareLabel: 'notify-queue-full' | 'request-queue-full'): SimulatedConnection | undefined {
    if (!this.#open || this.#board.rare(rareLabel)) return undefined;
    const line = this.#lineTo(to);
    return line.queuedBytes < this.#board.limits.queueBytesMax ? line : undefined;
  }

  #lineTo(to: Address): SimulatedConnection {
    const known = this.#known(to);
    if (known !== undefined) return known;
    const line = this.#newLine(to);
    this.#keep(line);
    this.#board.dial(line);
    return line;
  }

  #known({ host, port }: Address): SimulatedConnection | undefined {
    return this.#byAddress.get(host)?.get(port);
  }

  #newLine({ host, port }: Address): SimulatedConnection {
    return new SimulatedConnection(this.#board, this.#self, { host, port }, this.#receiver);
  }

  /** The first thing that the accepting side sends opens the line at the other side. */
  #accept(caller: SimulatedConnection): void {
    const line = this.#newLine(caller.self.identity);
    this.#keep(line);
    line.open(caller);
    line.send(0, (there) => there.receiver.accepted(there, line));
    this.#connected(line);
  }

  #keep(line: SimulatedConnection): void {
    this.#lines.add(line);
    const { host, port } = line.address;
    const atHost = this.#byAddress.get(host) ?? new Map<number, SimulatedConnection>();
    this.#byAddress.set(host, atHost);
    if (!atHost.has(port)) atHost.set(port, line);
    line.onClose((reason) => {
      this.#lines.delete(line);
      if (atHost.get(port) === line) atHost.delete(port);
      this.#disconnected(line, reason);
    });
  }

  #connected(line: SimulatedConnection): void {
    const peer = remoteOf(line);
    const count = (this.#lineCounts.get(lifeOf(peer)) ?? 0) + 1;
    this.#lineCounts.set(lifeOf(peer), count);
    if (count === 1) this.#tell({ kind: 'connected', peer });
  }

  #disconnected(line: SimulatedConnection, reason: string): void {
    const peer = line.remote;
    if (peer === undefined) return this.#tell({ kind: 'refused', address: line.address, reason });
    const count = (this.#lineCounts.get(lifeOf(peer)) ?? 1) - 1;
    this.#lineCounts.set(lifeOf(peer), count);
    if (count > 0) return;
    this.#lineCounts.delete(lifeOf(peer));
    this.#tell({ kind: 'disconnected', peer, reason, graceful: !this.#open });
  }

  #note(word: () => string): void {
    this.#board.log.detail(this.#self.host.name, word);
  }

  #tell(change: ConnectionChange): void {
    this.#note(() => printChange(change));
    this.#self.process.after(0, () => {
      for (const handler of this.#watchers) handler(change);
    });
  }
}

function keyOf(address: Address): string {
  return `${address.host}:${address.port}`;
}

function printChange(change: ConnectionChange): string {
  if (change.kind === 'connected') return `is connected with ${change.peer.name}`;
  if (change.kind === 'refused') return `cannot connect to ${keyOf(change.address)}: ${change.reason}`;
  return `is disconnected from ${change.peer.name}: ${change.reason}`;
}

function lifeOf(peer: Identity): string {
  return `${peer.id}/${peer.generation}`;
}

function remoteOf(line: SimulatedConnection): Identity {
  assert(line.remote !== undefined, 'an open line has two sides');
  return line.remote;
}

/** Nobody was there, or somebody was and may have done it. */
function lost(line: SimulatedConnection, reason: string): Outcome<never> {
  if (line.remote === undefined) return failure('UNREACHABLE', `no connection: ${reason}`);
  return failure('NETWORK_TIMEOUT', `the connection was lost before an answer came: ${reason}`);
}

/** An error is told by code, text and whether anything happened; whatever else it holds stays where it was. */
function copiedReply(outcome: Outcome<Uint8Array>): Outcome<Uint8Array> {
  if (outcome.ok) return success(outcome.value.slice());
  const { code, message, stateChanged } = serializeError(outcome.error);
  return failure(code, message, stateChanged);
}
