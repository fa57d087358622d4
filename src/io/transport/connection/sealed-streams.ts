/**
 * The Streams port: finds or dials the connection of an address, keeps one per pair of nodes, reports changes. A lost
 * connection fails its pending requests, so every request ends exactly once.
 */
import { randomInt } from 'node:crypto';
import type { Socket } from 'node:net';

import { type Done, failure, isRemusterError, RemusterError, success } from '../../../base/errors.ts';
import type {
  Address,
  ByteStream,
  ByteStreamEvents,
  Cancel,
  ConnectionChange,
  StreamService,
  Streams,
} from '../../../base/ports.ts';
import type { Acceptor } from './acceptor.ts';
import { dialBackoffMs } from '../../../base/backoff.ts';
import { type PeerChannel, completeQueuedRequest, type QueuedItem, type QueuedRequest } from './peer-channel.ts';
import { PeerChannelTable } from './channel-table.ts';
import { SealedConnection, type SealedConnectionContext, type SealedConnectionEvents } from './sealed-connection.ts';
import { DeadlineTimer } from './deadline-timer.ts';
import { PendingStream } from './pending-stream.ts';
import { PeerConnections } from './peer-connections.ts';
import { segmentKinds } from '../mux/segment.ts';
import { chunkBytes } from '../mux/send-queue.ts';
import { dial, type TlsOptions } from '../shared/sockets.ts';

const drainWaitersMax = 1_024;
const randomScale = 2 ** 32;
const queueFullText = 'the send queue to that peer is full';

export class SealedStreams implements Streams {
  readonly #context: SealedConnectionContext;
  readonly #tls: TlsOptions | undefined;
  readonly #channels: PeerChannelTable;
  readonly #live: PeerConnections;
  /** All connections, including those in their handshake. */
  readonly #connections = new Set<SealedConnection>();
  readonly #dialing = new Set<Socket>();
  readonly #deadlines: DeadlineTimer;
  readonly #watchers: ((change: ConnectionChange) => void)[] = [];
  #service: StreamService | undefined;
  #acceptor: Acceptor | undefined;
  #sweep: Cancel | undefined;
  #closed = false;

  constructor(context: SealedConnectionContext, tls: TlsOptions | undefined) {
    this.#context = context;
    this.#tls = tls;
    this.#channels = new PeerChannelTable(context.mux.limits);
    this.#live = new PeerConnections(context.self().id);
    this.#deadlines = new DeadlineTimer(context.clock, (nowMs) => this.#expire(nowMs));
    this.#scheduleSweep();
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  get service(): StreamService | undefined {
    return this.#service;
  }

  request(to: Address, body: Uint8Array, timeoutMs: number, done: Done<Uint8Array>): Cancel {
    const nowMs = this.#context.clock.nowMs();
    const channel = this.#channels.get(to);
    const connection = channel?.connection;
    this.#deadlines.arm(nowMs + timeoutMs);
    if (connection === undefined || channel === undefined)
      return this.#requestLater(channel, body, nowMs + timeoutMs, done);
    connection.lastUsedMs = nowMs;
    const id = connection.mux.request(body, nowMs, timeoutMs, done);
    if (id === undefined) {
      queueMicrotask(() => done(failure('CAPACITY', queueFullText)));
      return noop;
    }
    return () => queueMicrotask(() => connection.mux.abandon(id, failure('CANCELLED')));
  }

  notify(to: Address, body: Uint8Array): boolean {
    const { messageBytesMax } = this.#context.mux.limits;
    if (body.length > messageBytesMax)
      throw new RemusterError('TOO_LARGE', `the message has ${body.length} of at most ${messageBytesMax} bytes`, 'no');
    const channel = this.#channels.get(to);
    if (channel?.connection !== undefined) {
      channel.connection.lastUsedMs = this.#context.clock.nowMs();
      return channel.connection.mux.notify(body);
    }
    if (channel === undefined || this.#dialError(channel) !== undefined) {
      // A notification promises nothing: an unreachable peer must not block the sender.
      this.#context.mux.counters.add('dropped.notify');
      return true;
    }
    return this.#enqueue(channel, { kind: 'notify', body: new Uint8Array(body) });
  }

  drained(to: Address, done: () => void): void {
    const channel = this.#channels.get(to);
    if (channel === undefined || channel.hasRoom || channel.drainWaiters.length >= drainWaitersMax)
      queueMicrotask(done);
    else channel.drainWaiters.push(done);
  }

  open(to: Address, opening: Uint8Array, events: ByteStreamEvents): ByteStream {
    if (opening.length > chunkBytes) {
      const text = `the first message of the stream has ${opening.length} of at most ${chunkBytes} bytes`;
      throw new RemusterError('TOO_LARGE', text);
    }
    const stream = new PendingStream(events);
    const channel = this.#channels.get(to);
    const item: QueuedItem = { kind: 'open', body: opening, stream };
    const dialError = this.#dialError(channel);
    if (channel?.connection !== undefined) this.#send(channel.connection, item);
    else if (channel === undefined || dialError !== undefined)
      stream.fail({ ok: false, error: dialError ?? unreachable('too many peers') });
    else if (!this.#enqueue(channel, { ...item, body: new Uint8Array(opening) })) stream.fail(failure('CAPACITY'));
    return stream;
  }

  serve(service: StreamService): void {
    this.#service = service;
  }

  watch(handler: (change: ConnectionChange) => void): void {
    this.#watchers.push(handler);
  }

  close(done: Done<void>): void {
    this.#closed = true;
    this.#sweep?.();
    this.#deadlines.stop();
    for (const socket of this.#dialing) socket.destroy();
    for (const connection of this.#connections) connection.finish('this node is closing');
    for (const channel of this.#channels) channel.failQueued(unreachable('this node is closing'));
    const closed = (): void => done(success(undefined));
    if (this.#acceptor === undefined) queueMicrotask(closed);
    else this.#acceptor.close(closed);
  }

  listen(acceptor: Acceptor): void {
    this.#acceptor = acceptor;
  }

  /** An inbound socket. `release` is called when its handshake has ended. */
  acceptSocket(socket: Socket, release: () => void): void {
    const events = this.#events(undefined);
    const connection = new SealedConnection('server', socket, this.#context, {
      ...events,
      established: (c) => {
        release();
        events.established(c);
      },
      closed: (c, reason) => {
        release();
        events.closed(c, reason);
      },
    });
    this.#connections.add(connection);
  }

  /** Announces a new datagram session to all peers. */
  announce(sessions: Uint8Array): void {
    for (const connection of this.#live) connection.mux.control(segmentKinds.session, sessions);
  }

  #requestLater(
    channel: PeerChannel | undefined,
    body: Uint8Array,
    deadlineMs: number,
    done: Done<Uint8Array>,
  ): Cancel {
    const item: QueuedRequest = {
      kind: 'request',
      body: new Uint8Array(body),
      deadlineMs,
      done: (outcome) => this.#guarded(() => done(outcome)),
      sent: undefined,
      isCompleted: false,
    };
    const dialError = this.#dialError(channel);
    if (channel === undefined || dialError !== undefined) {
      const error = dialError ?? unreachable('too many peers');
      queueMicrotask(() => completeQueuedRequest(item, { ok: false, error }));
    } else if (!this.#enqueue(channel, item)) {
      queueMicrotask(() => completeQueuedRequest(item, failure('CAPACITY', queueFullText)));
    }
    return () =>
      queueMicrotask(() => {
        if (item.sent === undefined) completeQueuedRequest(item, failure('CANCELLED', undefined, 'no'));
        else item.sent.connection.mux.abandon(item.sent.id, failure('CANCELLED'));
      });
  }

  /** Why no connection is attempted now. */
  #dialError(channel: PeerChannel | undefined): RemusterError | undefined {
    if (this.#closed) return unreachable('this node is closing');
    if (channel === undefined || channel.dialing || channel.retryAtMs <= this.#context.clock.nowMs()) return undefined;
    const { code = 'UNREACHABLE', message = '' } = channel.lastFailure ?? {};
    const { host, port } = channel.address;
    return new RemusterError(code, `${host}:${port}: ${message}; the next attempt follows soon`, 'no');
  }

  #enqueue(channel: PeerChannel, item: QueuedItem): boolean {
    if (!channel.enqueue(item)) return false;
    if (!channel.dialing) this.#dial(channel);
    return true;
  }

  #dial(channel: PeerChannel): void {
    channel.dialing = true;
    const { clock, mux } = this.#context;
    const socket = dial(channel.address, this.#tls, (connected, reason) => {
      cancelTimeout();
      this.#dialing.delete(socket);
      if (connected === undefined) this.#onDialFailed(channel, unreachable(reason));
      else if (this.#closed) connected.destroy();
      else this.#connections.add(new SealedConnection('client', connected, this.#context, this.#events(channel)));
    });
    this.#dialing.add(socket);
    const cancelTimeout = clock.schedule(mux.limits.connectMs, () => socket.destroy());
  }

  #onDialFailed(channel: PeerChannel, error: RemusterError): void {
    const { clock, mux } = this.#context;
    channel.dialing = false;
    if (channel.connection !== undefined || this.#closed) return channel.failQueued(error);
    channel.failures += 1;
    channel.lastFailure = error;
    const fraction = randomInt(randomScale) / randomScale;
    const backoffMs = dialBackoffMs(channel.failures, mux.limits.backoffMsMin, mux.limits.backoffMsMax, fraction);
    channel.retryAtMs = clock.nowMs() + backoffMs;
    mux.counters.add('connections.failed');
    channel.failQueued(error);
    channel.notifyDrained();
    return this.#emit({ kind: 'refused', address: channel.address, reason: error.message });
  }

  #events(channel: PeerChannel | undefined): SealedConnectionEvents {
    return {
      established: (connection) => this.#onEstablished(connection, channel),
      closing: (connection) => this.#detach(connection),
      closed: (connection, reason, cause) => this.#onClosed(connection, channel, reason, cause),
      drained: (connection) => this.#eachChannelOf(connection, (c) => c.notifyDrained()),
      goodbye: (connection) => this.#retire(connection),
    };
  }

  #onEstablished(connection: SealedConnection, dialed: PeerChannel | undefined): void {
    const { peer } = connection.mux;
    const isFirst = !this.#live.has(peer.id);
    const { retire, close } = this.#live.add(connection);
    this.#context.mux.counters.add('connections.established');
    if (dialed !== undefined) dialed.dialing = false;
    for (const old of close) {
      old.retired = true;
      old.close('superseded by a later start of that node');
    }
    if (connection.auxiliary) return retire.forEach((old) => old.retire());
    if (isFirst) this.#emit({ kind: 'connected', peer });
    const best = this.#live.usable(peer.id) ?? connection;
    for (const old of retire) old.retire();
    this.#use(best, dialed);
    const advertised = peer.port === 0 ? undefined : this.#channels.get(peer);
    if (advertised !== undefined && advertised !== dialed) this.#use(best, advertised);
    for (const old of retire) this.#eachChannelOf(old, (channel) => this.#use(best, channel));
  }

  #use(connection: SealedConnection, channel: PeerChannel | undefined): void {
    if (channel === undefined) return;
    const current = channel.connection;
    // A node that advertises the address of another node must not take over its working connection.
    if (current?.open === true && !current.retired && current.mux.peer.id !== connection.mux.peer.id) return;
    channel.connection = connection;
    channel.failures = 0;
    channel.retryAtMs = 0;
    for (const item of channel.dequeueAll()) this.#send(connection, item);
    channel.notifyDrained();
  }

  #send(connection: SealedConnection, item: QueuedItem): void {
    const nowMs = this.#context.clock.nowMs();
    connection.lastUsedMs = nowMs;
    if (item.kind === 'notify') {
      connection.mux.notify(item.body);
    } else if (item.kind === 'request') {
      if (item.isCompleted) return;
      const id = connection.mux.request(item.body, nowMs, item.deadlineMs - nowMs, item.done);
      if (id === undefined) completeQueuedRequest(item, failure('CAPACITY', queueFullText));
      else item.sent = { connection, id };
    } else if (!item.stream.hasFailed) {
      const inner = connection.mux.open(item.body, item.stream.events);
      if (inner === undefined) item.stream.fail(failure('CAPACITY', 'too many streams'));
      else item.stream.attach(inner);
    }
  }

  #detach(connection: SealedConnection): void {
    const { peer } = connection;
    this.#connections.delete(connection);
    this.#live.remove(connection);
    const next = peer === undefined ? undefined : this.#live.usable(peer.id);
    this.#eachChannelOf(connection, (channel) => {
      channel.connection = next;
      channel.notifyDrained();
    });
  }

  #onClosed(connection: SealedConnection, dialed: PeerChannel | undefined, reason: string, cause?: unknown): void {
    const { peer, auxiliary } = connection;
    if (dialed?.dialing === true) {
      const isVersion = isRemusterError(cause, 'INCOMPATIBLE_VERSION');
      const text = `closed during the handshake (${reason}): do both nodes have the same secret and cluster name?`;
      this.#onDialFailed(dialed, isVersion ? cause : unreachable(text));
    }
    const graceful = connection.retired || connection.peerLeft || this.#closed;
    const wasLast = peer !== undefined && !auxiliary && !this.#live.has(peer.id);
    if (wasLast) this.#emit({ kind: 'disconnected', peer, reason, graceful });
  }

  /** Stops using the connection for anything new; it closes when both sides have retired it. */
  #retire(connection: SealedConnection): void {
    connection.retire();
    const next = this.#live.usable(connection.mux.peer.id);
    this.#eachChannelOf(connection, (channel) => {
      channel.connection = next;
    });
  }

  #eachChannelOf(connection: SealedConnection, visit: (channel: PeerChannel) => void): void {
    for (const channel of this.#channels) if (channel.connection === connection) visit(channel);
  }

  #emit(change: ConnectionChange): void {
    for (const watcher of this.#watchers) this.#guarded(() => watcher(change));
  }

  #guarded(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#context.mux.counters.add('handlers.failed');
      this.#context.mux.log('error', 'a handler of the transport failed', { error: String(error) });
    }
  }

  #expire(nowMs: number): number {
    let next = Infinity;
    for (const connection of this.#live) {
      connection.mux.expire(nowMs);
      next = Math.min(next, connection.mux.earliestMs);
    }
    for (const channel of this.#channels) {
      channel.expire(nowMs);
      next = Math.min(next, channel.earliestMs());
    }
    return next;
  }

  #scheduleSweep(): void {
    const { clock, mux } = this.#context;
    const intervalMs = Math.max(5, mux.limits.keepaliveMs / 2);
    this.#sweep = clock.schedule(intervalMs, () => {
      const nowMs = clock.nowMs();
      for (const connection of [...this.#live]) this.#check(connection, nowMs);
      if (!this.#closed) this.#scheduleSweep();
    });
  }

  /**
   * Detects half-open connections by pings, sooner while requests are in flight, and retires idle ones. Only an
   * unanswered ping counts against a connection: without traffic an idle one is healthy.
   */
  #check(connection: SealedConnection, nowMs: number): void {
    const { keepaliveMs, silenceMsMax, idleMsMax } = this.#context.mux.limits;
    const silentMs = nowMs - connection.lastReceivedMs;
    const pingAfterMs = connection.mux.idle ? idleKeepaliveRatio * keepaliveMs : keepaliveMs;
    if (connection.finished) connection.close('no longer used');
    else if (connection.unansweredMs(nowMs) >= silenceMsMax - keepaliveMs) connection.close('no reply to a ping');
    else if (silentMs >= pingAfterMs) connection.ping(nowMs);
    if (connection.open && connection.mux.idle && nowMs - connection.lastUsedMs >= idleMsMax) this.#retire(connection);
  }
}

/**
 * An idle connection is pinged after this many keepalive intervals: more than the interval of membership messages to
 * neighbours, so that these connections need no pings.
 */
const idleKeepaliveRatio = 8;

function noop(): void {}

function unreachable(text: string): RemusterError {
  return new RemusterError('UNREACHABLE', text);
}
