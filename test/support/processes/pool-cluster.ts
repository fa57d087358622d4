/** Nodes with containers as processes: start, kill, restart with the same data and port. */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import type { RemusterError } from '../../../src/base/errors.ts';
import { type ClusterSession, connect, type ConnectOptions } from '../../../src/client/index.ts';
import type { ModuleDefinition, Methods, PoolHandle } from '../../../src/containers/module.ts';
import type { PoolRequest } from '../../../src/placement/operations/pool-spec.ts';
import type { ContainerView, PoolDetails } from '../../../src/placement/operations/pool-views.ts';
import { type Agent, awaitBindable, ProcessLab, fetchMembers, type ChildProgram } from './process-lab.ts';
import {
  awaitVoters,
  awaitCommonLeader,
  httpCall,
  get,
  type Leader,
  waitMsMax,
  fetchNodeStatus,
  until,
} from './manager-requests.ts';

export const counterModule = resolve(import.meta.dirname, 'counter-module.ts');

/** A start takes a second or two of CPU time and has a deadline. */
const concurrentStarts = 4;

export type PoolSpec = Omit<PoolRequest, 'name'>;

export class PoolCluster {
  readonly lab: ProcessLab;
  readonly #args: readonly string[];
  readonly #agents = new Map<string, Agent>();
  readonly #own = new Map<string, readonly string[]>();
  readonly #expectedExits: ChildProgram[] = [];
  readonly #sessions: ClusterSession[] = [];

  private constructor(lab: ProcessLab, args: readonly string[]) {
    this.lab = lab;
    this.#args = ['--modules', counterModule, ...args];
  }

  /** `nodes`: the roles of each node by its name. The first node bootstraps the group, all others join. */
  static async start(
    context: { after(end: () => Promise<void>): void },
    nodes: Readonly<Record<string, string>>,
    args: readonly string[] = [],
  ): Promise<PoolCluster> {
    const cluster = new PoolCluster(new ProcessLab(context), args);
    context.after(async () => void (await Promise.all(cluster.#sessions.map((session) => session.close()))));
    const [[first, roles], ...others] = Object.entries(nodes) as [[string, string], ...[string, string][]];
    await cluster.add(first, ['--roles', roles], ['--bootstrap']);
    while (others.length > 0) {
      const some = others.splice(0, concurrentStarts);
      await Promise.all(some.map(([name, own]) => cluster.add(name, ['--roles', own])));
    }
    await cluster.awaitReady();
    // While there are two voters, the loss of one of them stops the group.
    const managers = Object.entries(nodes).flatMap(([name, own]) => (own.includes('manager') ? [name] : []));
    if (managers.length === 3) await awaitVoters(cluster.get(first), managers);
    return cluster;
  }

  /** `own` arguments apply to every start of the node, `first` ones to this start only. */
  async add(name: string, own: readonly string[], first: readonly string[] = []): Promise<Agent> {
    this.#own.set(name, own);
    return await this.#start(name, first);
  }

  get(name: string): Agent {
    return this.#agents.get(name) ?? assert.fail(`no node ${name}`);
  }

  get all(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  get up(): readonly Agent[] {
    return this.all.filter((agent) => !this.#expectedExits.includes(agent));
  }

  others(...not: readonly Agent[]): [Agent, ...Agent[]] {
    return this.up.filter((agent) => !not.includes(agent)) as [Agent, ...Agent[]];
  }

  /** The leader that all running nodes agree on. */
  async leader(after = 0): Promise<Leader & { readonly agent: Agent }> {
    const leader = await awaitCommonLeader(this.up, after);
    return { ...leader, agent: this.get(leader.name) };
  }

  /** Waits until all running nodes see each other alive, and are registered and active. */
  async awaitReady(): Promise<void> {
    const names = this.up.map(({ name }) => name).toSorted();
    await Promise.all(
      this.up.map(async (agent) => {
        await until(`${agent.name} to see ${names.join()} alive`, async () => {
          const rows = (await fetchMembers(agent.addr)).filter(({ state }) => state === 'alive');
          const seen = new Set(rows.map(({ name }) => name));
          return names.every((name) => seen.has(name)) ? true : undefined;
        });
        await until(`${agent.name} active`, async () =>
          (await fetchNodeStatus(agent)).registration === 'active' ? true : undefined,
        );
      }),
    );
  }

  async kill(...agents: readonly Agent[]): Promise<void> {
    this.#expectedExits.push(...agents);
    for (const agent of agents) agent.kill('SIGKILL');
    for (const agent of agents)
      assert.equal((await agent.waitForExit()).signal, 'SIGKILL', `${agent.name}\n${agent.stderr}`);
  }

  /** Sends SIGTERM and expects a graceful exit. */
  async stop(...agents: readonly Agent[]): Promise<void> {
    this.#expectedExits.push(...agents);
    for (const agent of agents) agent.kill('SIGTERM');
    for (const agent of agents) {
      assert.deepEqual(
        await agent.waitForExit(),
        { code: 0, signal: null },
        `${agent.name}\n${agent.stderr.slice(-4_000)}`,
      );
    }
  }

  /** Expects a graceful exit that something else has caused. */
  async awaitExit(agent: Agent): Promise<void> {
    this.#expectedExits.push(agent);
    assert.deepEqual(
      await agent.waitForExit(),
      { code: 0, signal: null },
      `${agent.name}\n${agent.stderr.slice(-4_000)}`,
    );
  }

  /** Restarts a node with its data and port; it joins through all others. Returns when it has joined. */
  async restart(name: string, args: readonly string[] = []): Promise<Agent> {
    const { port } = this.get(name);
    await awaitBindable(port);
    return await this.#start(name, ['--port', String(port), ...args]);
  }

  /** A client of the cluster that knows all running nodes, or those in `options`. */
  async session(options: Partial<ConnectOptions> = {}): Promise<ClusterSession> {
    const addr = this.up.map(({ port }) => `127.0.0.1:${port}`);
    const session = await connect({ addr, secret: this.lab.env['REMUSTER_AUTH_SECRET']!, ...options });
    this.#sessions.push(session);
    return session;
  }

  /** Creates a pool through one node, and waits until it is healthy. */
  async pool<M extends Methods>(
    definition: ModuleDefinition<M>,
    name: string,
    spec: Omit<PoolSpec, 'module'>,
    session: ClusterSession,
  ): Promise<PoolHandle<M>> {
    await this.create(name, { ...spec, module: definition.name });
    await this.awaitHealthy(name);
    return session.pool(definition, name);
  }

  async create(name: string, spec: PoolSpec, through: Agent = this.#any): Promise<void> {
    const { code, body } = await httpCall(through, 'POST', '/v1/pools', { name, ...spec });
    assert.equal(code, 'OK', JSON.stringify(body));
  }

  async containers(pool: string, through: Agent = this.#any): Promise<readonly ContainerView[]> {
    return ((await get(through, `/v1/pools/${pool}`)) as PoolDetails).containers;
  }

  async owner(pool: string, container: number): Promise<Agent> {
    const { owner } = (await this.containers(pool))[container]!;
    return this.get(owner ?? assert.fail(`no node owns ${pool}/${container}`));
  }

  /** Waits until every container is served, has all replicas in sync, and none is moving. */
  async awaitHealthy(pool: string, through: Agent = this.#any): Promise<readonly ContainerView[]> {
    let missing: readonly unknown[] = [];
    const poll = async (): Promise<readonly ContainerView[] | undefined> => {
      const { code, body } = await httpCall(through, 'GET', `/v1/pools/${pool}`);
      missing = [code, body];
      if (code !== 'OK') return undefined;
      const { containers, copies, containerCount } = body as PoolDetails;
      const names = new Set(this.up.map(({ name }) => name));
      const isHealthy = ({ owner, phase, inSync, move }: ContainerView): boolean =>
        phase === 'serving' && move === null && names.has(owner ?? '') && inSync.length >= Math.min(copies, names.size);
      missing = containers.filter((container) => !isHealthy(container));
      return containers.length === containerCount && missing.length === 0 ? containers : undefined;
    };
    return await until(`${pool} healthy`, poll, () => missing.map((one) => JSON.stringify(one)).join('\n'));
  }

  async migrate(pool: string, container: number, to: Agent): Promise<void> {
    const path = `/v1/containers/${pool}/${container}/migrate`;
    const seen: unknown[] = [];
    // Retries: a target that is slow for a moment is refused as unreachable, or the move is cancelled.
    await until(
      `${pool}/${container} on ${to.name}`,
      async () => {
        const { owner, phase, move, note } = (await this.containers(pool))[container]!;
        if (move !== null || phase !== 'serving') return undefined;
        if (owner === to.name) return true;
        const { code, body } = await httpCall(this.#any, 'POST', path, { to: to.name });
        seen.push({ owner, note, code, body });
        assert.ok(code === 'OK' || code === 'PRECONDITION', JSON.stringify(body));
        return undefined;
      },
      () => JSON.stringify(seen),
    );
  }

  /** No process has exited that the test did not end. */
  assertNoUnexpectedExit(): void {
    assert.deepEqual(this.lab.unexpectedExits(...this.#expectedExits), []);
  }

  /** Ends all nodes gracefully, and checks that their ports are free. */
  async end(): Promise<void> {
    this.assertNoUnexpectedExit();
    await Promise.all(this.#sessions.splice(0).map((session) => session.close()));
    const agents = this.up;
    await this.stop(...agents);
    for (const { port, httpPort } of agents) await Promise.all([awaitBindable(port), awaitBindable(httpPort)]);
    this.assertNoUnexpectedExit();
  }

  get #any(): Agent {
    return this.up.find(({ isUp }) => isUp) ?? assert.fail('no node is up');
  }

  async #start(name: string, args: readonly string[]): Promise<Agent> {
    const others = this.all.filter((other) => other.name !== name);
    const joins = others.length === 0 ? [] : ['--join', others.map(({ port }) => `127.0.0.1:${port}`).join()];
    const agent = await this.lab.agent(name, [...this.#args, ...this.#own.get(name)!, ...joins, ...args]);
    this.#agents.set(name, agent);
    return agent;
  }
}

/** The result of a call. A call that ends neither with a value nor an error within the limit fails the test. */
export async function withDeadline<T>(what: string, work: Promise<T>, limitMs: number = waitMsMax): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, failed) => {
    timer = setTimeout(() => failed(new Error(`not within ${limitMs} ms: ${what}`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The code of a call that must fail. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    return (error as RemusterError).code;
  }
  return assert.fail('the call did not fail');
}
