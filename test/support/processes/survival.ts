/** Writers keep writing while nodes are killed and restarted; at the end every acknowledged write is checked. */
import assert from 'node:assert/strict';
import { setImmediate, setTimeout as pause } from 'node:timers/promises';
import type { ClusterSession } from '../../../src/client/index.ts';
import type { PoolHandle } from '../../../src/containers/module.ts';
import { kv } from '../../../src/modules/kv/kv.ts';
import { checkByKey } from '../../simulation/checking/linearizability.ts';
import type { Agent } from './process-lab.ts';
import { absentKey, KvHistory, kvModel, type KvRead } from './kv-history.ts';
import { httpCall, waitMsMax } from './manager-requests.ts';
import { withDeadline, PoolCluster } from './pool-cluster.ts';

export type SurvivalOptions = {
  readonly durationMs: number;
  readonly killEveryMs: number;
  readonly random: () => number;
  readonly report: (line: string) => void;
};

const writersCount = 8;
const poolName = 'survival';
const containers = 16;
/** The writers change to new shared keys after this many calls, so that the history of each can be checked. */
const sharedKeys = 24;
const sharedForCalls = 2_400;
const stepsMax = 200_000;
const nodes = {
  ...{ m1: 'manager', m2: 'manager', m3: 'manager' },
  ...{ w1: 'worker', w2: 'worker', w3: 'worker', w4: 'worker', w5: 'worker' },
};

type KvPool = PoolHandle<(typeof kv)['methods']>;

/** Writes and reads, one call after the other: keys of its own, each once, and keys that other writers share. */
class SurvivalWriter {
  /** Its own keys whose write was acknowledged, and those with an unknown outcome. */
  readonly acknowledged = new Map<string, KvRead>();
  readonly uncertain = new Map<string, string>();
  readonly running: Promise<void>;
  readonly #name: string;
  readonly #pool: KvPool;
  readonly #history: KvHistory;
  readonly #options: SurvivalOptions;
  #calls = 0;
  #wakeUp: () => void = () => undefined;
  #isStopped = false;
  progress = 0;

  constructor(name: string, pool: KvPool, history: KvHistory, options: SurvivalOptions) {
    this.#name = name;
    this.#pool = pool;
    this.#history = history;
    this.#options = options;
    this.running = this.#run();
  }

  /** Starts no further call. */
  halt(): void {
    this.#isStopped = true;
  }

  async stop(): Promise<void> {
    this.halt();
    await withDeadline(`the last call of ${this.#name}`, this.running, 2 * waitMsMax);
  }

  /** Waits until one more write is acknowledged. */
  async awaitNextWrite(): Promise<void> {
    const goal = this.progress + 1;
    const moved = async (): Promise<void> => {
      while (this.progress < goal) await new Promise<void>((done) => (this.#wakeUp = done));
    };
    await withDeadline(`${this.#name} to write`, moved());
  }

  async #run(): Promise<void> {
    const { random } = this.#options;
    while (!this.#isStopped) {
      // A closed session refuses calls at once: without this yield the loop would block the process.
      await setImmediate();
      const value = `${this.#name}.${++this.#calls}`;
      const kind = random();
      const period = Math.floor(this.#history.operations.length / sharedForCalls);
      const key = `shared.${period}.${Math.floor(random() * sharedKeys)}`;
      if (kind < 0.25) await this.#once(`own.${value}`, value);
      else if (kind < 0.4) await this.#put(key, { value });
      else {
        const at = await this.#get(key);
        if (at !== undefined && kind < 0.8) await this.#put(key, { value, at });
      }
    }
  }

  async #get(key: string): Promise<KvRead | undefined> {
    return await this.#history.get(
      key,
      async () => ((await this.#pool.hash(key).get(key)) as KvRead | null) ?? absentKey,
    );
  }

  async #put(key: string, written: { readonly value: string; readonly at?: KvRead }): Promise<KvRead | undefined> {
    const { value, at } = written;
    const options = at === undefined ? {} : { ifVersion: at.version };
    const seen = await this.#history.put(key, written, async () => await this.#pool.hash(key).put(key, value, options));
    if (seen === undefined) return undefined;
    this.progress += 1;
    this.#wakeUp();
    return seen;
  }

  async #once(key: string, value: string): Promise<void> {
    this.uncertain.set(key, value);
    const seen = await this.#put(key, { value, at: absentKey });
    if (seen === undefined) return;
    this.uncertain.delete(key);
    this.acknowledged.set(key, seen);
  }
}

/** Runs the writers and the kills; throws if a write is lost, doubled or invented. */
export async function runSurvival(
  context: { after(end: () => Promise<void>): void },
  options: SurvivalOptions,
): Promise<void> {
  const { report } = options;
  const cluster = await PoolCluster.start(context, nodes);
  const main = await cluster.session();
  const pool = await cluster.pool(kv, poolName, { containers, copies: 2 }, main);
  const history = new KvHistory();
  const sessions = await Promise.all(Array.from({ length: writersCount }, () => cluster.session()));
  const writers = sessions.map(
    (session, at) => new SurvivalWriter(`w${at}`, session.pool(kv, poolName), history, options),
  );
  const kills = await killRepeatedly(cluster, writers, options).catch(async (error: unknown) => {
    for (const writer of writers) writer.halt();
    throw new Error(`${String(error)}\n${await statusOf(cluster, writers, history)}`, { cause: error });
  });
  await Promise.all(writers.map((writer) => writer.stop()));
  cluster.assertNoUnexpectedExit();
  await cluster.awaitReady();
  await cluster.awaitHealthy(poolName);
  const codes = [...history.codes].map(([code, count]) => `${count} ${code}`).join(', ');
  report(`${kills} kills, ${history.acknowledged} writes acknowledged, ${history.unknown} unknown; calls: ${codes}`);
  await verify(pool, history, writers, main);
  await cluster.end();
}

/** The state of pool and writers, for the error of a writer that does not continue. */
async function statusOf(cluster: PoolCluster, writers: readonly SurvivalWriter[], history: KvHistory): Promise<string> {
  const seen = cluster.up.map(async (agent) => {
    const { code, body } = await httpCall(agent, 'GET', `/v1/pools/${poolName}`);
    return `${agent.name} ${code} ${JSON.stringify(body)}`;
  });
  const progress = writers.map((writer) => writer.progress).join(', ');
  const open = history.operations.filter(({ endedAt }) => endedAt === Infinity).map((one) => JSON.stringify(one));
  return [`acknowledged: ${progress}`, 'without a reply:', ...open, ...(await Promise.all(seen))].join('\n');
}

async function killRepeatedly(
  cluster: PoolCluster,
  writers: readonly SurvivalWriter[],
  options: SurvivalOptions,
): Promise<number> {
  const { durationMs, killEveryMs, random, report } = options;
  const startMs = Date.now();
  let kills = 0;
  for (let nextMs = startMs + killEveryMs; nextMs <= startMs + durationMs;) {
    await pause(Math.max(0, nextMs - Date.now()));
    cluster.assertNoUnexpectedExit();
    const victim = chooseVictim(cluster, random);
    const beforeMs = Date.now();
    await cluster.kill(victim);
    const allWrite = Promise.all(writers.map((writer) => writer.awaitNextWrite())).then(() => Date.now() - beforeMs);
    // Restarted at once: the killed node may have the only complete replica of a container.
    const [resumedMs] = await Promise.all([allWrite, cluster.restart(victim.name)]);
    kills += 1;
    report(
      `${Math.round((Date.now() - startMs) / 1_000)} s: killed ${victim.name}, all write again after ${resumedMs} ms`,
    );
    nextMs = Math.max(nextMs + killEveryMs, Date.now());
  }
  cluster.assertNoUnexpectedExit();
  return kills;
}

/** Mostly a worker, sometimes a manager. */
function chooseVictim(cluster: PoolCluster, random: () => number): Agent {
  const letter = random() < 0.75 ? 'w' : 'm';
  const candidates = cluster.up.filter(({ name }) => name.startsWith(letter));
  return candidates[Math.floor(random() * candidates.length)] as Agent;
}

async function verify(
  pool: KvPool,
  history: KvHistory,
  writers: readonly SurvivalWriter[],
  session: ClusterSession,
): Promise<void> {
  assert.ok(history.acknowledged > 0, 'nothing was written');
  const found = await readAll(pool);
  const shared = new Set(history.operations.map(({ key }) => key).filter((key) => key.startsWith('shared.')));
  for (const { acknowledged, uncertain } of writers) {
    for (const [key, seen] of acknowledged) assert.deepEqual(found.get(key), seen, `${key} was acknowledged`);
    for (const [key, value] of uncertain) assert.ok([undefined, value].includes(found.get(key)?.value), key);
  }
  for (const key of found.keys()) {
    const isKnown = shared.has(key) || writers.some((one) => one.acknowledged.has(key) || one.uncertain.has(key));
    assert.ok(isKnown, `no writer wrote ${key}`);
  }
  // A final read of each shared key ends its history.
  for (const key of shared) await history.get(key, async () => found.get(key) ?? absentKey);
  const wrong = checkByKey(kvModel, history.operations, stepsMax);
  assert.equal(wrong, undefined, JSON.stringify(wrong, undefined, 1));
  // Each applied write raises the revision of its container by one, so a repeated write is counted twice.
  const revisions = await session.pool(kv, poolName).broadcast().revision();
  const applied = revisions.reduce((sum, revision) => sum + revision, 0);
  const { acknowledged, unknown } = history;
  assert.ok(applied >= acknowledged && applied <= acknowledged + unknown, `${applied} of ${acknowledged}+${unknown}`);
}

async function readAll(pool: KvPool): Promise<Map<string, KvRead>> {
  const found = new Map<string, KvRead>();
  for (let from: string | null = ''; from !== null;) {
    const page = (await pool.broadcast().list({ from, limit: 500 })) as {
      items: readonly (KvRead & { readonly key: string })[];
      next: string | null;
    };
    for (const { key, value, version } of page.items) found.set(key, { value, version });
    from = page.next;
  }
  return found;
}
