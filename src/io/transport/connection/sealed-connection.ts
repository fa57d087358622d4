/**
 * One TCP connection: handshake, then sealed frames between socket and multiplexer. A failure ends this connection
 * only; an unauthenticated peer gets no reply.
 *
 *   hello -> greeting -> open -> closed         open within `handshakeMs`
 *
 * Everything queued within one turn of the event loop is sent in as few frames as possible: the flush happens at the
 * end of a read, or else at the end of the turn. While the socket is full no frame is sealed, so a small message waits
 * for at most one frame and the bytes that the kernel already has.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

import type { RemusterError } from '../../../base/errors.ts';
import type { Cancel, Clock, Identity } from '../../../base/ports.ts';
import { SealedFrameReader, openFrame, sealFrame } from '../mux/sealed-frame.ts';
import {
  checkHelloStart,
  helloBytes,
  makeGreeting,
  makeHello,
  makeSealPair,
  readGreeting,
  readHello,
  saltBytes,
  type SealPair,
  type SeenSalts,
} from '../crypto/handshake.ts';
import { pairBinding } from '../crypto/identity-codec.ts';
import { type KeyRing, type MasterKey, transportVersion } from '../crypto/keys.ts';
import type { MuxContext } from '../mux/mux-context.ts';
import { Mux } from '../mux/mux.ts';
import { type RejectionLog, RejectedError, detailOf, rejectionReasonOf } from '../shared/rejections.ts';
import { segmentKinds } from '../mux/segment.ts';
import { receive } from '../shared/sockets.ts';

export type SealedConnectionContext = {
  readonly mux: MuxContext;
  readonly clock: Clock;
  readonly rejections: RejectionLog;
  readonly cluster: string;
  readonly seenSalts: SeenSalts;
  self(): Identity;
  ring(): KeyRing;
  /** The announcement of datagram sessions for the greeting. */
  sessions(): Uint8Array;
  /** Connections of this transport are auxiliary ones: of a further thread of the node. */
  readonly auxiliary: boolean;
};

export type SealedConnectionEvents = {
  /** Throws RejectedError to refuse this peer. */
  established(connection: SealedConnection): void;
  /** Called before pending requests fail, so that their retries take another connection. */
  closing(connection: SealedConnection): void;
  /** Called once. `peer` is known if the connection was established; `cause` is the error that ended it, if any. */
  closed(connection: SealedConnection, reason: string, cause?: unknown): void;
  /** The queue has room again. */
  drained(connection: SealedConnection): void;
  /** The peer sends no more requests over this connection. */
  goodbye(connection: SealedConnection): void;
};

type Phase = 'hello' | 'greeting' | 'open' | 'closed';

/** Bounds the time that a large backlog blocks the event loop. */
const framesPerTurnMax = 16;
/** How long `finish` waits for the peer to read the last bytes. */
const lingerMs = 500;

export class SealedConnection {
  readonly side: 'client' | 'server';
  lastReceivedMs: number;
  lastUsedMs: number;
  /** No new requests; closed when both sides have sent goodbye and nothing is in flight. */
  retired = false;
  /** The peer has sent goodbye. */
  peerLeft = false;
  /** The peer opened it for its own requests only; requests to the peer take another connection. */
  auxiliary = false;
  readonly #socket: Socket;
  readonly #context: SealedConnectionContext;
  readonly #events: SealedConnectionEvents;
  readonly #reader = new SealedFrameReader();
  readonly #from: string;
  #phase: Phase = 'hello';
  #head: Uint8Array = new Uint8Array(0);
  #hello: { master: MasterKey; salt: Uint8Array } | undefined;
  #seals: SealPair | undefined;
  #mux: Mux | undefined;
  #cancelHandshakeTimeout: Cancel | undefined;
  #pingedMs: number | undefined;
  #reading = false;
  #flushDue = false;
  /** The socket is full: wait for `drain`. */
  #blocked = false;
  /** The socket is not read, because the send queue is full. */
  #paused = false;

  constructor(
    side: 'client' | 'server',
    socket: Socket,
    context: SealedConnectionContext,
    events: SealedConnectionEvents,
  ) {
    this.side = side;
    this.#socket = socket;
    this.#context = context;
    this.#events = events;
    this.#from = `${socket.remoteAddress ?? '?'}:${socket.remotePort ?? 0}`;
    this.lastReceivedMs = context.clock.nowMs();
    this.lastUsedMs = this.lastReceivedMs;
    this.#cancelHandshakeTimeout = context.clock.schedule(context.mux.limits.handshakeMs, () =>
      this.#reject(new RejectedError('handshakeTimeout')),
    );
    socket.setNoDelay(true);
    receive(socket, (chunk) => this.#receive(chunk));
    socket.on('drain', () => this.#onDrain());
    socket.on('error', (error: NodeJS.ErrnoException) => this.close(error.code ?? 'socket error'));
    socket.on('close', () => this.close('closed by the peer'));
    socket.on('end', () => this.close('closed by the peer'));
    if (side === 'client') this.#sendHello();
  }

  /** Available after `established`. */
  get mux(): Mux {
    return this.#mux!;
  }

  get peer(): Identity | undefined {
    return this.#mux?.peer;
  }

  get open(): boolean {
    return this.#phase === 'open';
  }

  get hasRoom(): boolean {
    return this.mux.hasRoom;
  }

  /** Sends one ping, and no further one until bytes are received. */
  ping(nowMs: number): void {
    if (this.#pingedMs !== undefined) return;
    this.#pingedMs = nowMs;
    this.mux.control(segmentKinds.ping);
  }

  /** Time since a ping after which no byte was received; 0 if there is none. */
  unansweredMs(nowMs: number): number {
    return this.#pingedMs === undefined ? 0 : nowMs - this.#pingedMs;
  }

  /** Starts no more requests; the connection closes when the peer has retired it too. */
  retire(): void {
    if (this.retired) return;
    this.retired = true;
    this.mux.control(segmentKinds.goodbye);
  }

  /** Closing it loses nothing. */
  get finished(): boolean {
    return this.retired && this.peerLeft && this.mux.idle && this.#socket.writableLength === 0;
  }

  close(reason: string): void {
    this.#end(reason, () => this.#socket.destroy());
  }

  /** Sends the queue, then closes: for an orderly shutdown. */
  finish(reason: string): void {
    this.#flush();
    this.#end(reason, () => {
      this.#socket.destroySoon();
      this.#context.clock.schedule(lingerMs, () => this.#socket.destroy());
    });
  }

  #end(reason: string, shut: () => void, cause?: unknown): void {
    if (this.#phase === 'closed') return;
    const wasOpen = this.#phase === 'open';
    this.#phase = 'closed';
    this.#cancelHandshakeTimeout?.();
    shut();
    this.#events.closing(this);
    if (wasOpen) this.mux.end(reason);
    this.#events.closed(this, reason, cause);
  }

  #sendHello(): void {
    const master = this.#context.ring().current;
    this.#hello = { master, salt: randomBytes(saltBytes) };
    // A hello that is reflected to its sender counts as a replay.
    this.#context.seenSalts.set(Buffer.from(this.#hello.salt).toString('base64'), true);
    this.#write([makeHello(master, this.#context.cluster, this.#hello.salt)]);
  }

  /** The chunk is only valid during the call. */
  #receive(chunk: Uint8Array): void {
    if (this.#phase === 'closed') return;
    this.lastReceivedMs = this.#context.clock.nowMs();
    this.#pingedMs = undefined;
    this.#context.mux.counters.traffic['bytes.received'] += chunk.length;
    this.#reading = true;
    try {
      const rest = this.#phase === 'hello' ? this.#receiveHead(chunk) : chunk;
      if (rest.length > 0) this.#reader.read(rest, this.#onFrame);
    } catch (error) {
      this.#reject(error);
    }
    this.#reading = false;
    if (this.#flushDue) this.#flush();
    this.#prepare();
  }

  /** Prepares the ciphers of the next frames while the peer processes the last ones. */
  #prepare(): void {
    if (this.#phase !== 'open') return;
    this.#seals!.sealer.prepare();
    this.#seals!.opener.prepare();
  }

  /** Reads the hello or the server's salt; returns the bytes after it. */
  #receiveHead(chunk: Uint8Array): Uint8Array {
    const head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk]);
    const needed = this.side === 'server' ? helloBytes : saltBytes;
    if (this.side === 'server') checkHelloStart(head);
    if (head.length < needed) {
      this.#head = new Uint8Array(head);
      return new Uint8Array(0);
    }
    if (this.side === 'server') this.#onHello(head.subarray(0, needed));
    else this.#makeSeals(head.subarray(0, needed));
    this.#head = new Uint8Array(0);
    return head.subarray(needed);
  }

  #onHello(bytes: Uint8Array): void {
    const { cluster, seenSalts } = this.#context;
    this.#hello = readHello(bytes, this.#context.ring(), cluster, seenSalts);
    const salt = randomBytes(saltBytes);
    const { sealer } = this.#makeSeals(salt);
    this.#write([salt, ...sealFrame(sealer, this.#greeting())]);
  }

  #makeSeals(serverSalt: Uint8Array): SealPair {
    const { master, salt } = this.#hello!;
    this.#seals = makeSealPair(this.side, master, this.#context.cluster, { client: salt, server: serverSalt });
    this.#phase = 'greeting';
    return this.#seals;
  }

  #greeting(): Buffer {
    const { auxiliary } = this.#context;
    return makeGreeting({ identity: this.#context.self(), sessions: this.#context.sessions(), auxiliary });
  }

  readonly #onFrame = (sealed: Uint8Array): boolean => {
    const plain = openFrame(this.#seals!.opener, sealed);
    this.#context.mux.counters.traffic['frames.received'] += 1;
    if (this.#phase === 'open') this.#mux!.receive(plain, this.lastReceivedMs);
    else if (this.#phase === 'greeting') this.#onGreeting(plain);
    return this.#phase === 'open';
  };

  #onGreeting(plain: Uint8Array): void {
    const { cluster } = this.#context;
    const self = this.#context.self();
    const { sealer, opener } = this.#seals!;
    // Sent before the peer's is read, so that a server of another version can report why the connection ends.
    if (this.side === 'client') this.#write(sealFrame(sealer, this.#greeting()));
    const { identity: peer, sessions, auxiliary } = readGreeting(plain);
    if (peer.id === self.id) throw new RejectedError('self');
    sealer.bind(pairBinding(transportVersion, cluster, self, peer.id));
    opener.bind(pairBinding(transportVersion, cluster, peer, self.id));
    this.#cancelHandshakeTimeout?.();
    this.auxiliary = auxiliary;
    this.#phase = 'open';
    this.#mux = new Mux(peer, this.#context.mux, {
      wake: () => this.#wake(),
      flush: () => this.#flush(),
      onProtocolError: (error: RemusterError) => this.#reject(error),
      goodbye: () => {
        this.peerLeft = true;
        this.#events.goodbye(this);
      },
    });
    this.#events.established(this);
    this.#context.mux.onSessionAnnouncement(peer, sessions);
  }

  #reject(error: unknown): void {
    if (this.#phase === 'closed') return;
    const reason = rejectionReasonOf(error);
    if (reason !== undefined) this.#context.rejections.count(reason, this.#from, detailOf(error));
    else this.#context.mux.log('error', 'a connection failed', { error: String(error), from: this.#from });
    this.#end(reason ?? 'internal error', () => this.#socket.destroy(), error);
  }

  #wake(): void {
    if (this.#flushDue) return;
    this.#flushDue = true;
    if (!this.#reading && !this.#blocked) setImmediate(this.#flushLater);
  }

  readonly #flushLater = (): void => {
    if (!this.#flushDue || this.#reading) return;
    this.#flush();
    this.#prepare();
  };

  #flush(): void {
    this.#flushDue = false;
    if (this.#phase !== 'open') return;
    const mux = this.#mux!;
    const wasFull = !mux.hasRoom;
    for (let frames = 0; !this.#blocked; frames++) {
      if (frames === framesPerTurnMax) {
        this.#flushDue = true;
        setImmediate(this.#flushLater);
        break;
      }
      const plain = mux.takeFrame();
      if (plain === undefined) break;
      this.#context.mux.counters.traffic['frames.sent'] += 1;
      this.#write(sealFrame(this.#seals!.sealer, plain));
    }
    this.#applyBackpressure(wasFull);
  }

  /** Backpressure: does not read from a peer that does not read its replies. */
  #applyBackpressure(wasFull: boolean): void {
    const isFull = !this.#mux!.hasRoom;
    if (isFull !== this.#paused) {
      this.#paused = isFull;
      if (isFull) this.#socket.pause();
      else this.#socket.resume();
    }
    if (wasFull && !isFull) this.#events.drained(this);
  }

  #write(pieces: Buffer[]): void {
    let bytes = 0;
    let fits = true;
    if (pieces.length > 1) this.#socket.cork();
    for (const piece of pieces) {
      bytes += piece.length;
      fits = this.#socket.write(piece);
    }
    if (pieces.length > 1) this.#socket.uncork();
    this.#context.mux.counters.traffic['bytes.sent'] += bytes;
    // A corked socket reports "full" too early: only bytes that remain after the write count.
    this.#blocked = !fits && this.#socket.writableNeedDrain && this.#socket.writableLength > 0;
  }

  #onDrain(): void {
    this.#blocked = false;
    this.#flush();
  }
}
