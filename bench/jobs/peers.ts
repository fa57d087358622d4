/** The job queues that Remuster is compared with, each worker in a process of its own. */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { type QueueServer, freePort, startPostgres, startRedis, startRestate } from './servers.ts';

/** With removeOnComplete a job is removed when it has ended. The others keep the latest ended jobs. */
export const queuePeerNames = [
  'BullMQ (fsync always)',
  'BullMQ (fsync always, removeOnComplete)',
  'BullMQ (fsync everysec, removeOnComplete)',
  'graphile-worker',
  'Restate',
] as const;
export type QueuePeerName = (typeof queuePeerNames)[number];
/** `bulk`: added in batches. `single`: added one by one, `inFlight` at a time. */
export type QueueRound = { readonly mode: 'bulk' | 'single'; readonly jobs: number; readonly inFlight: number };

const host = '127.0.0.1';
const cache = resolve(import.meta.dirname, '../../.cache/bench-jobs');
const packages = {
  bullmq: '6.7.0',
  ioredis: '6.0.0',
  'graphile-worker': '0.18.0',
  '@restatedev/restate-server': '1.7.12',
  '@restatedev/restate-sdk': '1.17.2',
};
const bulkSize = 1_000;
/** The number of ended jobs that the managers keep. */
export const historyJobs = 1_000;

/** Installs the packages if they are missing. Returns the reason of a failure. */
export function installPeers(): string | undefined {
  const manifest = join(cache, 'package.json');
  if (Object.keys(packages).every((name) => existsSync(join(cache, 'node_modules', name)))) return undefined;
  mkdirSync(cache, { recursive: true });
  writeFileSync(manifest, JSON.stringify({ name: 'bench-jobs', private: true, dependencies: packages }));
  try {
    execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: cache, stdio: 'pipe' });
    return undefined;
  } catch (error) {
    return String((error as { stderr?: unknown }).stderr ?? error).slice(0, 500);
  }
}

export class QueuePeer {
  readonly name: QueuePeerName;
  readonly #child: ChildProcess;

  private constructor(name: QueuePeerName, child: ChildProcess) {
    this.name = name;
    this.#child = child;
  }

  static async start(name: QueuePeerName, folder: string): Promise<QueuePeer> {
    // Printing is not measured.
    const child = fork(import.meta.filename, [name, folder], {
      ...{ execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
    });
    await once(child, 'message');
    return new QueuePeer(name, child);
  }

  /** Jobs per second. */
  async measure(round: QueueRound): Promise<number> {
    const replied = once(this.#child, 'message');
    this.#child.send(round);
    const exited = once(this.#child, 'exit').then(() => {
      throw new Error(`${this.name} exited during a round`);
    });
    exited.catch(() => undefined);
    return ((await Promise.race([replied, exited])) as [number])[0];
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }
}

type Peer = { run(round: QueueRound): Promise<void>; stop(): Promise<void> };

async function load<T>(name: string): Promise<T> {
  const path = createRequire(join(cache, 'package.json')).resolve(name);
  const loaded = (await import(path)) as { default?: T } & T;
  return loaded.default ?? loaded;
}

async function runConcurrently(
  count: number,
  concurrency: number,
  task: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const runTasks = async (): Promise<void> => {
    while (next < count) await task(next++);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, runTasks));
}

type Queue = {
  add(name: string, data: object): Promise<unknown>;
  addBulk(jobs: readonly { name: string; data: object }[]): Promise<unknown>;
  close(): Promise<void>;
};
type BullWorker = { on(event: 'completed', listener: () => void): void; close(): Promise<void> };
type BullMq = {
  Queue: new (name: string, options: object) => Queue;
  Worker: new (name: string, work: () => Promise<void>, options: object) => BullWorker;
};

async function bullMq(redis: QueueServer, endedJobsKept: number): Promise<Peer> {
  const { Queue, Worker } = await load<BullMq>('bullmq');
  const connection = { host, port: redis.port, maxRetriesPerRequest: null };
  const queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: { count: endedJobsKept } } });
  const worker = new Worker('bench', async () => {}, { connection, concurrency: 100 });
  let completed = 0;
  let onCompleted: () => void = () => {};
  worker.on('completed', () => {
    completed += 1;
    onCompleted();
  });
  const untilCompleted = async (jobs: number, add: () => Promise<void>): Promise<void> => {
    const target = completed + jobs;
    const done = new Promise<void>((resolveAll) => {
      onCompleted = () => {
        if (completed >= target) resolveAll();
      };
    });
    await add();
    await done;
  };
  return {
    run: async ({ mode, jobs, inFlight }) =>
      await untilCompleted(jobs, async () => {
        if (mode === 'single') return await runConcurrently(jobs, inFlight, (index) => queue.add('job', { index }));
        const bulk = Array.from({ length: bulkSize }, (_, index) => ({ name: 'job', data: { index } }));
        await runConcurrently(Math.ceil(jobs / bulkSize), 2, (index) =>
          queue.addBulk(bulk.slice(0, jobs - index * bulkSize)),
        );
      }),
    stop: async () => {
      await worker.close();
      await queue.close();
      await redis.stop();
    },
  };
}

type Graphile = {
  Logger: new (factory: () => () => void) => object;
  makeWorkerUtils: (options: object) => Promise<{
    migrate(): Promise<void>;
    addJobs(specs: readonly object[]): Promise<unknown>;
    addJob(name: string, payload: object): Promise<unknown>;
    release(): Promise<void>;
  }>;
  run: (options: object) => Promise<{ stop(): Promise<void> }>;
};

async function graphile(postgres: QueueServer): Promise<Peer> {
  const { makeWorkerUtils, run, Logger } = await load<Graphile>('graphile-worker');
  const connectionString = `postgres://bench@${host}:${postgres.port}/postgres`;
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  let completed = 0;
  let onCompleted: () => void = () => {};
  const noop = (): void => {
    completed += 1;
    onCompleted();
  };
  const preset = {
    worker: {
      ...{ connectionString, concurrentJobs: 24, pollInterval: 50, maxPoolSize: 26, logger },
      ...{ localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
    },
  };
  const runner = await run({ preset, taskList: { noop } });
  return {
    run: async ({ mode, jobs, inFlight }) => {
      const target = completed + jobs;
      const done = new Promise<void>((resolveAll) => {
        onCompleted = () => {
          if (completed >= target) resolveAll();
        };
      });
      if (mode === 'single') await runConcurrently(jobs, Math.min(inFlight, 10), () => utils.addJob('noop', {}));
      else {
        const specs = Array.from({ length: bulkSize }, () => ({ identifier: 'noop', payload: {} }));
        await runConcurrently(Math.ceil(jobs / bulkSize), 2, (index) =>
          utils.addJobs(specs.slice(0, jobs - index * bulkSize)),
        );
      }
      await done;
    },
    stop: async () => {
      await runner.stop();
      await utils.release();
      await postgres.stop();
    },
  };
}

type Restate = {
  service: (definition: object) => unknown;
  serve: (options: { services: readonly unknown[]; port: number; logger: () => void }) => Promise<number>;
};

async function restate(server: QueueServer & { readonly admin: number }): Promise<Peer> {
  const { service, serve } = await load<Restate>('@restatedev/restate-sdk');
  const port = await freePort();
  const services = [service({ name: 'bench', handlers: { noop: async () => 'done' } })];
  await serve({ services, port, logger: () => {} });
  const response = await fetch(`http://${host}:${server.admin}/deployments`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
    body: JSON.stringify({ uri: `http://${host}:${port}`, force: true }),
  });
  if (!response.ok) throw new Error(`Restate refuses the service: ${await response.text()}`);
  const call = async (): Promise<void> => {
    const reply = await fetch(`http://${host}:${server.port}/bench/noop`, { method: 'POST' });
    await reply.arrayBuffer();
    if (!reply.ok) throw new Error(`Restate replied with status ${reply.status}`);
  };
  return {
    run: async ({ jobs, inFlight }) => await runConcurrently(jobs, inFlight, call),
    stop: async () => await server.stop(),
  };
}

async function open(name: QueuePeerName, folder: string): Promise<Peer> {
  if (name === 'graphile-worker') return await graphile(await startPostgres(folder));
  if (name === 'Restate') {
    const binary = join(cache, `node_modules/@restatedev/restate-server-linux-${process.arch}/bin/restate-server`);
    return await restate(await startRestate(folder, binary));
  }
  const redis = await startRedis(folder, name.includes('everysec') ? 'everysec' : 'always');
  return await bullMq(redis, name.includes('removeOnComplete') ? 0 : historyJobs);
}

if (process.argv[1] === import.meta.filename) {
  const [, , name, folder] = process.argv;
  const peer = await open(name as QueuePeerName, folder ?? '');
  process.on('message', (round: QueueRound) => {
    const startedMs = performance.now();
    void peer.run(round).then(() => process.send?.((round.jobs * 1_000) / (performance.now() - startedMs)));
  });
  process.on('disconnect', () => void peer.stop().finally(() => process.exit(0)));
  process.send?.('ready');
}
