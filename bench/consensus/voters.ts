/** The cluster of one side: each voter is a process with a folder of its own and default durability. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { clusterName, monotonicMs, benchSecret, type ConsensusSide, type VoterAddress } from './writers.ts';

const host = '127.0.0.1';
const readyMs = 120_000;
const pollMs = 20;
const tailCharacters = 4_000;
const environment = Object.entries(process.env).filter(([name]) => !/^(?:REMUSTER|NODE|ETCD)_/.test(name));

type VoterPorts = VoterAddress & { readonly port: number; readonly controlPort: number };

/** How the voters of one side are started and queried; `index` is that of a voter in the list. */
type VoterKind = {
  readonly name: ConsensusSide;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `started` are the voters that were started before. */
  command(
    index: number,
    voters: readonly VoterPorts[],
    started: readonly VoterPorts[],
    folder: string,
  ): readonly string[];
  /** Remuster bootstraps with the first voter, which the others join; etcd starts all members at once. */
  readonly bootstrapsAlone: boolean;
  /** The id of this voter, once it runs. */
  idOf(voter: VoterPorts): Promise<string | undefined>;
  /** The leader that this voter knows, and the number of voters that it counts as alive. */
  view(voter: VoterPorts): Promise<{ readonly leader: string | undefined; readonly alive: number }>;
};

const remuster: VoterKind = {
  name: 'remuster',
  environment: {
    ...Object.fromEntries(environment),
    REMUSTER_AUTH_SECRET: benchSecret,
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
  },
  bootstrapsAlone: true,
  command: (index, voters, started, folder) => {
    const { port, controlPort } = voters[index]!;
    const seeds = started.filter((voter) => voter.port !== port).map((voter) => `${host}:${voter.port}`);
    return [
      ...[process.execPath, resolve(import.meta.dirname, '../../src/cli/main.ts'), 'agent', '--with-parent'],
      ...['--name', `m${index}`, '--roles', 'manager', '--cluster', clusterName, '--data', join(folder, `m${index}`)],
      ...['--port', String(port), '--http-port', String(controlPort)],
      ...(seeds.length === 0 ? [] : ['--join', seeds.join(',')]),
    ];
  },
  idOf: async ({ controlPort }) => (await get(controlPort, '/v1/node'))['id'] as string,
  view: async ({ controlPort }) => {
    const { leaderId, quorum } = await get(controlPort, '/v1/leader');
    return { leader: (leaderId ?? undefined) as string | undefined, alive: (quorum as { alive: number }).alive };
  },
};

const etcd: VoterKind = {
  name: 'etcd',
  environment: Object.fromEntries(environment),
  bootstrapsAlone: false,
  command: (index, voters, _started, folder) => {
    const client = `http://${host}:${voters[index]!.port}`;
    const peer = (voter: VoterPorts): string => `http://${host}:${voter.controlPort}`;
    const own = peer(voters[index]!);
    return [
      ...['etcd', '--name', `m${index}`, '--data-dir', join(folder, `m${index}`), '--log-level', 'error'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', own, '--initial-advertise-peer-urls', own],
      ...['--initial-cluster', voters.map((voter, i) => `m${i}=${peer(voter)}`).join(',')],
    ];
  },
  idOf: async ({ port }) => ((await etcdStatus(port))['header'] as { member_id: string }).member_id,
  view: async ({ port }) => {
    const { leader } = await etcdStatus(port);
    const { health } = await get(port, '/health');
    return { leader: leader === '0' ? undefined : (leader as string), alive: health === 'true' ? Infinity : 0 };
  },
};

export class VoterCluster {
  readonly name: ConsensusSide;
  readonly #kind: VoterKind;
  readonly #folder: string;
  readonly #voters: VoterPorts[];
  readonly #children: ChildProcess[] = [];
  #tail = '';

  private constructor(kind: VoterKind, folder: string, voters: VoterPorts[]) {
    this.name = kind.name;
    this.#kind = kind;
    this.#folder = folder;
    this.#voters = voters;
  }

  /** Starts no process. The caller must call `stop`. */
  static async plan(name: ConsensusSide, count: number, folder: string): Promise<VoterCluster> {
    mkdirSync(folder, { recursive: true });
    const ports = await freePorts(2 * count);
    const voters = Array.from({ length: count }, (_, i) => {
      return { id: '', host, port: ports[2 * i]!, controlPort: ports[2 * i + 1]! };
    });
    return new VoterCluster(name === 'remuster' ? remuster : etcd, folder, voters);
  }

  get voters(): readonly VoterAddress[] {
    return this.#voters;
  }

  /** Resolves when all of them vote and know the same leader. */
  async start(): Promise<void> {
    this.#spawn(0);
    if (this.#kind.bootstrapsAlone) {
      await this.#until('the first voter leads', async () => (await this.#leader(0)) !== '');
    }
    for (let i = 1; i < this.#voters.length; i++) this.#spawn(i);
    await this.#ready();
    for (const [i, voter] of this.#voters.entries()) {
      this.#voters[i] = { ...voter, id: (await this.#kind.idOf(voter)) ?? '' };
    }
  }

  async leaderIndex(): Promise<number> {
    const leader = await this.#leader(0);
    const index = this.#voters.findIndex(({ id }) => id === leader);
    if (index < 0) throw new Error(`${this.name}: no voter is the leader ${leader}`);
    return index;
  }

  get pids(): readonly number[] {
    return this.#children.map(({ pid }) => pid!);
  }

  /** Times of the signal and of the exit. */
  async kill(index: number): Promise<{ readonly killedMs: number; readonly goneMs: number }> {
    const child = this.#children[index]!;
    const gone = once(child, 'exit');
    const killedMs = monotonicMs();
    child.kill('SIGKILL');
    await gone;
    return { killedMs, goneMs: monotonicMs() };
  }

  async restart(index: number): Promise<void> {
    this.#spawn(index);
    await this.#ready();
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const closed = once(child, 'close');
        child.kill('SIGKILL');
        await closed;
      }),
    );
  }

  #spawn(index: number): void {
    const started = this.#voters.filter((_, i) => this.#children[i] !== undefined);
    const command = this.#kind.command(index, this.#voters, started, this.#folder);
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...command], {
      ...{ env: this.#kind.environment, stdio: ['pipe', 'ignore', 'pipe'] },
    });
    this.#children[index] = child;
    child.stdin.on('error', () => undefined);
    child.on('error', (error) => (this.#tail += String(error)));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#tail = (this.#tail + text).slice(-tailCharacters);
    });
  }

  async #ready(): Promise<void> {
    await this.#until('all voters vote and know the same leader', async () => {
      const views = await Promise.all(this.#voters.map((voter) => this.#kind.view(voter)));
      const { leader } = views[0]!;
      return leader !== undefined && views.every((view) => view.leader === leader && view.alive >= this.#voters.length);
    });
  }

  async #leader(index: number): Promise<string> {
    return (await this.#kind.view(this.#voters[index]!)).leader ?? '';
  }

  /** Polls, because a starting voter may reply with an error. */
  async #until(what: string, condition: () => Promise<boolean>): Promise<void> {
    const deadlineMs = performance.now() + readyMs;
    let lastError = '';
    for (;;) {
      try {
        if (await condition()) return;
      } catch (error) {
        lastError = String(error);
      }
      const ended = this.#children.findIndex((child) => child.exitCode !== null);
      if (ended >= 0) throw new Error(`${this.name}: voter ${ended} has exited\n${this.#tail}`);
      if (performance.now() > deadlineMs) {
        const text = `${this.name}: not within ${readyMs} ms: ${what} (${lastError})`;
        throw new Error(`${text}\n${this.#tail}`);
      }
      await pause(pollMs);
    }
  }
}

async function get(port: number, path: string): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(`http://${host}:${port}${path}`, { signal: AbortSignal.timeout(2_000) });
  return (await response.json()) as Record<string, unknown>;
}

async function etcdStatus(port: number): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(`http://${host}:${port}/v3/maintenance/status`, {
    ...{ method: 'POST', body: '{}', signal: AbortSignal.timeout(2_000) },
  });
  return (await response.json()) as Record<string, unknown>;
}

/** Binds all ports at once, so that they differ. */
async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      server.listen(0, host);
      await once(server, 'listening');
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}
