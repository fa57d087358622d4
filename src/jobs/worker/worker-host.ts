/**
 * The worker of a node: takes units from the manager that leads, runs each on a core of its own in a runner's process,
 * and tells the leader what became of them. It alone decides about its cores.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Address, Clock, Identity, Peer, Program, Runners } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Registry } from '../../base/registry.ts';
import type { JobMessage, JobMessageOf } from '../../messages/jobs.ts';

export type WorkerEvent = { readonly kind: string } & Readonly<Record<string, unknown>>;

export type WorkerPorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: Pick<Registry, 'range'>;
  readonly self: Identity;
  readonly cores: number;
  readonly runners: Runners;
  /** The runner program; the simulator hands in a pretended one. */
  readonly program: Program;
  /** Who leads, as far as this node knows. */
  leader(): Peer | undefined;
  /** Ends in the answer or an error, at the latest after `timeoutMs`. */
  ask(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  sha256(bytes: Uint8Array): string;
  readonly isolation: 'full' | 'weak';
  /** How loaded this node is: normal, elevated, high, severe, critical. */
  level(): string;
  tell(event: WorkerEvent): void;
  /** The program is wrong. */
  halted(error: unknown): void;
};

export type WorkerOptions = {
  /** Of the lease, until a leader has said. */
  readonly jobLeaseMs: number;
};

export class WorkerHost {
  readonly #ports: WorkerPorts;

  constructor(ports: WorkerPorts, _options: WorkerOptions) {
    this.#ports = ports;
  }

  given(_from: Identity, _message: JobMessageOf<'giveUnits'>, reply: Done<JobMessageOf<'unitsTaken'>>): void {
    reply(failure('CAPACITY'));
  }

  stopped(_from: Identity, _message: JobMessageOf<'stopUnits'>, reply: Done<JobMessageOf<'unitsStopped'>>): void {
    reply(success({ kind: 'unitsStopped', coresFree: this.#ports.cores }));
  }

  /** `leader()` may answer differently now. */
  leaderChanged(): void {}

  /** Draining takes nothing new. */
  setDraining(_on: boolean): void {}

  cores(): { readonly total: number; readonly free: number } {
    return { total: this.#ports.cores, free: this.#ports.cores };
  }

  runnersAlive(): number {
    return 0;
  }

  runsNow(): number {
    return 0;
  }

  /** Calls back when nothing runs and every end was heard, for draining. */
  whenIdle(done: Done<void>): void {
    done(success(undefined));
  }

  /** Gives running units back (`returned`), within a bound, and ends all runners. */
  stop(done: Done<void>): void {
    done(success(undefined));
  }
}
