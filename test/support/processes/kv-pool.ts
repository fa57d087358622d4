/**
 * A kv pool with one writer for each container, so that everything in it is known: the last acknowledged value, and the
 * version, which grows by one with each write that was done. One that was lost or done twice shows at the next.
 */
import assert from 'node:assert/strict';
import { type ClusterSession } from '../../../src/client/index.ts';
import type { PoolHandle } from '../../../src/containers/module.ts';
import { kv } from '../../../src/modules/kv/kv.ts';
import type { Agent } from './process-lab.ts';
import { history, until } from './manager-requests.ts';
import { ended, type PoolCluster } from './pool-cluster.ts';

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

  /** Made, open and with its copies; each container has a first write. */
  static async create(
    cluster: PoolCluster,
    session: ClusterSession,
    name: string,
    { containers, copies }: { readonly containers: number; readonly copies: number },
  ): Promise<KvPool> {
    await cluster.create(name, { module: 'kv', containers, copies });
    await cluster.whole(name);
    const pool = new KvPool(cluster, session, name, containers);
    await pool.write();
    return pool;
  }

  /** Once to each container. */
  async write(): Promise<void> {
    await Promise.all(this.#written.map((_, container) => this.#put(container)));
  }

  /** Again and again to each container, until `endWriting`. */
  beginWriting(): void {
    this.#isWriting = true;
    this.#writers = this.#written.map(async (_, container) => {
      while (this.#isWriting) await this.#put(container);
    });
    // Thrown by `endWriting`, and not before.
    for (const writer of this.#writers) writer.catch(() => {});
  }

  /** Every write that was begun has been done. */
  async endWriting(): Promise<void> {
    this.#isWriting = false;
    await Promise.all(this.#writers);
  }

  /** Every container has exactly what was acknowledged, as read through these nodes. */
  async assertKept(...at: readonly Agent[]): Promise<void> {
    const addr = (at.length > 0 ? at : this.#cluster.up).map(({ port }) => `127.0.0.1:${port}`);
    const handle = this.#handle(await this.#cluster.session({ addr }));
    for (const [container, written] of this.#written.entries()) {
      const item = await ended('a read', handle.hash(container).get(key));
      assert.deepEqual(item, { value: written, version: written }, `${this.name}/${container}`);
    }
  }

  /** Names of nodes, by container. */
  async owners(): Promise<readonly (string | null)[]> {
    return (await this.#cluster.containers(this.name)).map(({ owner }) => owner);
  }

  async ownedBy({ name }: Agent): Promise<readonly number[]> {
    return (await this.owners()).flatMap((owner, container) => (owner === name ? [container] : []));
  }

  /** All of it is open, and only these own containers of it. */
  async ownedOnlyBy(...agents: readonly Agent[]): Promise<void> {
    const names = agents.map(({ name }) => name);
    await until(`${this.name} with ${names.join()}`, async () => {
      const all = await this.#cluster.containers(this.name);
      return all.every(({ owner, phase }) => phase === 'serving' && names.includes(owner ?? '')) ? true : undefined;
    });
  }

  async #put(container: number): Promise<void> {
    const value = (this.#written[container] ?? 0) + 1;
    const { version } = await ended('a write', this.#handle(this.#session).hash(container).put(key, value));
    assert.equal(version, value, `${this.name}/${container}: a write was lost or done twice`);
    this.#written[container] = value;
  }

  #handle(session: ClusterSession): PoolHandle<(typeof kv)['methods']> {
    return session.pool(kv, this.name);
  }
}

/** The modes of a node in this life, with their reasons. */
export async function modesOf(agent: Agent): Promise<string[]> {
  const own = (await history(agent)).filter(({ type, member }) => type === 'node.state' && member === agent.name);
  return own.map(({ mode, reason }) => `${String(mode)} ${String(reason)}`);
}

/** It knew from the registry which containers it has before others could count on it. */
export async function assertReconciledFirst(agent: Agent): Promise<void> {
  const events = await history(agent);
  const confirmed = events.find(({ type }) => type === 'table.confirmed');
  const active = events.find(({ type, member, mode }) => {
    return type === 'node.state' && member === agent.name && mode === 'active';
  });
  assert.ok(confirmed !== undefined && active !== undefined && confirmed.seq < active.seq, agent.name);
}

/** No node was given up, as far as these tell. */
export async function assertNoneLost(targets: readonly Agent[]): Promise<void> {
  for (const target of targets) {
    assert.deepEqual(
      (await history(target)).filter(({ type }) => type === 'node.lost'),
      [],
    );
  }
}
