/**
 * The session of an application: members, pools, jobs, close. Every call ends with a result or a coded error. Gets
 * streams, clock and randomness as ports.
 */
import { CompactingSet } from '../base/collections/compacting-map.ts';
import { RemusterError, failure, toPromise, success } from '../base/errors.ts';
import type { Address, Clock, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import type { Methods, ModuleDefinition, PoolHandle } from '../containers/module.ts';
import type { JobOutcome, JobRow } from '../jobs/job-types.ts';
import { type Message, encodeMessage } from '../messages/catalogue.ts';
import { type CallTimeouts, callDeadlines } from './call-deadlines.ts';
import { RetryingRequest, type ClusterRequest, type ClientContext } from './retrying-request.ts';
import type { Job } from './job.ts';
import { SessionJobs, type JobsListed } from './session-jobs.ts';
import type { SendClusterRequest } from './job-requests.ts';
import { PoolCalls } from './pool-calls.ts';
import { ServerList } from './server-list.ts';
import { LivenessMonitor } from './liveness-monitor.ts';
import type { WorkflowBundler, PreparedJob, SubmitOptions } from './submission.ts';

type MemberView = (Message & { kind: 'listMembersReply' })['members'][number];

/** A member in the view of the node that replied. */
export type ClusterMember = MemberView['entry'] &
  Pick<MemberView, 'state' | 'incarnation' | 'health' | 'stuck' | 'lagMs' | 'silentMs'> & {
    readonly registration: string | null;
    readonly loadLevel: string | null;
  };

export type ClusterSession = {
  members(): Promise<readonly ClusterMember[]>;
  /** Returns the same bytes from a node, to measure a connection. */
  echo(payload: Uint8Array): Promise<Uint8Array>;
  /** A typed handle of a pool of that module. Sends nothing: an unknown pool fails with the first call. */
  pool<M extends Methods>(definition: ModuleDefinition<M>, name: string): PoolHandle<M>;
  /**
   * Creates a pool; resolves when it is recorded. Its containers open in the background, and calls wait for them.
   * Idempotent: the same pool again is no error, a different one of that name is PRECONDITION.
   */
  createPool<M extends Methods>(
    definition: ModuleDefinition<M>,
    name: string,
    wanted: PoolWanted,
  ): Promise<PoolHandle<M>>;
  /** Deletes the pool with all its state. UNKNOWN_POOL if it does not exist. */
  deletePool(name: string): Promise<void>;
  /**
   * Submits the workflows that a file exports. Resolves when the managers have recorded the job, which then runs
   * without this session. Without an `idempotencyKey` each call is a new job.
   */
  submit(what: string | PreparedJob, options?: SubmitOptions): Promise<Job>;
  /** Submits and waits for the end; a short job needs one request. */
  run(what: string | PreparedJob, options?: SubmitOptions): Promise<JobOutcome>;
  /** Reads and bundles a file, to submit it several times. */
  prepare(file: string): Promise<PreparedJob>;
  /** A handle of a job. Sends nothing: an unknown job fails with the first request. */
  job(id: string): Job;
  /** The latest jobs first. */
  jobs(wanted?: JobsListed): Promise<readonly JobRow[]>;
  /** Ends every pending call with CANCELLED. Jobs keep running. */
  close(): Promise<void>;
};

export type PoolWanted = {
  readonly containers: number;
  /** Replicas of each container, the owner's included; 2 if left out. */
  readonly copies?: number;
  readonly durability?: 'memory' | 'local' | 'copies';
  readonly restart?: boolean;
  /** Parameters of the module, as JSON. */
  readonly params?: unknown;
};

export type SessionOptions = CallTimeouts & {
  readonly streams: Streams;
  readonly clock: Clock;
  readonly random: Random;
  /** At least one. */
  readonly addresses: readonly Address[];
  /** Unique: part of the call ids, by which resent calls are recognised. */
  readonly name: string;
  readonly tryNewServers: number;
  /** Reads workflow files; without it only prepared jobs can be submitted. */
  readonly bundler?: WorkflowBundler;
};

type ReplyOf<K extends Message['kind']> = Extract<Message, { readonly kind: K }>;

/** Refreshed with the next request after that: an idle session sends nothing. */
const membersTtlMs = 10_000;
/** Failed handshakes before `connect` gives up; fewer may be chance. */
const handshakesMax = 3;

/** `waitUntilConnected` resolves after the first reply of a node, or throws why no node replied in time. */
export function openSession(
  options: SessionOptions,
): ClusterSession & { waitUntilConnected(waitMs: number): Promise<void> } {
  return new Session(options);
}

class Session implements ClusterSession {
  readonly #context: ClientContext;
  readonly #timeouts: CallTimeouts;
  readonly #calls: PoolCalls;
  readonly #jobs: SessionJobs;
  readonly #requests = new CompactingSet<{ cancel(error: RemusterError): void }>();
  #membersMs = -Infinity;
  #closing: Promise<void> | undefined;

  constructor({ streams, clock, random, addresses, name, tryNewServers, bundler, ...timeouts }: SessionOptions) {
    const servers = new ServerList(addresses, random.fork('servers'));
    const liveness = new LivenessMonitor(clock, streams);
    this.#context = { clock, random: random.fork('pauses'), streams, servers, liveness, tryNewServers };
    this.#timeouts = timeouts;
    this.#calls = new PoolCalls(this.#context, timeouts, name, () => this.#refreshMembers());
    const sendRequest: SendClusterRequest = (request, replyKind, limits) => {
      this.#refreshMembers();
      return this.#send(request, replyKind, { ...callDeadlines(clock.nowMs(), {}, timeouts), ...limits });
    };
    this.#jobs = new SessionJobs(sendRequest, timeouts.requestTimeoutMs, name, bundler);
  }

  async waitUntilConnected(waitMs: number): Promise<void> {
    const nowMs = this.#context.clock.nowMs();
    const isPermanent = ({ message }: RemusterError, failures: number): boolean =>
      failures >= handshakesMax && message.includes('handshake');
    const deadlineMs = nowMs + (waitMs === 0 ? this.#timeouts.requestTimeoutMs : waitMs);
    const limits = { deadlineMs, retryUntilMs: nowMs + waitMs, isPermanent };
    this.#onMembers(await this.#send({ kind: 'listMembers' }, 'listMembersReply', limits));
  }

  async members(): Promise<readonly ClusterMember[]> {
    const list = await this.#send({ kind: 'listMembers' }, 'listMembersReply', this.#limits());
    this.#onMembers(list);
    return list.members.map(clusterMember);
  }

  async echo(payload: Uint8Array): Promise<Uint8Array> {
    return (await this.#send({ kind: 'echo', payload }, 'echoReply', this.#limits())).payload;
  }

  pool<M extends Methods>(definition: ModuleDefinition<M>, name: string): PoolHandle<M> {
    return this.#calls.pool(definition, name);
  }

  async createPool<M extends Methods>(
    definition: ModuleDefinition<M>,
    name: string,
    wanted: PoolWanted,
  ): Promise<PoolHandle<M>> {
    await this.#managePool('create', { ...wanted, name, module: definition.name });
    return this.pool(definition, name);
  }

  async deletePool(name: string): Promise<void> {
    await this.#managePool('delete', { pool: name });
  }

  async #managePool(action: 'create' | 'delete', spec: object): Promise<void> {
    await this.#send({ kind: 'managePool', action, spec: JSON.stringify(spec) }, 'managePoolReply', this.#limits());
  }

  submit(what: string | PreparedJob, options?: SubmitOptions): Promise<Job> {
    return this.#jobs.submit(what, options);
  }

  run(what: string | PreparedJob, options?: SubmitOptions): Promise<JobOutcome> {
    return this.#jobs.run(what, options);
  }

  prepare(file: string): Promise<PreparedJob> {
    return this.#jobs.prepare(file);
  }

  job(id: string): Job {
    return this.#jobs.job(id);
  }

  jobs(wanted?: JobsListed): Promise<readonly JobRow[]> {
    return this.#jobs.jobs(wanted);
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#calls.close();
    for (const request of [...this.#requests]) request.cancel(new RemusterError('CANCELLED', 'the session was closed'));
    this.#context.liveness.close();
    await toPromise<void>((done) => this.#context.streams.close(done));
  }

  #limits(): Pick<ClusterRequest<never>, 'deadlineMs' | 'retryUntilMs'> {
    const { requestTimeoutMs, retryTimeoutMs } = this.#timeouts;
    return callDeadlines(
      this.#context.clock.nowMs(),
      { timeoutMs: requestTimeoutMs },
      { requestTimeoutMs, retryTimeoutMs },
    );
  }

  async #send<K extends Message['kind']>(
    message: Message,
    replyKind: K,
    limits: Omit<ClusterRequest<never>, 'body' | 'isBoundToNode' | 'classify'>,
  ): Promise<ReplyOf<K>> {
    if (this.#closing !== undefined) throw new RemusterError('CANCELLED', 'the session is closed');
    const classify = (reply: Message): ReturnType<ClusterRequest<ReplyOf<K>>['classify']> => ({
      outcome:
        reply.kind === replyKind
          ? success(reply as ReplyOf<K>)
          : failure('MALFORMED', `the request ${message.kind} got the reply ${reply.kind}`),
    });
    const body = encodeMessage(message);
    return await toPromise<ReplyOf<K>>((done) => {
      const request = new RetryingRequest<ReplyOf<K>>(
        this.#context,
        { ...limits, body, isBoundToNode: false, classify },
        (outcome) => {
          this.#requests.delete(request);
          done(outcome);
        },
      );
      this.#requests.add(request);
      request.start();
    });
  }

  /** Refreshes stale members in the background; a failure does not concern the present call. */
  #refreshMembers(): void {
    const nowMs = this.#context.clock.nowMs();
    if (nowMs - this.#membersMs < membersTtlMs) return;
    this.#membersMs = nowMs;
    const limits = { deadlineMs: nowMs + this.#timeouts.requestTimeoutMs, retryUntilMs: nowMs };
    this.#send({ kind: 'listMembers' }, 'listMembersReply', limits).then(
      (list) => this.#onMembers(list),
      () => undefined,
    );
  }

  #onMembers({ members }: ReplyOf<'listMembersReply'>): void {
    this.#membersMs = this.#context.clock.nowMs();
    const alive = members.filter(({ state, entry }) => state === 'alive' && !entry.roles.includes('client'));
    this.#context.servers.update(alive.map(({ entry: { host, port } }) => ({ host, port })));
  }
}

/** Fields that this version does not provide yet are null. */
function clusterMember({ entry, state, incarnation, health, stuck, lagMs, silentMs }: MemberView): ClusterMember {
  return { ...entry, state, incarnation, health, stuck, lagMs, silentMs, registration: null, loadLevel: null };
}
