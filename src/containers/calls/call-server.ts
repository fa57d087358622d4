/**
 * Handles call messages of other nodes and clients: runs calls of its own containers, routes calls of clients, reports
 * the status of a call. Its only state is the number of open result streams.
 */
import {
  type Done,
  type Outcome,
  type RemusterError,
  failure,
  isRemusterError,
  success,
  withPossibleEffect,
} from '../../base/errors.ts';
import type { ByteStream, ByteStreamEvents, Cancel, Clock, Identity } from '../../base/ports.ts';
import type { CallMessage, CallMessageOf } from '../../messages/calls.ts';
import type {
  AddressTable,
  IncomingCall,
  CallOutput,
  CallResult,
  ContainerCalls,
  ContainerHosting,
} from '../contract.ts';
import { ResultStreamWriter } from './result-stream-writer.ts';
import { discardOutput } from './container-call.ts';
import {
  encodeCallMessage,
  callIdFields,
  routeCallReplyOf,
  routeFromWire,
  truncateErrorText,
  routeCallFromMessage,
} from './call-messages.ts';

export type CallServerParts = {
  readonly ports: {
    readonly clock: Clock;
    readonly table: AddressTable;
    readonly hosting: ContainerHosting | undefined;
  };
  readonly calls: Pick<ContainerCalls, 'call'>;
  readonly streamsMax: number;
};

const notCancellable: Cancel = () => {};

export class CallServer {
  readonly #parts: CallServerParts;
  #openStreams = 0;

  constructor(parts: CallServerParts) {
    this.#parts = parts;
  }

  /** False for a message of another protocol. */
  handle(_from: Identity, message: CallMessage, remainingMs: number, reply: Done<Uint8Array>): boolean {
    if (message.kind === 'call') this.#runCall(message, remainingMs, reply);
    else if (message.kind === 'routeCall') this.#routeCall(message, remainingMs, reply);
    else if (message.kind === 'queryCallStatus')
      reply(encodeCallMessage({ kind: 'queryCallStatusReply', status: this.#callStatus(message) }));
    else return false;
    return true;
  }

  openedResultStream(
    _from: Identity,
    opening: CallMessageOf<'openResultStream'>,
    stream: ByteStream,
  ): ByteStreamEvents {
    const { ports, streamsMax } = this.#parts;
    const isFull = this.#openStreams >= streamsMax;
    this.#openStreams += 1;
    const writer = new ResultStreamWriter(stream, {
      clock: ports.clock,
      timeoutMs: opening.timeoutMs,
      ended: () => (this.#openStreams -= 1),
      start: (args, done) => {
        if (!isFull) return this.#startStream(opening, args, done);
        done(failure('CAPACITY', `this node sends ${streamsMax} result streams, its maximum`));
        return notCancellable;
      },
    });
    return writer.events;
  }

  #runCall(message: CallMessageOf<'call'>, remainingMs: number, reply: Done<Uint8Array>): void {
    const { table, hosting } = this.#parts.ports;
    const { container, method, args, lowestPending } = message;
    const pool = table.poolByNumber(message.pool);
    const sendReply = (outcome: Outcome<CallOutput>): void => reply(this.#replyTo(message, outcome));
    if (pool === undefined) return sendReply(failure('UNKNOWN_POOL', `there is no pool with number ${message.pool}`));
    if (hosting === undefined) return sendReply(failure('STALE_TABLE', 'this node owns no containers'));
    hosting.call({ pool, container, method, args, id: callIdFields(message), lowestPending, remainingMs }, sendReply);
  }

  #replyTo(message: CallMessageOf<'call'>, outcome: Outcome<CallOutput>): Outcome<Uint8Array> {
    const { table } = this.#parts.ports;
    const pool = table.poolByNumber(message.pool);
    const version = pool === undefined ? 0 : table.versionOf(pool, message.container);
    if (outcome.ok) {
      const value = 'value' in outcome.value ? outcome.value.value : undefined;
      // The generator has not started: opening the result stream calls the method again.
      discardOutput(outcome.value);
      const bytes = encodeCallMessage({ kind: 'callReply', version, value });
      return bytes.ok ? bytes : this.#replyTo(message, failedAfterRun(bytes.error));
    }
    const { code, message: text, stateChanged } = outcome.error;
    const isStale = code === 'STALE_TABLE' && pool !== undefined;
    const owner = isStale ? table.ownerOf(pool, message.container) : undefined;
    return encodeCallMessage({
      kind: 'callError',
      code,
      message: truncateErrorText(text),
      owner,
      version: isStale ? version : 0,
      stateChanged,
    });
  }

  #routeCall(message: CallMessageOf<'routeCall'>, remainingMs: number, reply: Done<Uint8Array>): void {
    const sendReply = (outcome: Outcome<CallResult>): void => {
      if (outcome.ok && 'stream' in outcome.value) discardOutput(outcome.value);
      const bytes = encodeCallMessage(routeCallReplyOf(outcome));
      reply(bytes.ok ? bytes : encodeCallMessage(routeCallReplyOf(failedAfterRun(bytes.error))));
    };
    const routed = attempted(() => routeCallFromMessage(message, remainingMs));
    if (routed.ok) this.#parts.calls.call(routed.value, sendReply);
    else sendReply(routed);
  }

  #callStatus(message: CallMessageOf<'queryCallStatus'>): 'waiting' | 'running' | 'unknown' {
    const { table, hosting } = this.#parts.ports;
    const pool = table.poolByNumber(message.pool);
    if (pool === undefined || hosting === undefined) return 'unknown';
    return hosting.callStatus({ pool, container: message.container, id: callIdFields(message) });
  }

  #startStream(opening: CallMessageOf<'openResultStream'>, args: Uint8Array, done: Done<CallOutput>): Cancel {
    const { pool, method, lowestPending, timeoutMs, retryTimeoutMs, hops } = opening;
    const route = attempted(() => routeFromWire(opening.route));
    if (!route.ok) {
      done(route);
      return notCancellable;
    }
    const id = callIdFields(opening);
    if (hops > 0)
      return this.#startLocalStream({ route: route.value, pool, method, args, id, lowestPending, timeoutMs }, done);
    const call = { pool, method, args, route: route.value, id, lowestPending, timeoutMs, retryTimeoutMs };
    return this.#parts.calls.call(call, (outcome) => {
      if (!outcome.ok) return done(outcome);
      if ('parts' in outcome.value)
        return done(
          failure('BAD_ARGUMENT', 'a result stream comes from one container: the route names several', 'maybe'),
        );
      done(success(outcome.value));
    });
  }

  #startLocalStream(
    call: Omit<IncomingCall, 'pool' | 'container' | 'remainingMs'> & {
      readonly pool: string;
      readonly timeoutMs: number;
      readonly route: ReturnType<typeof routeFromWire>;
    },
    done: Done<CallOutput>,
  ): Cancel {
    const { table, hosting } = this.#parts.ports;
    const { route, method, args, id, lowestPending, timeoutMs } = call;
    const pool = table.pool(call.pool);
    if (pool === undefined || hosting === undefined || !('id' in route)) {
      done(failure('STALE_TABLE', 'this node does not own the container'));
      return notCancellable;
    }
    return hosting.call({ pool, container: route.id, method, args, id, lowestPending, remainingMs: timeoutMs }, done);
  }
}

/** The method has run, but its result cannot be sent. */
function failedAfterRun(error: RemusterError): Outcome<never> {
  return { ok: false, error: withPossibleEffect(error) };
}

function attempted<T>(make: () => T): Outcome<T> {
  try {
    return success(make());
  } catch (error) {
    if (isRemusterError(error)) return { ok: false, error };
    throw error;
  }
}
