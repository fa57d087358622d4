/**
 * Accepts job commands on any node and forwards them to the leader, with a hop limit. Keeps no state of jobs.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Peer } from '../../base/ports.ts';
import type { JobMessage, JobVerb } from '../../messages/jobs.ts';

export type JobCommand = {
  readonly verb: JobVerb;
  /** JSON. */
  readonly args: string;
  /** Name of the client for which the command runs. */
  readonly submitter: string;
  readonly hops: number;
  /** Of `submit`: the reply waits for the end of the job, at most this long. */
  readonly waitMs?: number | undefined;
  /** Of `submit`: its idempotency key, unless `args` has one. */
  readonly key?: string | undefined;
};

/** The interface for routes and clients. */
export type JobGateway = {
  /** The reply is JSON. */
  send(verb: JobVerb, args: string, submitter: string, remainingMs: number, done: Done<string>): void;
  /** Stores code that jobs name by its hash. Idempotent. */
  storeBundle(sha256: string, code: Uint8Array, done: Done<void>): void;
};

export type JobGatewayPorts = {
  readonly self: string;
  /** True if this node leads and executes commands itself. */
  readonly isLeading: () => boolean;
  readonly leader: () => Peer | undefined;
  readonly execute: (command: JobCommand, remainingMs: number, done: Done<string>) => void;
  readonly store: (sha256: string, code: Uint8Array, done: Done<void>) => void;
  readonly request: (to: Peer, message: JobMessage, timeoutMs: number, done: Done<JobMessage>) => void;
};

const hopsMax = 3;
/** The reply must arrive before the caller's deadline. */
const marginMs = 100;

export class ForwardingJobGateway implements JobGateway {
  readonly #ports: JobGatewayPorts;

  constructor(ports: JobGatewayPorts) {
    this.#ports = ports;
  }

  send(verb: JobVerb, args: string, submitter: string, remainingMs: number, done: Done<string>): void {
    this.handle({ verb, args, submitter, hops: 0 }, remainingMs, done);
  }

  storeBundle(sha256: string, code: Uint8Array, done: Done<void>): void {
    this.#ports.store(sha256, code, done);
  }

  /** A command from this node or from another one. */
  handle(command: JobCommand, remainingMs: number, done: Done<string>): void {
    if (this.#ports.isLeading()) return this.#ports.execute(command, remainingMs, done);
    const leader = this.#ports.leader();
    if (leader === undefined || leader.id === this.#ports.self)
      return done(failure('NO_QUORUM', 'no manager leads at the moment', 'no'));
    if (command.hops >= hopsMax)
      return done(failure('NOT_LEADER', 'the leader changed while the command was forwarded: retry', 'no'));
    const timeoutMs = Math.max(marginMs, remainingMs - marginMs);
    const { key, ...rest } = command;
    this.#ports.request(
      leader,
      { kind: 'jobRequest', waitMs: undefined, ...rest, idempotencyKey: key, hops: command.hops + 1 },
      timeoutMs,
      (outcome) => {
        if (!outcome.ok) return done(outcome);
        if (outcome.value.kind === 'jobReply') return done(success(outcome.value.answer));
        done(failure('MALFORMED', 'the reply of the other node is not a jobReply'));
      },
    );
  }
}
