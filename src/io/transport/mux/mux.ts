/**
 * Multiplexer of one connection: requests, replies, notifications and streams as segments. Owns no socket and no timer.
 *
 *   outbound request -> pending slot -> queue ... reply -> slot -> done
 *   inbound request  -> serving slot -> service -> reply, unless the peer has cancelled it
 */
import {
  type Done,
  type ErrorCode,
  parseErrorCode,
  parseStateChanged,
  serializeError,
  failure,
  type Outcome,
  RemusterError,
  success,
} from '../../../base/errors.ts';
import type { ByteStream, ByteStreamEvents, Identity } from '../../../base/ports.ts';
import { LargeMessages } from './large-messages.ts';
import type { MuxContext } from './mux-context.ts';
import { PendingRequests, pendingRequestsMax } from './pending-requests.ts';
import { countSegments, segmentKinds, readSegments } from './segment.ts';
import { chunkBytes, SendQueue } from './send-queue.ts';
import { StreamTable } from './stream-table.ts';
import type { TokenBucket } from '../shared/token-bucket.ts';

const emptyBytes = new Uint8Array(0);
const errorMessageMax = 512;
const slotMask = pendingRequestsMax - 1;

/** With at least so many requests in flight, half of the next ones are flushed early (see `#planEarlyFlush`). */
const earlyFlushRequestsMin = 32;

export type MuxEvents = {
  /** The queue is not empty: flush at the end of the read or turn. */
  readonly wake: () => void;
  /** Flush now: the peer has no work left. */
  readonly flush: () => void;
  /** The peer broke the protocol, found outside the read of a frame. */
  readonly onProtocolError: (error: RemusterError) => void;
  readonly goodbye: () => void;
};

export class Mux {
  readonly peer: Identity;
  readonly queue = new SendQueue();
  readonly #context: MuxContext;
  readonly #events: MuxEvents;
  readonly #pending: PendingRequests;
  /** Ids of the peer's requests that are being served, by slot; 0 is a free slot. */
  readonly #serving: number[] = [];
  #servingCount = 0;
  readonly #large: LargeMessages;
  readonly #streams: StreamTable;
  readonly #bucket: TokenBucket;
  #nowMs = 0;
  /** Requests in the queue that are not in a frame yet. */
  #requestsQueued = 0;
  /** How many more requests to queue before an early flush; 0: no early flush. */
  #requestsUntilFlush = 0;
  #open = true;

  constructor(peer: Identity, context: MuxContext, events: MuxEvents) {
    this.peer = peer;
    this.#context = context;
    this.#events = events;
    this.#bucket = context.bucket(peer);
    this.#pending = new PendingRequests(context.limits.requestsInFlightMax);
    this.#streams = new StreamTable({
      queue: this.queue,
      streamsMax: context.limits.streamsMax,
      wake: events.wake,
      guarded: (run) => this.#guarded(run),
    });
    this.#large = new LargeMessages(context, this.queue, {
      wake: events.wake,
      onProtocolError: events.onProtocolError,
      received: (kind, id, argument, body) => this.#onMessage(kind, id, argument, body),
      refused: (kind, id, code) => this.#onLargeRefused(kind, id, code),
      unsendable: (kind, id, code) => this.#onUnsendable(kind, id, code),
    });
  }

  get earliestMs(): number {
    return this.#pending.earliestMs;
  }

  /** Nothing is in flight in either direction. */
  get idle(): boolean {
    return this.#pending.count === 0 && this.#servingCount === 0 && this.#streams.count === 0 && this.queue.empty;
  }

  get hasRoom(): boolean {
    return this.queue.bytes < this.#context.limits.sendQueueBytesMax;
  }

  /** Returns the id for `abandon`, or undefined if there is no room and nothing was sent. */
  request(body: Uint8Array, nowMs: number, timeoutMs: number, done: Done<Uint8Array>): number | undefined {
    if (this.#pending.full || !this.hasRoom) return undefined;
    const id = this.#pending.add(done, nowMs + timeoutMs);
    const argument = Math.min(0xffff_ffff, Math.max(0, Math.round(timeoutMs)));
    this.#requestsQueued += 1;
    this.#send(segmentKinds.request, id, argument, body);
    if (this.#requestsUntilFlush > 0 && --this.#requestsUntilFlush === 0) this.#events.flush();
    return id;
  }

  /** Ends a request with the given outcome and cancels it at the peer, unless it has ended already. */
  abandon(id: number, outcome: Outcome<Uint8Array>): void {
    const done = this.#pending.take(id);
    if (done === undefined) return;
    this.#large.abandon(id);
    this.queue.push(segmentKinds.cancel, 0, id, 0, emptyBytes);
    this.#events.wake();
    this.#guarded(() => done(outcome));
  }

  notify(body: Uint8Array): boolean {
    if (!this.hasRoom) return false;
    this.#send(segmentKinds.notify, 0, 0, body);
    return true;
  }

  open(opening: Uint8Array, events: ByteStreamEvents): ByteStream | undefined {
    return this.#streams.open(opening, events);
  }

  /** Sends a segment of the transport itself: ping, pong, goodbye, session. */
  control(kind: number, body: Uint8Array = emptyBytes): void {
    this.queue.push(kind, 0, 0, 0, body);
    this.#events.wake();
  }

  receive(frame: Uint8Array, nowMs: number): void {
    this.#nowMs = nowMs;
    this.#planEarlyFlush(frame);
    readSegments(frame, this.#onSegment);
    this.#streams.grantCredit();
  }

  takeFrame(): Uint8Array | undefined {
    this.#requestsQueued = 0;
    this.#requestsUntilFlush = 0;
    return this.queue.next();
  }

  /**
   * A caller with many requests in flight tends to get all replies in one frame and to send all next requests in one:
   * then the two sides alternate, and one is always idle. So when a frame replies to everything in flight, half as many
   * next requests are flushed early, during the read or right after it. From then on both sides work concurrently.
   */
  #planEarlyFlush(frame: Uint8Array): void {
    const inFlight = this.#pending.count - this.#requestsQueued;
    const isAllReplied = inFlight >= earlyFlushRequestsMin && countSegments(frame) >= inFlight;
    this.#requestsUntilFlush = isAllReplied ? inFlight >> 1 : 0;
  }

  expire(nowMs: number): void {
    for (const id of this.#pending.due(nowMs)) this.abandon(id, failure('DEADLINE'));
  }

  /** The connection is lost: pending requests may have been executed. */
  end(reason: string): void {
    if (!this.#open) return;
    this.#open = false;
    this.#large.clear();
    const outcome = failure('NETWORK_TIMEOUT', `the connection was lost before the reply: ${reason}`);
    for (const id of this.#pending.ids()) {
      const done = this.#pending.take(id);
      if (done !== undefined) this.#guarded(() => done(outcome));
    }
    this.#streams.failAll(outcome);
  }

  #send(kind: number, id: number, argument: number, body: Uint8Array): void {
    this.#context.counters.traffic['messages.sent'] += 1;
    if (body.length <= chunkBytes) this.queue.push(kind, 0, id, argument, body);
    else this.#large.send({ kind, flags: 0, id, argument }, body);
    this.#events.wake();
  }

  readonly #onSegment = (kind: number, flags: number, id: number, argument: number, body: Uint8Array): void => {
    switch (kind) {
      case segmentKinds.request:
      case segmentKinds.reply:
      case segmentKinds.notify:
        return this.#onMessage(kind, id, argument, body);
      case segmentKinds.error:
        // The reply may come before all parts of the request are sent.
        this.#large.abandon(id);
        return this.#complete(id, { ok: false, error: readError(body) });
      case segmentKinds.cancel:
        this.#large.onCancel(id);
        return this.#stopServing(id);
      case segmentKinds.open:
        return this.#onOpen(id, body);
      case segmentKinds.data:
      case segmentKinds.credit:
      case segmentKinds.end:
      case segmentKinds.abort:
        return this.#streams.receive(kind, flags, id, argument, body);
      case segmentKinds.begin:
      case segmentKinds.part:
      case segmentKinds.drop:
        return this.#large.receive(kind, id, argument, body);
      case segmentKinds.ping:
        return this.control(segmentKinds.pong);
      case segmentKinds.session:
        return this.#context.onSessionAnnouncement(this.peer, body);
      case segmentKinds.goodbye:
        return this.#events.goodbye();
      default:
        // A pong has no content: any received byte answers a ping.
        return undefined;
    }
  };

  #onMessage(kind: number, id: number, argument: number, body: Uint8Array): void {
    this.#context.counters.traffic['messages.received'] += 1;
    if (kind === segmentKinds.reply) return this.#complete(id, success(body));
    const refusal = this.#checkMessage(body);
    if (kind === segmentKinds.request) return this.#onRequest(id, argument, body, refusal);
    const service = this.#context.service();
    if (refusal === undefined && service !== undefined) this.#guarded(() => service.notify(this.peer, body));
    return undefined;
  }

  /** Why the message is refused: rate limit or role. */
  #checkMessage(body: Uint8Array): RemusterError | undefined {
    const { counters } = this.#context;
    if (!this.#bucket.take(this.#nowMs)) {
      counters.reject('rateLimited');
      return new RemusterError('RATE_LIMITED');
    }
    const reason = this.#context.admit('stream', this.peer, body);
    if (reason === undefined) return undefined;
    counters.reject('role');
    return new RemusterError('FORBIDDEN', reason);
  }

  #onRequest(id: number, timeoutMs: number, body: Uint8Array, refusal: RemusterError | undefined): void {
    const slot = id & slotMask;
    if ((this.#serving[slot] ?? 0) !== 0 || id === 0) throw new RemusterError('MALFORMED', 'a request id is in use');
    const service = this.#context.service();
    if (refusal !== undefined) return this.#sendError(id, refusal);
    // Without room for the reply the request is not started.
    const isFull = this.#servingCount >= this.#context.limits.requestsInboundMax || !this.hasRoom;
    if (service === undefined || isFull) {
      this.#context.counters.reject('capacity');
      return this.#sendError(id, new RemusterError('CAPACITY'));
    }
    while (this.#serving.length <= slot) this.#serving.push(0);
    this.#serving[slot] = id;
    this.#servingCount += 1;
    const reply = (outcome: Outcome<Uint8Array>): void => this.#reply(id, outcome);
    try {
      service.request(this.peer, body, timeoutMs, reply);
    } catch (error) {
      this.#onHandlerError(error);
      reply(failure('INTERNAL'));
    }
    return undefined;
  }

  /** Ignores a second reply and one to a cancelled request: the slot is free or has another id. */
  #reply(id: number, outcome: Outcome<Uint8Array>): void {
    if (this.#serving[id & slotMask] !== id) return this.#context.counters.add('replies.ignored');
    this.#stopServing(id);
    if (!this.#open) return undefined;
    if (!outcome.ok) return this.#sendError(id, outcome.error);
    return this.#send(segmentKinds.reply, id, 0, outcome.value);
  }

  #stopServing(id: number): void {
    const slot = id & slotMask;
    if (this.#serving[slot] !== id) return;
    this.#serving[slot] = 0;
    this.#servingCount -= 1;
  }

  #sendError(id: number, error: unknown): void {
    const { code, message, stateChanged } = serializeError(error);
    const text = new TextEncoder().encode(`${code}\n${stateChanged}\n${message.slice(0, errorMessageMax)}`);
    this.queue.push(segmentKinds.error, 0, id, 0, text);
    this.#events.wake();
  }

  #complete(id: number, outcome: Outcome<Uint8Array>): void {
    const done = this.#pending.take(id);
    // The request has reached its deadline or was cancelled.
    if (done === undefined) return this.#context.counters.add('replies.late');
    try {
      done(outcome);
    } catch (error) {
      this.#onHandlerError(error);
    }
    return undefined;
  }

  #onOpen(id: number, opening: Uint8Array): void {
    const service = this.#context.service();
    const refusal = this.#checkMessage(opening)?.message ?? (service === undefined ? 'not serving yet' : undefined);
    const end = this.#streams.accept(id, refusal);
    if (end === undefined || service === undefined) return;
    const isOpened = this.#guarded(() => {
      end.events = service.open(this.peer, opening, end);
    });
    if (!isOpened) end.abort('the handler of the stream failed');
  }

  #onLargeRefused(kind: number, id: number, code: ErrorCode): void {
    if (kind === segmentKinds.request) this.#sendError(id, new RemusterError(code, undefined, 'no'));
    else if (kind === segmentKinds.reply)
      this.#complete(id, failure(code, 'this node has no memory left to receive the large reply', 'maybe'));
  }

  #onUnsendable(kind: number, id: number, code: ErrorCode): void {
    if (kind === segmentKinds.reply)
      this.#sendError(id, new RemusterError('TOO_LARGE', 'the reply exceeds the message limit', 'maybe'));
    else if (kind === segmentKinds.request) this.#complete(id, failure(code, undefined, 'no'));
  }

  #guarded(run: () => void): boolean {
    try {
      run();
      return true;
    } catch (error) {
      this.#onHandlerError(error);
      return false;
    }
  }

  #onHandlerError(error: unknown): void {
    this.#context.counters.add('handlers.failed');
    this.#context.log('error', 'a handler of the transport failed', { error: String(error) });
  }
}

function readError(body: Uint8Array): RemusterError {
  const text = new TextDecoder().decode(body);
  const codeEnd = text.indexOf('\n');
  const stateEnd = text.indexOf('\n', codeEnd + 1);
  const code = parseErrorCode(text.slice(0, Math.max(0, codeEnd)));
  const message = text.slice(stateEnd + 1, stateEnd + 1 + errorMessageMax);
  return new RemusterError(code, message, parseStateChanged(text.slice(codeEnd + 1, Math.max(0, stateEnd))));
}
