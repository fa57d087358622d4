/**
 * One TCP connection: handshake, then sealed frames between socket and multiplexer. A failure ends this connection
 * only; a stranger gets no reply.
 *
 *   hello -> greeting -> open -> closed         each but the last within `handshakeMs`
 *
 * Sending: everything queued within one turn of the loop leaves in as few frames as possible. While bytes are being
 * read, the flush waits for the end of the read; otherwise for the end of the turn. When the socket is full nothing
 * more is sealed, so that a small message never waits behind more than what the kernel already holds and one frame.
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
  readonly refusals: RejectionLog;
  readonly cluster: string;
  readonly seenSalts: SeenSalts;
  self(): Identity;
  ring(): KeyRing;
  /** What is said about datagram sessions in a greeting. */
  sessions(): Uint8Array;
  /** Ours are connections beside those of the node itself. */
  readonly aside: boolean;
};

export type SealedConnectionEvents = {
  /** Throws Refused if this peer is not wanted. */
  established(connection: SealedConnection): void;
  /** Nothing new may go this way. Called before those who wait for answers hear that none will come: they ask again. */
  parting(connection: SealedConnection): void;
  /** Called once. `peer` is known if the connection was established. */
  /** `cause`: the error that ended it, if one did. */
  closed(connection: SealedConnection, reason: string, cause?: unknown): void;
  /** The queue has room again. */
  drained(connection: SealedConnection): void;
  /** The peer will ask nothing more over this connection. */
  goodbye(connection: SealedConnection): void;
};

type Phase = 'hello' | 'greeting' | 'open' | 'closed';

/** Frames per turn: a huge backlog must not hold up the loop. */
const framesPerTurnMax = 16;
/** How long an orderly end may wait for the peer to take the last bytes. */
const lingerMs = 500;

export class SealedConnection {
  readonly side: 'client' | 'server';
  lastReceivedMs: number;
  lastUsedMs: number;
  /** No new requests; closed when both sides have said goodbye and nothing is under way. */
  retired = false;
  peerLeft = false;
  /** The peer only asks over this one; what we have to say goes another way. */
  aside = false;
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
  #overdue: Cancel | undefined;
  #pingedMs: number | undefined;
  #reading = false;
  #flushDue = false;
  #blocked = false;
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
    this.#overdue = context.clock.schedule(context.mux.limits.handshakeMs, () =>
      this.#refuse(new RejectedError('handshakeTimeout')),
    );
    socket.setNoDelay(true);
    receive(socket, (chunk) => this.#receive(chunk));
    socket.on('drain', () => this.#unblocked());
    socket.on('error', (error: NodeJS.ErrnoException) => this.close(error.code ?? 'socket error'));
    socket.on('close', () => this.close('closed by the peer'));
    socket.on('end', () => this.close('closed by the peer'));
    if (side === 'client') this.#sayHello();
  }

  /** Only after `established`. */
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

  /** Once, until something is heard again. */
  ping(nowMs: number): void {
    if (this.#pingedMs !== undefined) return;
    this.#pingedMs = nowMs;
    this.mux.control(segmentKinds.ping);
  }

  /** Since the ping after which nothing was heard; 0 if there is none. */
  unansweredMs(nowMs: number): number {
    return this.#pingedMs === undefined ? 0 : nowMs - this.#pingedMs;
  }

  /** Asks for no more over this connection, and closes it as soon as the peer agrees. */
  retire(): void {
    if (this.retired) return;
    this.retired = true;
    this.mux.control(segmentKinds.goodbye);
  }

  /** True when nothing is lost by closing. */
  get finished(): boolean {
    return this.retired && this.peerLeft && this.mux.idle && this.#socket.writableLength === 0;
  }

  close(reason: string): void {
    this.#end(reason, () => this.#socket.destroy());
  }

  /** Sends what is queued, then closes; for an orderly end. */
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
    this.#overdue?.();
    shut();
    this.#events.parting(this);
    if (wasOpen) this.mux.end(reason);
    this.#events.closed(this, reason, cause);
  }

  #sayHello(): void {
    const master = this.#context.ring().current;
    this.#hello = { master, salt: randomBytes(saltBytes) };
    // A hello that somebody reflects to us is a recording like any other.
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
      if (rest.length > 0) this.#reader.read(rest, this.#frame);
    } catch (error) {
      this.#refuse(error);
    }
    this.#reading = false;
    if (this.#flushDue) this.#flush();
    this.#prepare();
  }

  /** The bytes are on their way; while the other side is busy with them, the next frames are prepared. */
  #prepare(): void {
    if (this.#phase !== 'open') return;
    this.#seals!.sealer.prepare();
    this.#seals!.opener.prepare();
  }

  /** Returns what follows the head. */
  #receiveHead(chunk: Uint8Array): Uint8Array {
    const head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk]);
    const needed = this.side === 'server' ? helloBytes : saltBytes;
    if (this.side === 'server') checkHelloStart(head);
    if (head.length < needed) {
      this.#head = new Uint8Array(head);
      return new Uint8Array(0);
    }
    if (this.side === 'server') this.#answerHello(head.subarray(0, needed));
    else this.#makeSeals(head.subarray(0, needed));
    this.#head = new Uint8Array(0);
    return head.subarray(needed);
  }

  #answerHello(bytes: Uint8Array): void {
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
    const { aside } = this.#context;
    return makeGreeting({ identity: this.#context.self(), sessions: this.#context.sessions(), auxiliary: aside });
  }

  readonly #frame = (sealed: Uint8Array): boolean => {
    const plain = openFrame(this.#seals!.opener, sealed);
    this.#context.mux.counters.traffic['frames.received'] += 1;
    if (this.#phase === 'open') this.#mux!.receive(plain, this.lastReceivedMs);
    else if (this.#phase === 'greeting') this.#greeted(plain);
    return this.#phase === 'open';
  };

  #greeted(plain: Uint8Array): void {
    const { cluster } = this.#context;
    const self = this.#context.self();
    const { sealer, opener } = this.#seals!;
    // Before theirs is read: a server of another version learns from it why this connection ends.
    if (this.side === 'client') this.#write(sealFrame(sealer, this.#greeting()));
    const { identity: peer, sessions, auxiliary } = readGreeting(plain);
    if (peer.id === self.id) throw new RejectedError('self');
    sealer.bind(pairBinding(transportVersion, cluster, self, peer.id));
    opener.bind(pairBinding(transportVersion, cluster, peer, self.id));
    this.#overdue?.();
    this.aside = auxiliary;
    this.#phase = 'open';
    this.#mux = new Mux(peer, this.#context.mux, {
      wake: () => this.#wake(),
      flush: () => this.#flush(),
      broken: (error: RemusterError) => this.#refuse(error),
      goodbye: () => {
        this.peerLeft = true;
        this.#events.goodbye(this);
      },
    });
    this.#events.established(this);
    this.#context.mux.announced(peer, sessions);
  }

  #refuse(error: unknown): void {
    if (this.#phase === 'closed') return;
    const reason = rejectionReasonOf(error);
    if (reason !== undefined) this.#context.refusals.count(reason, this.#from, detailOf(error));
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
    this.#balance(wasFull);
  }

  /** Who does not read what we answer is not listened to either. */
  #balance(wasFull: boolean): void {
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
    // A corked socket says no too early; only what is still there after the write counts.
    this.#blocked = !fits && this.#socket.writableNeedDrain && this.#socket.writableLength > 0;
  }

  #unblocked(): void {
    this.#blocked = false;
    this.#flush();
  }
}
