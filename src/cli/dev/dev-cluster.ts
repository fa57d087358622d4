/**
 * A cluster of node processes on this machine: start, readiness, faults, stop within a time limit. It never restarts a
 * node on its own.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import {
  agentEnvironment,
  agentArguments,
  devHost,
  devStopTimeoutMs,
  type DevIdentity,
  type DevSize,
  type PlannedNode,
  planDevNodes,
  seedsFor,
} from './dev-plan.ts';
import { type DevNode, removeDevState, removeDeadDevClusters } from '../command/dev-state.ts';
import { choosePorts, type NodePortPair } from './free-ports.ts';
import { getJson, postJson } from '../command/http-client.ts';
import { NodeProcess } from './node-process.ts';
import type { RejoinPolicy } from '../../registration/registration-options.ts';
import type { ClusterTarget } from '../command/target.ts';

export type DevClusterSpec = DevSize & {
  readonly entry: string;
  readonly modules?: string | undefined;
  readonly rejoin: RejoinPolicy;
  readonly console: boolean;
  readonly portBase: number;
  readonly data: string | undefined;
  readonly retain: boolean;
  readonly notify: (text: string) => void;
};

const readyMs = 60_000;
const registrationMs = 5_000;
const votersMax = 5;

type DevStatus = {
  readonly dcs: readonly { dc: string; leader: string | null; quorum: { voters: number } | null }[];
};

/** The number of voters is odd, except with two managers. */
function votersOf(managers: number): number {
  const limit = Math.min(managers, votersMax);
  return limit > 2 && limit % 2 === 0 ? limit - 1 : limit;
}
const stopMs = devStopTimeoutMs + 5_000;
const pollMs = 100;
const logCheckMs = 10_000;

type OnExit = (node: DevNode, how: string, running: number) => void;

/** Rejects when nodes are not ready in time. */
async function rejectAfterTimeout(): Promise<never> {
  await pause(readyMs, undefined, { ref: false });
  throw new RemusterError(
    'DEADLINE',
    `the nodes were not ready within ${readyMs} ms: see their logs in the data directory`,
  );
}

export class DevCluster {
  readonly identity: DevIdentity;
  readonly nonce = randomBytes(16).toString('hex');
  readonly temporary: boolean;
  readonly #spec: DevClusterSpec;
  readonly #planned: readonly PlannedNode[];
  readonly #processes = new Map<string, NodeProcess>();
  readonly #nodes = new Map<string, DevNode>();
  #stopping = false;
  #onExit: OnExit | undefined;
  #logCheck: NodeJS.Timeout | undefined;

  constructor(spec: DevClusterSpec) {
    this.#planned = planDevNodes(spec);
    this.#spec = spec;
    this.temporary = spec.data === undefined && !spec.retain;
    removeDeadDevClusters();
    const root = spec.data === undefined ? mkdtempSync(join(tmpdir(), 'remuster-dev-')) : resolve(spec.data);
    mkdirSync(join(root, 'logs'), { recursive: true, mode: 0o700 });
    this.identity = {
      root,
      secret: randomBytes(32).toString('base64url'),
      token: randomBytes(24).toString('base64url'),
    };
  }

  get nodes(): readonly DevNode[] {
    return this.#planned.map((node) => this.#nodes.get(node.name)).filter((node) => node !== undefined);
  }

  get admin(): ClusterTarget {
    const [first] = this.nodes;
    assert(first !== undefined, 'a dev cluster has no admin node before it is ready');
    return this.targetOf(first);
  }

  /** Starts all nodes; waits until they see each other alive, each datacenter has a leader and all are registered. */
  async start(): Promise<void> {
    const count = this.#planned.length;
    const { base, ports } = await choosePorts(this.#spec.portBase, count, devHost);
    if (base !== this.#spec.portBase)
      this.#spec.notify(`ports from ${this.#spec.portBase} on are in use: using ports from ${base} on`);
    // With ports that the system chooses, the other nodes need a seed: the first node starts alone.
    const firstBatch = base === 0 ? 1 : count;
    await this.#launch(0, firstBatch, ports);
    const [first] = this.nodes;
    await this.#launch(
      firstBatch,
      count,
      first === undefined ? ports : [{ port: first.port, httpPort: first.httpPort }, ...ports.slice(1)],
    );
    await this.whenAllJoined(readyMs);
    await this.#whenRegistered(readyMs);
    this.#logCheck = setInterval(() => {
      for (const node of this.#processes.values()) node.truncateLog();
    }, logCheckMs).unref();
  }

  process(name: string): NodeProcess {
    const found = this.#processes.get(name);
    if (found?.isUp === true) return found;
    const known = [...this.#processes.keys()].join(', ');
    throw new RemusterError(
      'BAD_ARGUMENT',
      found === undefined
        ? `there is no node ${JSON.stringify(name)}: the nodes are ${known}`
        : `node ${name} has ended: \`remuster dev restart ${name}\` starts it again`,
    );
  }

  /** Calls `onExit` for each node that ends before the cluster is stopped. */
  onNodeExit(onExit: OnExit): void {
    this.#onExit = onExit;
    for (const node of this.nodes) void this.#reportExit(node, onExit);
  }

  async whenAllJoined(timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    for (const node of this.nodes) {
      while (!(await this.#seesAll(this.targetOf(node)))) {
        if (Date.now() > deadline)
          throw new RemusterError(
            'DEADLINE',
            `node ${node.name} does not see all other nodes alive after ${timeoutMs} ms`,
          );
        await pause(pollMs);
      }
    }
  }

  /** Waits until each datacenter with managers has a leader, all its voters, and every node registered. */
  async #whenRegistered(timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    const managed = new Set(this.#planned.filter(({ roles }) => roles.includes('manager')).map(({ dc }) => dc));
    for (const dc of managed) {
      const node = this.nodes.find((one) => one.dc === dc) as DevNode;
      while (!(await this.#isRegistered(this.targetOf(node), dc))) {
        if (Date.now() > deadline)
          throw new RemusterError(
            'DEADLINE',
            `datacenter ${dc} has no leader, or nodes that are not registered, after ${timeoutMs} ms`,
          );
        await pause(pollMs);
      }
    }
  }

  async #isRegistered(target: ClusterTarget, dc: string): Promise<boolean> {
    const own = this.#planned.filter((node) => node.dc === dc);
    const managers = own.filter(({ roles }) => roles.includes('manager')).length;
    const status = (await getJson(target, '/v1/status')) as DevStatus;
    const group = status.dcs.find((one) => one.dc === dc);
    if ((group?.leader ?? null) === null || (group?.quorum?.voters ?? 0) < votersOf(managers)) return false;
    const { items } = (await getJson(target, '/v1/members')) as {
      items: { name: string; registration: string | null }[];
    };
    const registered = new Set(items.filter((row) => row.registration !== null).map((row) => row.name));
    return own.every(({ name }) => registered.has(name));
  }

  /**
   * Returns the registration of a node that has just started, once it is no longer joining; undefined if that takes too
   * long, as without a leader.
   */
  async registrationOf(name: string): Promise<string | undefined> {
    const node = this.nodes.find((one) => one.name === name);
    if (node === undefined) return undefined;
    const deadline = Date.now() + registrationMs;
    while (Date.now() < deadline) {
      const answer = await getJson(this.targetOf(node), '/v1/node').catch(() => undefined);
      const { registration } = (answer ?? {}) as { registration?: string | null };
      if (registration !== undefined && registration !== null && registration !== 'joining') return registration;
      await pause(pollMs);
    }
    return undefined;
  }

  /** Cuts every link between nodes of different groups; a node in no group keeps its links. */
  async partition(groups: readonly (readonly string[])[]): Promise<void> {
    const up = this.nodes.filter((node) => this.#processes.get(node.name)?.isUp === true);
    // A paused node cannot receive the request: the other end of each link cuts it.
    for (const node of up.filter(({ name }) => this.#processes.get(name)?.isPaused === false)) {
      const own = groups.find((group) => group.includes(node.name));
      const others = own === undefined ? [] : groups.filter((group) => group !== own).flat();
      const cut = up.filter((other) => others.includes(other.name)).map((other) => other.id);
      await postJson(this.targetOf(node), '/v1/dev/partition', { cut });
    }
  }

  /** Stops all nodes: SIGTERM first, SIGKILL for those that are late. Then removes the state of the cluster. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#logCheck);
    const up = [...this.#processes.values()].filter((node) => node.isUp);
    for (const node of up) node.leave();
    const all = Promise.all(up.map((node) => node.ended));
    const late = pause(stopMs, 'late' as const, { ref: false });
    if ((await Promise.race([all, late])) === 'late') {
      this.killAll();
      await all;
    }
    this.cleanUp();
  }

  killAll(): void {
    this.#stopping = true;
    for (const node of this.#processes.values()) if (node.isUp) node.kill();
  }

  cleanUp(): void {
    removeDevState(this.identity.root, this.temporary);
  }

  /** Starts a node that has ended, with its former data and ports. */
  async restart(name: string): Promise<DevNode> {
    const index = this.#planned.findIndex((node) => node.name === name);
    const node = this.#planned[index];
    if (node === undefined)
      throw new RemusterError(
        'BAD_ARGUMENT',
        `there is no node ${JSON.stringify(name)}: the nodes are ${this.#planned.map((one) => one.name).join(', ')}`,
      );
    if (this.#processes.get(name)?.isUp === true)
      throw new RemusterError('PRECONDITION', `node ${name} is running: \`remuster dev kill ${name}\` ends it`, 'no');
    this.#spawn(node, index, this.nodes);
    await Promise.race([rejectAfterTimeout(), this.#whenReady(node)]);
    if (this.#onExit !== undefined) void this.#reportExit(this.#nodes.get(name) as DevNode, this.#onExit);
    return this.#nodes.get(name) as DevNode;
  }

  async #launch(from: number, to: number, ports: readonly NodePortPair[]): Promise<void> {
    if (this.#stopping) throw new RemusterError('CANCELLED', 'stopped before all nodes were started');
    const nodes = this.#planned.slice(from, to);
    for (const [i, node] of nodes.entries()) this.#spawn(node, from + i, ports);
    await Promise.race([rejectAfterTimeout(), Promise.all(nodes.map((node) => this.#whenReady(node)))]);
  }

  #spawn(node: PlannedNode, index: number, ports: readonly NodePortPair[]): void {
    const { root } = this.identity;
    const environment = agentEnvironment(process.env, this.identity, this.#spec);
    const own = ports[index] as NodePortPair;
    const args = agentArguments(node, own, seedsFor(index, ports), { root, temporary: this.temporary });
    const logFile = join(root, 'logs', `${node.name}.log`);
    const { entry } = this.#spec;
    const spec = { name: node.name, entry, args, environment, folder: root, logFile };
    this.#processes.set(node.name, new NodeProcess(spec));
  }

  async #reportExit(node: DevNode, onExit: OnExit): Promise<void> {
    const how = await this.#processes.get(node.name)?.ended;
    const running = [...this.#processes.values()].filter((other) => other.isUp).length;
    if (!this.#stopping && how !== undefined) onExit(node, how, running);
  }

  async #whenReady(node: PlannedNode): Promise<void> {
    const child = this.#processes.get(node.name) as NodeProcess;
    const { id, port, httpPort } = await child.ready;
    this.#nodes.set(node.name, { ...node, id, pid: child.pid, host: devHost, port, httpPort });
  }

  targetOf(node: DevNode): ClusterTarget {
    return { addr: `http://${devHost}:${node.httpPort}`, token: this.identity.token };
  }

  async #seesAll(target: ClusterTarget): Promise<boolean> {
    const { items } = (await getJson(target, '/v1/members')) as { items: { name: string; state: string }[] };
    const alive = new Set(items.filter((row) => row.state === 'alive').map((row) => row.name));
    return this.#planned.every((node) => alive.has(node.name));
  }
}
