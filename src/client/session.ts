/**
 * The session of an application: members, pools, jobs, close. Every call ends in a result or a coded error. Streams,
 * clock and randomness are given to it.
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
import type { SendRequest } from './job-requests.ts';
import { PoolCalls } from './pool-calls.ts';
import { ServerList } from './server-list.ts';
import { LivenessMonitor } from './liveness-monitor.ts';
import type { WorkflowBundler, PreparedJob, SubmitOptions } from './submission.ts';

type MemberView = (Message & { kind: 'listMembersReply' })['members'][number];

/** A member as the asked node sees it. */
export type ClusterMember = MemberView['entry'] &
  Pick<MemberView, 'state' | 'incarnation' | 'health' | 'stuck' | 'lagMs' | 'silentMs'> & {
    readonly registration: string | null;
    readonly loadLevel: string | null;
  };

export type ClusterSession = {
  members(): Promise<readonly ClusterMember[]>;
  /** Sends bytes there and back: measures a connection. */
  echo(payload: Uint8Array): Promise<Uint8Array>;
  /** The methods of a pool of that module. Whether there is such a pool shows with the first call. */
  pool<M extends Methods>(definition: ModuleDefinition<M>, name: string): PoolHandle<M>;
  /**
   * Lets there be such a pool and ends when the cluster knows it; containers open by themselves, and calls wait for
   * them. A pool that is there already as described is no error, another one of that name is (PRECONDITION).
   */
  createPool<M extends Methods>(
    definition: ModuleDefinition<M>,
    name: string,
    wanted: PoolWanted,
  ): Promise<PoolHandle<M>>;
  /** With everything in it. UNKNOWN_POOL when there is none. */
  deletePool(name: string): Promise<void>;
  /**
   * Runs the workflows that a file exports. Ends when the managers have recorded the job: from then on it is carried out
   * whatever happens to this session. Without an `idempotencyKey` each call is a job of its own.
   */
  submit(what: string | PreparedJob, options?: SubmitOptions): Promise<Job>;
  /** Submits and waits for the end, in one question where the job is short. */
  run(what: string | PreparedJob, options?: SubmitOptions): Promise<JobOutcome>;
  /** Reads and bundles a file, for those who submit it more than once. */
  prepare(file: string): Promise<PreparedJob>;
  /** Whether there is such a job shows with the first question. */
  job(id: string): Job;
  /** The latest first. */
  jobs(wanted?: JobsListed): Promise<readonly JobRow[]>;
  /** Ends every call that is under way with CANCELLED. Jobs go on. */
  close(): Promise<void>;
};

export type PoolWanted = {
  readonly containers: number;
  /** Of the state, the owner's included; 2 if left out. */
  readonly copies?: number;
  readonly durability?: 'memory' | 'local' | 'copies';
  readonly restart?: boolean;
  /** For the module; JSON. */
  readonly params?: unknown;
};

export type SessionOptions = CallTimeouts & {
  readonly streams: Streams;
  readonly clock: Clock;
  readonly random: Random;
  /** At least one. */
  readonly addresses: readonly Address[];
  /** Of this session alone: calls are recognised by it when they are sent again. */
  readonly name: string;
  readonly tryNewServers: number;
  /** How files with workflows are read; without it only prepared ones can be submitted. */
  readonly bundler?: WorkflowBundler;
};

type Answer<K extends Message['kind']> = Extract<Message, { readonly kind: K }>;

/** A session that nobody uses asks for nothing. */
const membersTtlMs = 10_000;
/** So often a handshake may fail by chance. */
const handshakesMax = 3;

/** `opened` ends when a node has answered, or with the reason why none did within that time. */
export function openSession(
  options: SessionOptions,
): ClusterSession & { waitUntilConnected(waitMs: number): Promise<void> } {
  return new Session(options);
}

class Session implements ClusterSession {
  readonly #site: ClientContext;
  readonly #times: CallTimeouts;
  readonly #calls: PoolCalls;
  readonly #jobs: SessionJobs;
  readonly #requests = new CompactingSet<{ cancel(error: RemusterError): void }>();
  #learnedMs = -Infinity;
  #closing: Promise<void> | undefined;

  constructor({ streams, clock, random, addresses, name, tryNewServers, bundler, ...times }: SessionOptions) {
    const servers = new ServerList(addresses, random.fork('servers'));
    const silence = new LivenessMonitor(clock, streams);
    this.#site = { clock, random: random.fork('pauses'), streams, servers, silence, tryNewServers };
    this.#times = times;
    this.#calls = new PoolCalls(this.#site, times, name, () => this.#refresh());
    const ask: SendRequest = (question, kind, limits) => {
      this.#refresh();
      return this.#ask(question, kind, { ...callDeadlines(clock.nowMs(), {}, times), ...limits });
    };
    this.#jobs = new SessionJobs(ask, times.requestTimeoutMs, name, bundler);
  }

  async waitUntilConnected(waitMs: number): Promise<void> {
    const nowMs = this.#site.clock.nowMs();
    const isPermanent = ({ message }: RemusterError, times: number): boolean =>
      times >= handshakesMax && message.includes('handshake');
    const deadlineMs = nowMs + (waitMs === 0 ? this.#times.requestTimeoutMs : waitMs);
    const limits = { deadlineMs, retryUntilMs: nowMs + waitMs, isPermanent };
    this.#learn(await this.#ask({ kind: 'listMembers' }, 'listMembersReply', limits));
  }

  async members(): Promise<readonly ClusterMember[]> {
    const list = await this.#ask({ kind: 'listMembers' }, 'listMembersReply', this.#limits());
    this.#learn(list);
    return list.members.map(flat);
  }

  async echo(payload: Uint8Array): Promise<Uint8Array> {
    return (await this.#ask({ kind: 'echo', payload }, 'echoReply', this.#limits())).payload;
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

  async #managePool(action: 'create' | 'delete', words: object): Promise<void> {
    await this.#ask({ kind: 'managePool', action, spec: JSON.stringify(words) }, 'managePoolReply', this.#limits());
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
    for (const errand of [...this.#requests]) errand.cancel(new RemusterError('CANCELLED', 'the session was closed'));
    this.#site.silence.close();
    await toPromise<void>((done) => this.#site.streams.close(done));
  }

  #limits(): Pick<ClusterRequest<never>, 'deadlineMs' | 'retryUntilMs'> {
    const { requestTimeoutMs, retryTimeoutMs } = this.#times;
    return callDeadlines(
      this.#site.clock.nowMs(),
      { timeoutMs: requestTimeoutMs },
      { requestTimeoutMs, retryTimeoutMs },
    );
  }

  async #ask<K extends Message['kind']>(
    question: Message,
    kind: K,
    limits: Omit<ClusterRequest<never>, 'body' | 'isBoundToNode' | 'classify'>,
  ): Promise<Answer<K>> {
    if (this.#closing !== undefined) throw new RemusterError('CANCELLED', 'the session is closed');
    const classify = (answer: Message): ReturnType<ClusterRequest<Answer<K>>['classify']> => ({
      outcome:
        answer.kind === kind
          ? success(answer as Answer<K>)
          : failure('MALFORMED', `${answer.kind} answers ${question.kind}`),
    });
    const body = encodeMessage(question);
    return await toPromise<Answer<K>>((done) => {
      const errand = new RetryingRequest<Answer<K>>(
        this.#site,
        { ...limits, body, isBoundToNode: false, classify },
        (outcome) => {
          this.#requests.delete(errand);
          done(outcome);
        },
      );
      this.#requests.add(errand);
      errand.start();
    });
  }

  /** In the background, at most every few seconds; that it failed is no news to those who call. */
  #refresh(): void {
    const nowMs = this.#site.clock.nowMs();
    if (nowMs - this.#learnedMs < membersTtlMs) return;
    this.#learnedMs = nowMs;
    const limits = { deadlineMs: nowMs + this.#times.requestTimeoutMs, retryUntilMs: nowMs };
    this.#ask({ kind: 'listMembers' }, 'listMembersReply', limits).then(
      (list) => this.#learn(list),
      () => undefined,
    );
  }

  #learn({ members }: Answer<'listMembersReply'>): void {
    this.#learnedMs = this.#site.clock.nowMs();
    const alive = members.filter(({ state, entry }) => state === 'alive' && !entry.roles.includes('client'));
    this.#site.servers.update(alive.map(({ entry: { host, port } }) => ({ host, port })));
  }
}

/** What this version does not know yet is null. */
function flat({ entry, state, incarnation, health, stuck, lagMs, silentMs }: MemberView): ClusterMember {
  return { ...entry, state, incarnation, health, stuck, lagMs, silentMs, registration: null, loadLevel: null };
}
