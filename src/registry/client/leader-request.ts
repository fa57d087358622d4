/**
 * One registry request: finds the leader, follows redirects, retries the same bytes with backoff. Ends with NO_QUORUM
 * or CAPACITY only if no attempt can have taken effect, else with DEADLINE or NETWORK_TIMEOUT.
 */
import { type Done, type ErrorCode, type Outcome, RemusterError, failure, isRemusterError } from '../../base/errors.ts';
import type { Cancel, Clock, Peer } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { RegistryTransaction } from '../../base/registry.ts';
import { type Message, decodeMessage } from '../../messages/catalogue.ts';
import type { LeaderFinder } from './leader-finder.ts';
import { type RegistryMessageOf, type RegistryRefusal, errorOfRefusal } from '../registry-messages.ts';

/** A write of this node as it was before it was encoded, checked already, with bytes that are nobody else's. */
export type LocalWrite = {
  readonly numbered: RegistryMessageOf<'registryTransact'>;
  readonly transaction: RegistryTransaction;
};

/** Whoever is on the same node may be handed the write itself, and answer with no bytes. */
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
  readonly ask: SendToManager;
  /** The manager that this node is itself, while it is one: nothing can come between the two. */
  readonly near?: () => Peer | undefined;
};

const hopsMax = 3;
const pauseMsMin = 20;
const pauseMsMax = 500;
const attemptMsMin = 1_000;

/** Refusals that say something of the moment or of the one who answered. All others are the answer to the request. */
const passing: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(['NOT_LEADER', 'NO_QUORUM', 'CAPACITY', 'DRAINED', 'DEADLINE', 'NETWORK_TIMEOUT', 'STORE_FAILED'] as const),
]);

const nothing: Cancel = () => {};

export class LeaderRequest {
  readonly #parts: LeaderRequestParts;
  readonly #body: Uint8Array;
  readonly #write: LocalWrite | undefined;
  readonly #deadlineMs: number;
  readonly #attemptMs: number;
  readonly #anyManager: boolean;
  readonly #done: Done<Message>;
  #cancel: Cancel = nothing;
  #over = false;
  #hops = 0;
  #pauses = 0;
  /** An attempt may have had an effect without an answer. */
  #uncertain = false;
  #last: RemusterError | undefined;

  /** `anyManager`: whoever is near may answer. Otherwise only the leader can. */
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

  /** Ends it now. */
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
    if (to === undefined) return this.#pause();
    const ended = (outcome: Outcome<Uint8Array | Message>): void => {
      if (this.#over) return;
      this.#cancel = nothing;
      if (outcome.ok) this.#answered(to, outcome.value);
      else this.#failed(to, outcome.error);
    };
    this.#cancel = this.#parts.ask(to, this.#body, Math.min(remainingMs, this.#attemptMs), ended, this.#write);
  }

  #answered(from: Peer, value: Uint8Array | Message): void {
    let answer: Message;
    try {
      answer = value instanceof Uint8Array ? decodeMessage(value) : value;
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      return this.#finish({
        ok: false,
        error: new RemusterError('INTERNAL', 'the answer of a manager cannot be read'),
      });
    }
    if (answer.kind === 'registryError') return this.#refused(from, answer);
    if (!this.#anyManager) this.#parts.finder.leaderIs(from);
    this.#finish({ ok: true, value: answer });
  }

  #refused(from: Peer, refusal: RegistryRefusal): void {
    const error = errorOfRefusal(refusal);
    if (!passing.has(error.code)) return this.#finish({ ok: false, error });
    const leader = leaderOf(refusal);
    if (leader === undefined || leader.id === from.id || this.#hops === hopsMax) return this.#failed(from, error);
    this.#note(error);
    this.#hops += 1;
    this.#parts.finder.leaderIs(leader);
    this.#attempt();
  }

  #failed(at: Peer, error: RemusterError): void {
    this.#note(error);
    // One that is only busy is still the one to ask.
    if (error.code !== 'CAPACITY' && error.code !== 'RATE_LIMITED') this.#parts.finder.avoid(at);
    this.#pause();
  }

  #note(error: RemusterError): void {
    this.#last = error;
    if (error.stateChanged !== 'no') this.#uncertain = true;
  }

  #pause(): void {
    const remainingMs = this.#remainingMs;
    if (remainingMs <= 0) return this.#giveUp();
    const longestMs = Math.min(pauseMsMax, pauseMsMin * 2 ** this.#pauses);
    this.#pauses += 1;
    this.#hops = 0;
    const delayMs = Math.min(remainingMs, longestMs * this.#parts.random.between(0.5, 1));
    this.#cancel = this.#parts.clock.schedule(delayMs, () => this.#attempt());
  }

  #giveUp(): void {
    const why = this.#last?.message ?? 'no manager is known';
    if (this.#uncertain) {
      const code = this.#last?.code === 'NETWORK_TIMEOUT' ? 'NETWORK_TIMEOUT' : 'DEADLINE';
      return this.#finish(failure(code, `the registry did not answer in time: ${why}`));
    }
    const busy = this.#last?.code === 'CAPACITY' || this.#last?.code === 'RATE_LIMITED';
    this.#finish(failure(busy ? 'CAPACITY' : 'NO_QUORUM', `the registry could not be reached in time: ${why}`, 'no'));
  }

  #finish(outcome: Outcome<Message>): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancel();
    this.#done(outcome);
  }
}

function leaderOf({ code, leader, host, port }: RegistryRefusal): Peer | undefined {
  if (code !== 'NOT_LEADER' || leader === undefined || host === undefined || port === undefined) return undefined;
  return { id: leader, host, port };
}
