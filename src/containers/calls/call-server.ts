/**
 * Answers other nodes: runs calls for its own containers, routes calls for clients, reports the status of a call. Keeps
 * only the number of open result streams.
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
  readonly flowsMax: number;
};

const nothing: Cancel = () => {};

export class CallServer {
  readonly #parts: CallServerParts;
  #flows = 0;

  constructor(parts: CallServerParts) {
    this.#parts = parts;
  }

  /** False when the message is none of ours. */
  handle(_from: Identity, message: CallMessage, remainingMs: number, reply: Done<Uint8Array>): boolean {
    if (message.kind === 'call') this.#run(message, remainingMs, reply);
    else if (message.kind === 'routeCall') this.#find(message, remainingMs, reply);
    else if (message.kind === 'queryCallStatus')
      reply(encodeCallMessage({ kind: 'queryCallStatusReply', status: this.#standing(message) }));
    else return false;
    return true;
  }

  openedResultStream(
    _from: Identity,
    opening: CallMessageOf<'openResultStream'>,
    stream: ByteStream,
  ): ByteStreamEvents {
    const { ports, flowsMax } = this.#parts;
    const isTooMuch = this.#flows >= flowsMax;
    this.#flows += 1;
    const writer = new ResultStreamWriter(stream, {
      clock: ports.clock,
      timeoutMs: opening.timeoutMs,
      ended: () => (this.#flows -= 1),
      begin: (args, done) => {
        if (!isTooMuch) return this.#beginFlow(opening, args, done);
        done(failure('CAPACITY', `this node sends ${flowsMax} flows already`));
        return nothing;
      },
    });
    return writer.events;
  }

  #run(message: CallMessageOf<'call'>, remainingMs: number, reply: Done<Uint8Array>): void {
    const { table, hosting } = this.#parts.ports;
    const { container, method, args, lowestPending } = message;
    const pool = table.poolByNumber(message.pool);
    const answer = (outcome: Outcome<CallOutput>): void => reply(this.#answerOf(message, outcome));
    if (pool === undefined) return answer(failure('UNKNOWN_POOL', `there is no pool number ${message.pool}`));
    if (hosting === undefined) return answer(failure('STALE_TABLE', 'this node owns no containers'));
    hosting.call({ pool, container, method, args, id: callIdFields(message), lowestPending, remainingMs }, answer);
  }

  #answerOf(message: CallMessageOf<'call'>, outcome: Outcome<CallOutput>): Outcome<Uint8Array> {
    const { table } = this.#parts.ports;
    const pool = table.poolByNumber(message.pool);
    const version = pool === undefined ? 0 : table.versionOf(pool, message.container);
    if (outcome.ok) {
      const value = 'value' in outcome.value ? outcome.value.value : undefined;
      // It has not begun: whoever opens the flow has it made anew.
      discardOutput(outcome.value);
      const bytes = encodeCallMessage({ kind: 'callReply', version, value });
      return bytes.ok ? bytes : this.#answerOf(message, failedAfterRun(bytes.error));
    }
    const { code, message: words, stateChanged } = outcome.error;
    const isStale = code === 'STALE_TABLE' && pool !== undefined;
    const owner = isStale ? table.ownerOf(pool, message.container) : undefined;
    return encodeCallMessage({
      kind: 'callError',
      code,
      message: truncateErrorText(words),
      owner,
      version: isStale ? version : 0,
      stateChanged,
    });
  }

  #find(message: CallMessageOf<'routeCall'>, remainingMs: number, reply: Done<Uint8Array>): void {
    const told = (outcome: Outcome<CallResult>): void => {
      if (outcome.ok && 'flow' in outcome.value) discardOutput(outcome.value);
      const bytes = encodeCallMessage(routeCallReplyOf(outcome));
      reply(bytes.ok ? bytes : encodeCallMessage(routeCallReplyOf(failedAfterRun(bytes.error))));
    };
    const wanted = attempted(() => routeCallFromMessage(message, remainingMs));
    if (wanted.ok) this.#parts.calls.call(wanted.value, told);
    else told(wanted);
  }

  #standing(message: CallMessageOf<'queryCallStatus'>): 'waiting' | 'running' | 'unknown' {
    const { table, hosting } = this.#parts.ports;
    const pool = table.poolByNumber(message.pool);
    if (pool === undefined || hosting === undefined) return 'unknown';
    return hosting.callStatus({ pool, container: message.container, id: callIdFields(message) });
  }

  #beginFlow(opening: CallMessageOf<'openResultStream'>, args: Uint8Array, done: Done<CallOutput>): Cancel {
    const { pool, method, lowestPending, timeoutMs, retryTimeoutMs, hops } = opening;
    const route = attempted(() => routeFromWire(opening.route));
    if (!route.ok) {
      done(route);
      return nothing;
    }
    const id = callIdFields(opening);
    if (hops > 0) return this.#ownFlow({ route: route.value, pool, method, args, id, lowestPending, timeoutMs }, done);
    const call = { pool, method, args, route: route.value, id, lowestPending, timeoutMs, retryTimeoutMs };
    return this.#parts.calls.call(call, (outcome) => {
      if (!outcome.ok) return done(outcome);
      if ('parts' in outcome.value) return done(failure('BAD_ARGUMENT', 'a flow comes from one container', 'maybe'));
      done(success(outcome.value));
    });
  }

  #ownFlow(
    flow: Omit<IncomingCall, 'pool' | 'container' | 'remainingMs'> & {
      readonly pool: string;
      readonly timeoutMs: number;
      readonly route: ReturnType<typeof routeFromWire>;
    },
    done: Done<CallOutput>,
  ): Cancel {
    const { table, hosting } = this.#parts.ports;
    const { route, method, args, id, lowestPending, timeoutMs } = flow;
    const pool = table.pool(flow.pool);
    if (pool === undefined || hosting === undefined || !('id' in route)) {
      done(failure('STALE_TABLE', 'this node does not own that container'));
      return nothing;
    }
    return hosting.call({ pool, container: route.id, method, args, id, lowestPending, remainingMs: timeoutMs }, done);
  }
}

/** What it gave cannot be sent. */
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
