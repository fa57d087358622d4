/** A cluster of one side: each voter a process with its own folder, default durability. */
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
const lookEveryMs = 20;
const tailCharacters = 4_000;
const endsWithUs = 'setpriv';
const passedOn = Object.entries(process.env).filter(([name]) => !/^(?:REMUSTER|NODE|ETCD)_/.test(name));

type Place = VoterAddress & { readonly port: number; readonly controlPort: number };

/** How one side is started and asked; `index` is the place in the list of voters. */
type Kind = {
  readonly name: ConsensusSide;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `begun` are the places of those that were started before. */
  command(index: number, places: readonly Place[], begun: readonly Place[], folder: string): readonly string[];
  /** Our group grows from its first member; the members of etcd look for each other. */
  readonly firstAlone: boolean;
  /** The id by which this voter is known, once it works. */
  idOf(place: Place): Promise<string | undefined>;
  /** Who leads as this voter knows, and how many votes it counts as alive. */
  view(place: Place): Promise<{ readonly leader: string | undefined; readonly alive: number }>;
};

const ours: Kind = {
  name: 'ours',
  environment: {
    ...Object.fromEntries(passedOn),
    REMUSTER_AUTH_SECRET: benchSecret,
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
  },
  firstAlone: true,
  command: (index, places, begun, folder) => {
    const { port, controlPort } = places[index]!;
    const seeds = begun.filter((place) => place.port !== port).map((place) => `${host}:${place.port}`);
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

const etcd: Kind = {
  name: 'etcd',
  environment: Object.fromEntries(passedOn),
  firstAlone: false,
  command: (index, places, _begun, folder) => {
    const client = `http://${host}:${places[index]!.port}`;
    const peer = (place: Place): string => `http://${host}:${place.controlPort}`;
    const own = peer(places[index]!);
    return [
      ...['etcd', '--name', `m${index}`, '--data-dir', join(folder, `m${index}`), '--log-level', 'error'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', own, '--initial-advertise-peer-urls', own],
      ...['--initial-cluster', places.map((place, i) => `m${i}=${peer(place)}`).join(',')],
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
  readonly #kind: Kind;
  readonly #folder: string;
  readonly #places: Place[];
  readonly #children: ChildProcess[] = [];
  #tail = '';

  private constructor(kind: Kind, folder: string, places: Place[]) {
    this.name = kind.name;
    this.#kind = kind;
    this.#folder = folder;
    this.#places = places;
  }

  /** Only plans; `stop` must be called in the end. */
  static async plan(name: ConsensusSide, count: number, folder: string): Promise<VoterCluster> {
    mkdirSync(folder, { recursive: true });
    const ports = await freePorts(2 * count);
    const places = Array.from({ length: count }, (_, i) => {
      return { id: '', host, port: ports[2 * i]!, controlPort: ports[2 * i + 1]! };
    });
    return new VoterCluster(name === 'ours' ? ours : etcd, folder, places);
  }

  get voters(): readonly VoterAddress[] {
    return this.#places;
  }

  /** Ends when all of them vote and know the same leader. */
  async start(): Promise<void> {
    this.#begin(0);
    if (this.#kind.firstAlone) await this.#until('the first voter works', async () => (await this.#leader(0)) !== '');
    for (let i = 1; i < this.#places.length; i++) this.#begin(i);
    await this.#settled();
    for (const [i, place] of this.#places.entries()) {
      this.#places[i] = { ...place, id: (await this.#kind.idOf(place)) ?? '' };
    }
  }

  async leaderIndex(): Promise<number> {
    const leader = await this.#leader(0);
    const index = this.#places.findIndex(({ id }) => id === leader);
    if (index < 0) throw new Error(`${this.name}: nobody leads`);
    return index;
  }

  get pids(): readonly number[] {
    return this.#children.map(({ pid }) => pid!);
  }

  /** When it was told to end, and when it surely had. */
  async kill(index: number): Promise<{ readonly killedMs: number; readonly goneMs: number }> {
    const child = this.#children[index]!;
    const gone = once(child, 'exit');
    const killedMs = monotonicMs();
    child.kill('SIGKILL');
    await gone;
    return { killedMs, goneMs: monotonicMs() };
  }

  async restart(index: number): Promise<void> {
    this.#begin(index);
    await this.#settled();
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

  #begin(index: number): void {
    const begun = this.#places.filter((_, i) => this.#children[i] !== undefined);
    const command = this.#kind.command(index, this.#places, begun, this.#folder);
    const child = spawn(endsWithUs, ['--pdeathsig', 'KILL', ...command], {
      ...{ env: this.#kind.environment, stdio: ['pipe', 'ignore', 'pipe'] },
    });
    this.#children[index] = child;
    child.stdin.on('error', () => undefined);
    child.on('error', (error) => (this.#tail += String(error)));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#tail = (this.#tail + text).slice(-tailCharacters);
    });
  }

  async #settled(): Promise<void> {
    await this.#until('all vote and know who leads', async () => {
      const views = await Promise.all(this.#places.map((place) => this.#kind.view(place)));
      const { leader } = views[0]!;
      return leader !== undefined && views.every((view) => view.leader === leader && view.alive >= this.#places.length);
    });
  }

  async #leader(index: number): Promise<string> {
    return (await this.#kind.view(this.#places[index]!)).leader ?? '';
  }

  /** Asked again and again: a voter that is about to start answers nothing, or something else. */
  async #until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const lateMs = performance.now() + readyMs;
    let why = '';
    for (;;) {
      try {
        if (await isSo()) return;
      } catch (error) {
        why = String(error);
      }
      const ended = this.#children.findIndex((child) => child.exitCode !== null);
      if (ended >= 0) throw new Error(`${this.name}: voter ${ended} ended\n${this.#tail}`);
      if (performance.now() > lateMs) throw new Error(`${this.name}: not in time: ${what} (${why})\n${this.#tail}`);
      await pause(lookEveryMs);
    }
  }
}

async function get(port: number, path: string): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetch(`http://${host}:${port}${path}`, { signal: AbortSignal.timeout(2_000) });
  return (await answer.json()) as Record<string, unknown>;
}

async function etcdStatus(port: number): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetch(`http://${host}:${port}/v3/maintenance/status`, {
    ...{ method: 'POST', body: '{}', signal: AbortSignal.timeout(2_000) },
  });
  return (await answer.json()) as Record<string, unknown>;
}

/** All held at once, so that they differ. */
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
