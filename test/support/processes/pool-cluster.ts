/** Nodes with containers as processes: start, kill, restart with the same data and port. */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import type { RemusterError } from '../../../src/base/errors.ts';
import { type ClusterSession, connect, type ConnectOptions } from '../../../src/client/index.ts';
import type { ModuleDefinition, Methods, PoolHandle } from '../../../src/containers/module.ts';
import type { PoolRequest } from '../../../src/placement/operations/pool-spec.ts';
import type { ContainerView, PoolDetails } from '../../../src/placement/operations/pool-views.ts';
import { type Agent, bindable, ProcessLab, members, type ChildProgram } from './process-lab.ts';
import { agreed, httpCall, get, type Leader, waitMsMax, fetchNodeStatus, until } from './manager-requests.ts';

export const counterModule = resolve(import.meta.dirname, 'counter-module.ts');

/** Each start takes a processor for a second or two, and has a deadline. */
const startsAtOnce = 4;

export type PoolSpec = Omit<PoolRequest, 'name'>;

export class PoolCluster {
  readonly lab: ProcessLab;
  readonly #words: readonly string[];
  readonly #agents = new Map<string, Agent>();
  readonly #own = new Map<string, readonly string[]>();
  readonly #ended: ChildProgram[] = [];
  readonly #sessions: ClusterSession[] = [];

  private constructor(lab: ProcessLab, words: readonly string[]) {
    this.lab = lab;
    this.#words = ['--modules', counterModule, ...words];
  }

  /** Of each node the roles. The first one begins the group, all others join it. */
  static async start(
    context: { after(end: () => Promise<void>): void },
    nodes: Readonly<Record<string, string>>,
    words: readonly string[] = [],
  ): Promise<PoolCluster> {
    const cluster = new PoolCluster(new ProcessLab(context), words);
    context.after(async () => void (await Promise.all(cluster.#sessions.map((session) => session.close()))));
    const [[first, roles], ...others] = Object.entries(nodes) as [[string, string], ...[string, string][]];
    await cluster.add(first, ['--roles', roles], ['--bootstrap']);
    while (others.length > 0) {
      const some = others.splice(0, startsAtOnce);
      await Promise.all(some.map(([name, own]) => cluster.add(name, ['--roles', own])));
    }
    await cluster.settled();
    return cluster;
  }

  /** `own` words are those of each of its lives, `first` ones of this life only. */
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
    return this.all.filter((agent) => !this.#ended.includes(agent));
  }

  others(...not: readonly Agent[]): [Agent, ...Agent[]] {
    return this.up.filter((agent) => !not.includes(agent)) as [Agent, ...Agent[]];
  }

  /** As all that are up see it. */
  async leader(after = 0): Promise<Leader & { readonly agent: Agent }> {
    const leader = await agreed(this.up, after);
    return { ...leader, agent: this.get(leader.name) };
  }

  /** Everybody sees everybody alive, and all are registered and active. */
  async settled(): Promise<void> {
    const names = this.up.map(({ name }) => name).toSorted();
    await Promise.all(
      this.up.map(async (agent) => {
        await until(`${agent.name} to see ${names.join()} alive`, async () => {
          const rows = (await members(agent.addr)).filter(({ state }) => state === 'alive');
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
    this.#ended.push(...agents);
    for (const agent of agents) agent.kill('SIGKILL');
    for (const agent of agents)
      assert.equal((await agent.waitForExit()).signal, 'SIGKILL', `${agent.name}\n${agent.stderr}`);
  }

  /** Asks them to end; they do, in good order. */
  async stop(...agents: readonly Agent[]): Promise<void> {
    this.#ended.push(...agents);
    for (const agent of agents) agent.kill('SIGTERM');
    for (const agent of agents) {
      assert.deepEqual(
        await agent.waitForExit(),
        { code: 0, signal: null },
        `${agent.name}\n${agent.stderr.slice(-4_000)}`,
      );
    }
  }

  /** Somebody else has told it to end. */
  async awaitExit(agent: Agent): Promise<void> {
    this.#ended.push(agent);
    assert.deepEqual(
      await agent.waitForExit(),
      { code: 0, signal: null },
      `${agent.name}\n${agent.stderr.slice(-4_000)}`,
    );
  }

  /** The same data, the same port, and all the others to ask. Ready when it has joined. */
  async restart(name: string, words: readonly string[] = []): Promise<Agent> {
    const { port } = this.get(name);
    await bindable(port);
    return await this.#start(name, ['--port', String(port), ...words]);
  }

  /** A client of the cluster that knows all nodes which are up, or only those that are named. */
  async session(options: Partial<ConnectOptions> = {}): Promise<ClusterSession> {
    const addr = this.up.map(({ port }) => `127.0.0.1:${port}`);
    const session = await connect({ addr, secret: this.lab.env['REMUSTER_AUTH_SECRET']!, ...options });
    this.#sessions.push(session);
    return session;
  }

  /** Makes a pool through one node, and waits until all of it is open and has its copies. */
  async pool<M extends Methods>(
    definition: ModuleDefinition<M>,
    name: string,
    wish: Omit<PoolSpec, 'module'>,
    session: ClusterSession,
  ): Promise<PoolHandle<M>> {
    await this.create(name, { ...wish, module: definition.name });
    await this.whole(name);
    return session.pool(definition, name);
  }

  async create(name: string, wish: PoolSpec, through: Agent = this.#any): Promise<void> {
    const { code, body } = await httpCall(through, 'POST', '/v1/pools', { name, ...wish });
    assert.equal(code, 'OK', JSON.stringify(body));
  }

  async containers(pool: string, through: Agent = this.#any): Promise<readonly ContainerView[]> {
    return ((await get(through, `/v1/pools/${pool}`)) as PoolDetails).containers;
  }

  async owner(pool: string, container: number): Promise<Agent> {
    const { owner } = (await this.containers(pool))[container]!;
    return this.get(owner ?? assert.fail(`nobody owns ${pool}/${container}`));
  }

  /** Every container is open, has all its copies in sync on nodes that are up, and none is on its way. */
  async whole(pool: string, through: Agent = this.#any): Promise<readonly ContainerView[]> {
    let missing: readonly unknown[] = [];
    const look = async (): Promise<readonly ContainerView[] | undefined> => {
      const { code, body } = await httpCall(through, 'GET', `/v1/pools/${pool}`);
      missing = [code, body];
      if (code !== 'OK') return undefined;
      const { containers, copies, containerCount } = body as PoolDetails;
      const names = new Set(this.up.map(({ name }) => name));
      const isWhole = ({ owner, phase, inSync, move }: ContainerView): boolean =>
        phase === 'serving' && move === null && names.has(owner ?? '') && inSync.length >= Math.min(copies, names.size);
      missing = containers.filter((container) => !isWhole(container));
      return containers.length === containerCount && missing.length === 0 ? containers : undefined;
    };
    return await until(`${pool} whole`, look, () => missing.map((one) => JSON.stringify(one)).join('\n'));
  }

  async migrate(pool: string, container: number, to: Agent): Promise<void> {
    const path = `/v1/containers/${pool}/${container}/migrate`;
    const seen: unknown[] = [];
    // A node that is slow for a moment is refused as one that does not answer, or the move is given up: then once more.
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

  /** Nobody has ended who was not told to. */
  nobodyFell(): void {
    assert.deepEqual(this.lab.bystandersDown(...this.#ended), []);
  }

  /** All end in good order, one after the other or at once, and nothing of them is left. */
  async end(): Promise<void> {
    this.nobodyFell();
    await Promise.all(this.#sessions.splice(0).map((session) => session.close()));
    const agents = this.up;
    await this.stop(...agents);
    for (const { port, httpPort } of agents) await Promise.all([bindable(port), bindable(httpPort)]);
    this.nobodyFell();
  }

  get #any(): Agent {
    return this.up.find(({ isUp }) => isUp) ?? assert.fail('no node is up');
  }

  async #start(name: string, words: readonly string[]): Promise<Agent> {
    const others = this.all.filter((other) => other.name !== name);
    const joins = others.length === 0 ? [] : ['--join', others.map(({ port }) => `127.0.0.1:${port}`).join()];
    const agent = await this.lab.agent(name, [...this.#words, ...this.#own.get(name)!, ...joins, ...words]);
    this.#agents.set(name, agent);
    return agent;
  }
}

/** A call that must end in time, in a value or a coded error: one that does neither hangs, and fails the test. */
export async function ended<T>(what: string, work: Promise<T>, limitMs: number = waitMsMax): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, failed) => {
    timer = setTimeout(() => failed(new Error(`hangs for ${limitMs} ms: ${what}`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The code with which a call fails; it has to. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    return (error as RemusterError).code;
  }
  return assert.fail('that was to fail');
}
