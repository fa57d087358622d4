/**
 * What this node does when others ask it about calls: runs what its own containers are to run, finds the owners for
 * those who leave that to it, and says what has become of a call. It keeps nothing but the number of open flows.
 */
import { type Done, type Outcome, failure, isRemusterError, success } from '../../base/errors.ts';
import type { ByteStream, ByteStreamEvents, Cancel, Clock, Identity } from '../../base/ports.ts';
import type { CallMessage, CallMessageOf } from '../../messages/calls.ts';
import type { AddressTable, ArrivedCall, CallAnswer, CallResult, Calls, Hosting } from '../contract.ts';
import { FlowWriter } from './flow-writer.ts';
import { disposed, encoded } from './part.ts';
import { idOf, resultToWire, routeFromWire, shortened, wantedFromWire } from './wire.ts';

export type DeskParts = {
  readonly ports: { readonly clock: Clock; readonly table: AddressTable; readonly hosting: Hosting | undefined };
  readonly calls: Pick<Calls, 'call'>;
  readonly flowsMax: number;
};

const nothing: Cancel = () => {};

export class CallDesk {
  readonly #parts: DeskParts;
  #flows = 0;

  constructor(parts: DeskParts) {
    this.#parts = parts;
  }

  /** False when the message is none of ours. */
  answer(_from: Identity, message: CallMessage, remainingMs: number, reply: Done<Uint8Array>): boolean {
    if (message.kind === 'call') this.#run(message, remainingMs, reply);
    else if (message.kind === 'wantCall') this.#find(message, remainingMs, reply);
    else if (message.kind === 'askCall') reply(encoded({ kind: 'callStanding', status: this.#standing(message) }));
    else return false;
    return true;
  }

  openedFlow(_from: Identity, opening: CallMessageOf<'openFlow'>, stream: ByteStream): ByteStreamEvents {
    const { ports, flowsMax } = this.#parts;
    const isTooMuch = this.#flows >= flowsMax;
    this.#flows += 1;
    const writer = new FlowWriter(stream, {
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
    const { container, method, args, lowest } = message;
    const pool = table.poolByNumber(message.pool);
    const answer = (outcome: Outcome<CallAnswer>): void => reply(this.#answerOf(message, outcome));
    if (pool === undefined) return answer(failure('UNKNOWN_POOL', `there is no pool number ${message.pool}`));
    if (hosting === undefined) return answer(failure('STALE_TABLE', 'this node owns no containers'));
    hosting.call({ pool, container, method, args, id: idOf(message), lowest, remainingMs }, answer);
  }

  #answerOf(message: CallMessageOf<'call'>, outcome: Outcome<CallAnswer>): Outcome<Uint8Array> {
    const { table } = this.#parts.ports;
    const pool = table.poolByNumber(message.pool);
    const version = pool === undefined ? 0 : table.versionOf(pool, message.container);
    if (outcome.ok) {
      const value = 'value' in outcome.value ? outcome.value.value : undefined;
      // It has not begun: whoever opens the flow has it made anew.
      disposed(outcome.value);
      const bytes = encoded({ kind: 'called', version, value });
      return bytes.ok ? bytes : this.#answerOf(message, bytes);
    }
    const { code, message: words } = outcome.error;
    const isStale = code === 'STALE_TABLE' && pool !== undefined;
    const owner = isStale ? table.ownerOf(pool, message.container) : undefined;
    return encoded({ kind: 'callRefused', code, message: shortened(words), owner, version: isStale ? version : 0 });
  }

  #find(message: CallMessageOf<'wantCall'>, remainingMs: number, reply: Done<Uint8Array>): void {
    const told = (outcome: Outcome<CallResult>): void => {
      if (outcome.ok && 'flow' in outcome.value) disposed(outcome.value);
      const bytes = encoded(resultToWire(outcome));
      reply(bytes.ok ? bytes : encoded(resultToWire(bytes)));
    };
    const wanted = attempted(() => wantedFromWire(message, remainingMs));
    if (wanted.ok) this.#parts.calls.call(wanted.value, told);
    else told(wanted);
  }

  #standing(message: CallMessageOf<'askCall'>): 'waiting' | 'running' | 'unknown' {
    const { table, hosting } = this.#parts.ports;
    const pool = table.poolByNumber(message.pool);
    if (pool === undefined || hosting === undefined) return 'unknown';
    return hosting.standing({ pool, container: message.container, id: idOf(message) });
  }

  #beginFlow(opening: CallMessageOf<'openFlow'>, args: Uint8Array, done: Done<CallAnswer>): Cancel {
    const { pool, method, lowest, timeoutMs, retryTimeoutMs, hops } = opening;
    const route = attempted(() => routeFromWire(opening.route));
    if (!route.ok) {
      done(route);
      return nothing;
    }
    const id = idOf(opening);
    if (hops > 0) return this.#ownFlow({ route: route.value, pool, method, args, id, lowest, timeoutMs }, done);
    const call = { pool, method, args, route: route.value, id, lowest, timeoutMs, retryTimeoutMs };
    return this.#parts.calls.call(call, (outcome) => {
      if (!outcome.ok) return done(outcome);
      if ('parts' in outcome.value) return done(failure('BAD_ARGUMENT', 'a flow comes from one container'));
      done(success(outcome.value));
    });
  }

  #ownFlow(
    flow: Omit<ArrivedCall, 'pool' | 'container' | 'remainingMs'> & {
      readonly pool: string;
      readonly timeoutMs: number;
      readonly route: ReturnType<typeof routeFromWire>;
    },
    done: Done<CallAnswer>,
  ): Cancel {
    const { table, hosting } = this.#parts.ports;
    const { route, method, args, id, lowest, timeoutMs } = flow;
    const pool = table.pool(flow.pool);
    if (pool === undefined || hosting === undefined || !('id' in route)) {
      done(failure('STALE_TABLE', 'this node does not own that container'));
      return nothing;
    }
    return hosting.call({ pool, container: route.id, method, args, id, lowest, remainingMs: timeoutMs }, done);
  }
}

function attempted<T>(make: () => T): Outcome<T> {
  try {
    return success(make());
  } catch (error) {
    if (isRemusterError(error)) return { ok: false, error };
    throw error;
  }
}
