/** Jobs on one node: gateway on every node, job manager and worker by role. Dispatches messages; decides nothing. */
import { unreachable } from '../../base/assert.ts';
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Identity, Peer, Program, Runners, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, Registry } from '../../base/registry.ts';
import { JobManagerHost } from '../../jobs/manager/job-manager-host.ts';
import { WorkerHost } from '../../jobs/worker/worker-host.ts';
import { type Message, encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import { type JobMessage, jobMessages } from '../../messages/jobs.ts';
import type { JobValues } from '../options/job-options.ts';
import type { WorkerSummary } from '../membership/worker-summary.ts';
import { ForwardingJobGateway } from './job-gateway.ts';
import { type WorkerDirectorySources, findWorker } from './worker-directory.ts';

export type JobServicePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly random: Random;
  readonly sha256: (bytes: Uint8Array) => string;
  /** Processes for the code of users and the program in them; undefined unless the node is a worker. */
  readonly runners:
    | {
        readonly runners: Runners;
        readonly program: Program;
        readonly cores: number;
        readonly isolation: 'full' | 'weak';
      }
    | undefined;
};

export type JobServiceContext = {
  readonly identity: Identity;
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly leader: () => Peer | undefined;
  readonly members: Omit<WorkerDirectorySources, 'dc'>;
};

export type JobServiceReports = {
  emit(type: string, fields: Readonly<Record<string, unknown>>): void;
  onHalt(error: unknown): void;
};

const kinds: ReadonlySet<string> = new Set(jobMessages.map(({ kind }) => kind));
const storeTimeoutMs = 30_000;

export class JobService {
  readonly gateway: ForwardingJobGateway;
  readonly manager: JobManagerHost | undefined;
  readonly worker: WorkerHost | undefined;
  readonly #ports: JobServicePorts;
  readonly #context: JobServiceContext;
  readonly #cancels: Cancel[] = [];

  constructor(ports: JobServicePorts, context: JobServiceContext, options: JobValues, reports: JobServiceReports) {
    this.#ports = ports;
    this.#context = context;
    const { roles } = context.identity;
    this.manager = roles.includes('manager') ? this.#openManager(options, reports) : undefined;
    this.worker = ports.runners === undefined ? undefined : this.#openWorker(ports.runners, options, reports);
    this.gateway = this.#openGateway();
    const changed = (): void => this.worker?.leaderChanged();
    this.#cancels.push(context.leadership.watch({ changed }));
  }

  /** How strongly the code of users is isolated; undefined unless the node is a worker. */
  get isolation(): 'full' | 'weak' | undefined {
    return this.#ports.runners?.isolation;
  }

  /** False if the message is not about jobs. */
  handle(from: Identity, message: Message, remainingMs: number, reply: Done<Uint8Array>): boolean {
    if (!kinds.has(message.kind)) return false;
    this.#dispatch(from, message as JobMessage, remainingMs, (outcome) => {
      reply(outcome.ok ? success(encodeMessage(outcome.value)) : outcome);
    });
    return true;
  }

  /** That generation of a node has certainly ended. */
  nodeGone(node: NodeId, generation: number): void {
    this.manager?.processGone(node, generation);
  }

  memberChanged(): void {
    this.manager?.membershipChanged();
  }

  /** Whether this node is active, by its registration. */
  modeChanged(isActive: boolean): void {
    this.worker?.setDraining(!isActive);
    this.manager?.membershipChanged();
  }

  /** Cores and units of this worker, for its summary. */
  summary(): Pick<WorkerSummary, 'coresTotal' | 'coresFree' | 'units' | 'attempts'> {
    const { total: coresTotal = 0, free: coresFree = 0 } = this.worker?.coreCounts() ?? {};
    return {
      coresTotal,
      coresFree,
      units: this.worker?.runningUnits() ?? 0,
      attempts: this.worker?.attemptsDigest() ?? 0,
    };
  }

  queues(): Readonly<Record<string, number>> {
    const counts = this.manager?.counts();
    const jobs =
      counts === undefined ? {} : { jobs: counts.open, jobsQueued: counts.queued, jobsRunning: counts.running };
    return this.worker === undefined ? jobs : { ...jobs, unitsHere: this.worker.runningUnits() };
  }

  /** The node stops soon: its worker takes no more units. */
  refuseUnits(): void {
    this.worker?.refuseUnits();
  }

  /** Returns running units to the manager and ends all runner processes. */
  stop(done: Done<void>): void {
    for (const cancel of this.#cancels) cancel();
    this.manager?.stop();
    if (this.worker === undefined) done(success(undefined));
    else this.worker.stop(done);
  }

  #dispatch(from: Identity, message: JobMessage, remainingMs: number, reply: Done<JobMessage>): void {
    const { manager, worker } = this;
    switch (message.kind) {
      case 'jobRequest':
        return this.#onJobRequest(from, message, remainingMs, reply);
      case 'storeBundle':
        return this.gateway.storeBundle(message.sha256, message.code, (outcome) => {
          reply(outcome.ok ? success({ kind: 'storeBundleReply', sha256: message.sha256 }) : outcome);
        });
      case 'assignUnits':
        return worker === undefined ? reply(noWorker) : worker.assignUnits(from, message, reply);
      case 'stopUnits':
        return worker === undefined ? reply(noWorker) : worker.stopUnits(from, message, reply);
      case 'reportUnits':
        return manager === undefined ? reply(noManager) : manager.onUnitReports(from, message, reply);
      case 'workerHeartbeat':
        return manager === undefined ? reply(noManager) : manager.onHeartbeat(from, message, reply);
      case 'storeBundleReply':
      case 'jobReply':
      case 'reportUnitsAck':
      case 'stopUnitsReply':
      case 'assignUnitsReply':
      case 'workerHeartbeatReply':
        return reply(failure('UNKNOWN_METHOD', `${message.kind} is not a request`));
      default:
        return unreachable(message);
    }
  }

  /** A client submits in its own name; a node may forward the command of another client. */
  #onJobRequest(
    from: Identity,
    { verb, args, hops, submitter, waitMs, idempotencyKey: key }: JobMessage & { readonly kind: 'jobRequest' },
    remainingMs: number,
    reply: Done<JobMessage>,
  ): void {
    const isMember = from.roles.some((role) => role !== 'client');
    const command = { verb, args, hops, waitMs, key, submitter: isMember ? submitter : from.name };
    this.gateway.handle(command, remainingMs, (outcome) => {
      reply(outcome.ok ? success({ kind: 'jobReply', answer: outcome.value }) : outcome);
    });
  }

  #openManager(options: JobValues, reports: JobServiceReports): JobManagerHost {
    const { clock, random, sha256 } = this.#ports;
    const { identity, registry, leadership, members } = this.#context;
    const sources = { ...members, dc: identity.dc };
    return new JobManagerHost(
      {
        ...{ clock, random: random.fork('manager'), registry, leadership, sha256, dc: identity.dc },
        request: (to, message, timeoutMs, done) => this.#request(to, message, timeoutMs, done),
        worker: (id) => findWorker(sources, id),
        emit: ({ kind, ...fields }) => reports.emit(kind, fields),
        halted: (error) => reports.onHalt(error),
      },
      options,
    );
  }

  #openWorker(
    { runners, program, cores, isolation }: NonNullable<JobServicePorts['runners']>,
    options: JobValues,
    reports: JobServiceReports,
  ): WorkerHost {
    const { clock, random, sha256 } = this.#ports;
    const { identity: self, registry, leader } = this.#context;
    return new WorkerHost(
      {
        ...{ clock, random: random.fork('worker'), registry, self, cores, runners, program, leader, sha256, isolation },
        request: (to, message, timeoutMs, done) => this.#request(to, message, timeoutMs, done),
        loadLevel: () => 'normal',
        emit: ({ kind, ...fields }) => reports.emit(kind, fields),
        halted: (error) => reports.onHalt(error),
      },
      options,
    );
  }

  #openGateway(): ForwardingJobGateway {
    const { identity, leadership, leader } = this.#context;
    return new ForwardingJobGateway({
      ...{ self: identity.id, leader },
      isLeading: () => this.manager !== undefined && leadership.isLeading(),
      execute: ({ verb, args, submitter, waitMs, key }, remainingMs, done) => {
        if (this.manager === undefined) done(noManager);
        else this.manager.command(verb, args, submitter, remainingMs, done, waitMs, key);
      },
      store: (sha256, code, done) => this.#store(sha256, code, done),
      request: (to, message, timeoutMs, done) => this.#request(to, message, timeoutMs, done),
    });
  }

  /** A manager writes to the registry; other nodes send the bundle to the leader. */
  #store(sha256: string, code: Uint8Array, done: Done<void>): void {
    if (this.manager !== undefined) return this.manager.storeBundle(sha256, code, done);
    const leader = this.#context.leader();
    if (leader === undefined) return done(failure('NO_QUORUM', 'no manager leads at the moment', 'no'));
    this.#request(leader, { kind: 'storeBundle', sha256, code }, storeTimeoutMs, (outcome) => {
      done(outcome.ok ? success(undefined) : outcome);
    });
  }

  /** A request to this node itself skips the network; its reply is asynchronous like any other. */
  #request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void {
    const { clock, streams } = this.#ports;
    const { identity } = this.#context;
    if (to.host === identity.host && to.port === identity.port) {
      const later = (outcome: Outcome<JobMessage>): void => void clock.schedule(0, () => done(outcome));
      return this.#dispatch(identity, message, timeoutMs, later);
    }
    streams.request(to, encodeMessage(message), timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const reply = tryDecodeMessage(outcome.value);
      if (reply !== undefined && kinds.has(reply.kind)) return done(success(reply as JobMessage));
      done(failure('MALFORMED', 'the reply of the other node is not a message about jobs'));
    });
  }
}

const noWorker = failure('PRECONDITION', 'this node is not a worker and runs no units', 'no');
const noManager = failure('NOT_LEADER', 'this node is not a manager', 'no');
