/**
 * Accepts job commands on any node and forwards to the leader, with a hop limit, what only the leader can answer. Knows
 * no job.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Peer } from '../../base/ports.ts';
import type { JobMessage, JobVerb } from '../../messages/jobs.ts';

export type JobCommand = {
  readonly verb: JobVerb;
  /** JSON. */
  readonly args: string;
  /** On whose behalf. */
  readonly submitter: string;
  readonly hops: number;
  /** Of `submit`: it is answered when the job is over, at the latest after so long. */
  readonly waitMs?: number | undefined;
  /** Of `submit`: its idempotencyKey, unless the words have one. */
  readonly key?: string | undefined;
};

/** What routes and clients hold. */
export type JobGateway = {
  /** The answer is JSON. */
  send(verb: JobVerb, words: string, submitter: string, remainingMs: number, done: Done<string>): void;
  /** Code that jobs name by its hash. Stored twice it is there once. */
  storeBundle(sha256: string, code: Uint8Array, done: Done<void>): void;
};

export type JobGatewayParts = {
  readonly self: string;
  /** This node leads and carries orders out itself. */
  readonly isLeading: () => boolean;
  readonly leader: () => Peer | undefined;
  readonly carryOut: (order: JobCommand, remainingMs: number, done: Done<string>) => void;
  readonly store: (sha256: string, code: Uint8Array, done: Done<void>) => void;
  readonly ask: (to: Peer, message: JobMessage, timeoutMs: number, done: Done<JobMessage>) => void;
};

const hopsMax = 3;
/** The answer has to get back before the one who asks gives up. */
const marginMs = 100;

export class ForwardingJobGateway implements JobGateway {
  readonly #parts: JobGatewayParts;

  constructor(parts: JobGatewayParts) {
    this.#parts = parts;
  }

  send(verb: JobVerb, args: string, submitter: string, remainingMs: number, done: Done<string>): void {
    this.handle({ verb, args, submitter, hops: 0 }, remainingMs, done);
  }

  storeBundle(sha256: string, code: Uint8Array, done: Done<void>): void {
    this.#parts.store(sha256, code, done);
  }

  /** From here or from another node. */
  handle(order: JobCommand, remainingMs: number, done: Done<string>): void {
    if (this.#parts.isLeading()) return this.#parts.carryOut(order, remainingMs, done);
    const leader = this.#parts.leader();
    if (leader === undefined || leader.id === this.#parts.self)
      return done(failure('NO_QUORUM', 'no node leads at this moment', 'no'));
    if (order.hops >= hopsMax) return done(failure('NOT_LEADER', 'the leader changes too fast; try again', 'no'));
    const timeoutMs = Math.max(marginMs, remainingMs - marginMs);
    const { key, ...rest } = order;
    this.#parts.ask(
      leader,
      { kind: 'jobRequest', waitMs: undefined, ...rest, idempotencyKey: key, hops: order.hops + 1 },
      timeoutMs,
      (outcome) => {
        if (!outcome.ok) return done(outcome);
        if (outcome.value.kind === 'jobReply') return done(success(outcome.value.answer));
        done(failure('MALFORMED', 'the other node answered something else'));
      },
    );
  }
}
