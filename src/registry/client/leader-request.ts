/**
 * One registry request: finds the leader, follows redirects, retries the same bytes with backoff. Ends with NO_QUORUM
 * or CAPACITY only if no attempt can have taken effect, otherwise with DEADLINE or NETWORK_TIMEOUT.
 */
import { type Done, type ErrorCode, type Outcome, RemusterError, failure, isRemusterError } from '../../base/errors.ts';
import type { Cancel, Clock, Peer } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import { type Message, decodeMessage } from '../../messages/catalogue.ts';
import type { LeaderFinder } from './leader-finder.ts';
import { type LocalWrite, type RegistryRefusal, errorOfRefusal } from '../registry-messages.ts';

/** Sends a request to a manager. The server of the same node may get the write itself and reply without encoding. */
export type SendToManager = (
  to: Peer,
  body: Uint8Array,
  timeoutMs: number,
  done: Done<Uint8Array | Message>,
  write?: LocalWrite,
) => Cancel;

export type LeaderRequestParts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly finder: LeaderFinder;
  readonly send: SendToManager;
  /** This node, while it is a manager: no network lies between client and server then. */
  readonly localManager?: () => Peer | undefined;
};

const redirectsMax = 3;
const backoffMsMin = 20;
const backoffMsMax = 500;
const attemptMsMin = 1_000;

/** Refusals that depend on the moment or on the manager. All others are the result of the request. */
const retryableCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(['NOT_LEADER', 'NO_QUORUM', 'CAPACITY', 'DRAINED', 'DEADLINE', 'NETWORK_TIMEOUT', 'STORE_FAILED'] as const),
]);

const noop: Cancel = () => {};

export class LeaderRequest {
  readonly #parts: LeaderRequestParts;
  readonly #body: Uint8Array;
  readonly #write: LocalWrite | undefined;
  readonly #deadlineMs: number;
  readonly #attemptMs: number;
  readonly #anyManager: boolean;
  readonly #done: Done<Message>;
  #cancel: Cancel = noop;
  #ended = false;
  #redirects = 0;
  #backoffs = 0;
  /** An attempt without a reply may have taken effect. */
  #isUncertain = false;
  #lastError: RemusterError | undefined;

  /** `anyManager`: any manager may reply, not only the leader. */
  constructor(
    parts: LeaderRequestParts,
    call: {
      readonly body: Uint8Array;
      readonly timeoutMs: number;
      readonly anyManager: boolean;
      readonly write?: LocalWrite | undefined;
    },
    done: Done<Message>,
  ) {
    this.#parts = parts;
    this.#body = call.body;
    this.#write = call.write;
    this.#anyManager = call.anyManager;
    this.#deadlineMs = parts.clock.nowMs() + call.timeoutMs;
    this.#attemptMs = Math.max(attemptMsMin, call.timeoutMs / 3);
    this.#done = done;
    this.#attempt();
  }

  /** Ends the request now. */
  cancel(error: RemusterError): void {
    this.#finish({ ok: false, error });
  }

  get #remainingMs(): number {
    return this.#deadlineMs - this.#parts.clock.nowMs();
  }

  #attempt(): void {
    const remainingMs = this.#remainingMs;
    if (remainingMs <= 0) return this.#giveUp();
    const to = this.#anyManager ? this.#parts.finder.nextManager() : this.#parts.finder.target();
    if (to === undefined) return this.#backOff();
    const onEnd = (outcome: Outcome<Uint8Array | Message>): void => {
      if (this.#ended) return;
      this.#cancel = noop;
      if (outcome.ok) this.#onReply(to, outcome.value);
      else this.#onFailure(to, outcome.error);
    };
    this.#cancel = this.#parts.send(to, this.#body, Math.min(remainingMs, this.#attemptMs), onEnd, this.#write);
  }

  #onReply(from: Peer, value: Uint8Array | Message): void {
    let reply: Message;
    try {
      reply = value instanceof Uint8Array ? decodeMessage(value) : value;
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      return this.#finish({
        ok: false,
        error: new RemusterError('INTERNAL', 'the reply of a manager is malformed'),
      });
    }
    if (reply.kind === 'registryError') return this.#onRefusal(from, reply);
    if (!this.#anyManager) this.#parts.finder.leaderIs(from);
    this.#finish({ ok: true, value: reply });
  }

  #onRefusal(from: Peer, refusal: RegistryRefusal): void {
    const error = errorOfRefusal(refusal);
    if (!retryableCodes.has(error.code)) return this.#finish({ ok: false, error });
    const leader = leaderOf(refusal);
    if (leader === undefined || leader.id === from.id || this.#redirects === redirectsMax)
      return this.#onFailure(from, error);
    this.#recordError(error);
    this.#redirects += 1;
    this.#parts.finder.leaderIs(leader);
    this.#attempt();
  }

  #onFailure(at: Peer, error: RemusterError): void {
    this.#recordError(error);
    // A leader that is only busy is still the leader.
    if (error.code !== 'CAPACITY' && error.code !== 'RATE_LIMITED') this.#parts.finder.avoid(at);
    this.#backOff();
  }

  #recordError(error: RemusterError): void {
    this.#lastError = error;
    if (error.stateChanged !== 'no') this.#isUncertain = true;
  }

  #backOff(): void {
    const remainingMs = this.#remainingMs;
    if (remainingMs <= 0) return this.#giveUp();
    const backoffMs = Math.min(backoffMsMax, backoffMsMin * 2 ** this.#backoffs);
    this.#backoffs += 1;
    this.#redirects = 0;
    const delayMs = Math.min(remainingMs, backoffMs * this.#parts.random.between(0.5, 1));
    this.#cancel = this.#parts.clock.schedule(delayMs, () => this.#attempt());
  }

  #giveUp(): void {
    const why = this.#lastError?.message ?? 'no manager is known';
    if (this.#isUncertain) {
      const code = this.#lastError?.code === 'NETWORK_TIMEOUT' ? 'NETWORK_TIMEOUT' : 'DEADLINE';
      return this.#finish(failure(code, `the registry did not reply in time: ${why}`));
    }
    const isBusy = this.#lastError?.code === 'CAPACITY' || this.#lastError?.code === 'RATE_LIMITED';
    this.#finish(failure(isBusy ? 'CAPACITY' : 'NO_QUORUM', `the registry could not be reached in time: ${why}`, 'no'));
  }

  #finish(outcome: Outcome<Message>): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancel();
    this.#done(outcome);
  }
}

function leaderOf({ code, leader, host, port }: RegistryRefusal): Peer | undefined {
  if (code !== 'NOT_LEADER' || leader === undefined || host === undefined || port === undefined) return undefined;
  return { id: leader, host, port };
}
