/**
 * A kv pool with one writer for each container, so that its last acknowledged value and its version are known. Each
 * write raises the version by one, so the next write finds one that was lost or applied twice.
 */
import assert from 'node:assert/strict';
import { type ClusterSession } from '../../../src/client/index.ts';
import type { PoolHandle } from '../../../src/containers/module.ts';
import { kv } from '../../../src/modules/kv/kv.ts';
import type { Agent } from './process-lab.ts';
import { fetchEvents, until } from './manager-requests.ts';
import { withDeadline, type PoolCluster } from './pool-cluster.ts';

const key = 'the key';

export class KvPool {
  readonly name: string;
  readonly containers: number;
  readonly #cluster: PoolCluster;
  readonly #session: ClusterSession;
  readonly #written: number[];
  #isWriting = false;
  #writers: readonly Promise<void>[] = [];

  private constructor(cluster: PoolCluster, session: ClusterSession, name: string, containers: number) {
    this.#cluster = cluster;
    this.#session = session;
    this.name = name;
    this.containers = containers;
    this.#written = Array.from({ length: containers }, () => 0);
  }

  /** Creates the pool and waits until it is healthy; each container has a first write. */
  static async create(
    cluster: PoolCluster,
    session: ClusterSession,
    name: string,
    { containers, copies }: { readonly containers: number; readonly copies: number },
  ): Promise<KvPool> {
    await cluster.create(name, { module: 'kv', containers, copies });
    await cluster.awaitHealthy(name);
    const pool = new KvPool(cluster, session, name, containers);
    await pool.write();
    return pool;
  }

  /** Writes once to each container. */
  async write(): Promise<void> {
    await Promise.all(this.#written.map((_, container) => this.#put(container)));
  }

  /** Writes to each container repeatedly until `stopWriting`. */
  startWriting(): void {
    this.#isWriting = true;
    this.#writers = this.#written.map(async (_, container) => {
      while (this.#isWriting) await this.#put(container);
    });
    // `stopWriting` throws the errors of the writers, so they are not unhandled before.
    for (const writer of this.#writers) writer.catch(() => {});
  }

  /** Ends writing; every write that was started has succeeded. */
  async stopWriting(): Promise<void> {
    this.#isWriting = false;
    await Promise.all(this.#writers);
  }

  /** Every container has exactly the last acknowledged value, as read through these nodes. */
  async assertWritesKept(...at: readonly Agent[]): Promise<void> {
    const addr = (at.length > 0 ? at : this.#cluster.up).map(({ port }) => `127.0.0.1:${port}`);
    const handle = this.#handle(await this.#cluster.session({ addr }));
    for (const [container, written] of this.#written.entries()) {
      const item = await withDeadline('a read', handle.hash(container).get(key));
      assert.deepEqual(item, { value: written, version: written }, `${this.name}/${container}`);
    }
  }

  /** The names of the owners, by container. */
  async owners(): Promise<readonly (string | null)[]> {
    return (await this.#cluster.containers(this.name)).map(({ owner }) => owner);
  }

  async ownedBy({ name }: Agent): Promise<readonly number[]> {
    return (await this.owners()).flatMap((owner, container) => (owner === name ? [container] : []));
  }

  /** Waits until every container is served by one of these nodes. */
  async awaitOwners(...agents: readonly Agent[]): Promise<void> {
    const names = agents.map(({ name }) => name);
    await until(`${this.name} with ${names.join()}`, async () => {
      const all = await this.#cluster.containers(this.name);
      return all.every(({ owner, phase }) => phase === 'serving' && names.includes(owner ?? '')) ? true : undefined;
    });
  }

  async #put(container: number): Promise<void> {
    const value = (this.#written[container] ?? 0) + 1;
    const { version } = await withDeadline('a write', this.#handle(this.#session).hash(container).put(key, value));
    assert.equal(version, value, `${this.name}/${container}: a write was lost or applied twice`);
    this.#written[container] = value;
  }

  #handle(session: ClusterSession): PoolHandle<(typeof kv)['methods']> {
    return session.pool(kv, this.name);
  }
}

/** The modes of a node since its start, with their reasons. */
export async function modesOf(agent: Agent): Promise<string[]> {
  const own = (await fetchEvents(agent)).filter(({ type, member }) => type === 'node.state' && member === agent.name);
  return own.map(({ mode, reason }) => `${String(mode)} ${String(reason)}`);
}

/** The registry confirmed the address table of the node before the node became active. */
export async function assertConfirmedBeforeActive(agent: Agent): Promise<void> {
  const events = await fetchEvents(agent);
  const confirmed = events.find(({ type }) => type === 'table.confirmed');
  const active = events.find(({ type, member, mode }) => {
    return type === 'node.state' && member === agent.name && mode === 'active';
  });
  assert.ok(confirmed !== undefined && active !== undefined && confirmed.seq < active.seq, agent.name);
}

/** No event of these nodes says that a node was lost. */
export async function assertNoNodeLost(targets: readonly Agent[]): Promise<void> {
  for (const target of targets) {
    assert.deepEqual(
      (await fetchEvents(target)).filter(({ type }) => type === 'node.lost'),
      [],
    );
  }
}
