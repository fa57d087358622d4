/**
 * A cluster of node processes on this machine: start, readiness, faults, bounded stop. Never restarts a node by itself.
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
  readonly portBase: number;
  readonly data: string | undefined;
  readonly retain: boolean;
  readonly say: (text: string) => void;
};

const readyMs = 60_000;
const registrationMs = 5_000;
const votersMax = 5;

type DevStatus = {
  readonly dcs: readonly { dc: string; leader: string | null; quorum: { voters: number } | null }[];
};

/** Beyond two the number of voters is odd. */
function votersOf(managers: number): number {
  const most = Math.min(managers, votersMax);
  return most > 2 && most % 2 === 0 ? most - 1 : most;
}
const stopMs = 15_000;
const lookMs = 100;
const logCheckMs = 10_000;

type Notify = (node: DevNode, how: string, leftUp: number) => void;

/** Rejects when starting takes too long. */
async function inTime(): Promise<never> {
  await pause(readyMs, undefined, { ref: false });
  throw new RemusterError('DEADLINE', `not all nodes were ready after ${readyMs} ms`);
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
  #tell: Notify | undefined;
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

  /** Starts all and waits until everybody sees everybody alive, managers lead and everybody is registered. */
  async start(): Promise<void> {
    const count = this.#planned.length;
    const { base, ports } = await choosePorts(this.#spec.portBase, count, devHost);
    if (base !== this.#spec.portBase) this.#spec.say(`ports from ${this.#spec.portBase} on are in use, taking ${base}`);
    // With ports of the system's choice the others cannot know the first one before it is up.
    const together = base === 0 ? 1 : count;
    await this.#launch(0, together, ports);
    const [first] = this.nodes;
    await this.#launch(
      together,
      count,
      first === undefined ? ports : [{ port: first.port, httpPort: first.httpPort }, ...ports.slice(1)],
    );
    await this.whenAllJoined(readyMs);
    await this.#whenAgreed(readyMs);
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
        ? `no node is called ${JSON.stringify(name)}; there are ${known}`
        : `node ${name} is not running any more`,
    );
  }

  /** Tells of each node that ends without being asked to. */
  onDeath(tell: Notify): void {
    this.#tell = tell;
    for (const node of this.nodes) void this.#tellEnd(node, tell);
  }

  async whenAllJoined(timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    for (const node of this.nodes) {
      while (!(await this.#seesAll(this.targetOf(node)))) {
        if (Date.now() > deadline)
          throw new RemusterError('DEADLINE', `node ${node.name} does not see all others after ${timeoutMs} ms`);
        await pause(lookMs);
      }
    }
  }

  /** Each datacenter that has managers has a leader and all its voters, and every node there is registered. */
  async #whenAgreed(timeoutMs: number): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    const managed = new Set(this.#planned.filter(({ roles }) => roles.includes('manager')).map(({ dc }) => dc));
    for (const dc of managed) {
      const node = this.nodes.find((one) => one.dc === dc) as DevNode;
      while (!(await this.#isAgreed(this.targetOf(node), dc))) {
        if (Date.now() > deadline)
          throw new RemusterError('DEADLINE', `the managers of ${dc} do not lead all its nodes after ${timeoutMs} ms`);
        await pause(lookMs);
      }
    }
  }

  async #isAgreed(target: ClusterTarget, dc: string): Promise<boolean> {
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
   * How a node that has just started is registered, once it is settled; undefined if that is not known in time, as
   * while no manager leads.
   */
  async registrationOf(name: string): Promise<string | undefined> {
    const node = this.nodes.find((one) => one.name === name);
    if (node === undefined) return undefined;
    const deadline = Date.now() + registrationMs;
    while (Date.now() < deadline) {
      const answer = await getJson(this.targetOf(node), '/v1/node').catch(() => undefined);
      const { registration } = (answer ?? {}) as { registration?: string | null };
      if (registration !== undefined && registration !== null && registration !== 'joining') return registration;
      await pause(lookMs);
    }
    return undefined;
  }

  /** Cuts every link between nodes of different groups; nodes that are in no group keep all theirs. */
  async partition(groups: readonly (readonly string[])[]): Promise<void> {
    const up = this.nodes.filter((node) => this.#processes.get(node.name)?.isUp === true);
    // A paused node cannot be told; the other end of each of its links is enough.
    for (const node of up.filter(({ name }) => this.#processes.get(name)?.isPaused === false)) {
      const own = groups.find((group) => group.includes(node.name));
      const others = own === undefined ? [] : groups.filter((group) => group !== own).flat();
      const cut = up.filter((other) => others.includes(other.name)).map((other) => other.id);
      await postJson(this.targetOf(node), '/v1/dev/partition', { cut });
    }
  }

  /** In good order if they can, by force if they cannot; then nothing is left of them. */
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

  /** A node that has ended is started again, with its data and where it was. */
  async restart(name: string): Promise<DevNode> {
    const index = this.#planned.findIndex((node) => node.name === name);
    const node = this.#planned[index];
    if (node === undefined) throw new RemusterError('BAD_ARGUMENT', `no node is called ${JSON.stringify(name)}`);
    if (this.#processes.get(name)?.isUp === true)
      throw new RemusterError('PRECONDITION', `node ${name} runs; kill it first`, 'no');
    this.#begin(node, index, this.nodes);
    await Promise.race([inTime(), this.#whenReady(node)]);
    if (this.#tell !== undefined) void this.#tellEnd(this.#nodes.get(name) as DevNode, this.#tell);
    return this.#nodes.get(name) as DevNode;
  }

  async #launch(from: number, to: number, ports: readonly NodePortPair[]): Promise<void> {
    if (this.#stopping) throw new RemusterError('CANCELLED', 'stopped while starting');
    const nodes = this.#planned.slice(from, to);
    for (const [i, node] of nodes.entries()) this.#begin(node, from + i, ports);
    await Promise.race([inTime(), Promise.all(nodes.map((node) => this.#whenReady(node)))]);
  }

  #begin(node: PlannedNode, index: number, ports: readonly NodePortPair[]): void {
    const { root } = this.identity;
    const environment = agentEnvironment(process.env, this.identity, this.#spec);
    const own = ports[index] as NodePortPair;
    const words = agentArguments(node, own, seedsFor(index, ports), { root, temporary: this.temporary });
    const logFile = join(root, 'logs', `${node.name}.log`);
    const { entry } = this.#spec;
    const spec = { name: node.name, entry, words, environment, folder: root, logFile };
    this.#processes.set(node.name, new NodeProcess(spec));
  }

  async #tellEnd(node: DevNode, tell: Notify): Promise<void> {
    const how = await this.#processes.get(node.name)?.ended;
    const leftUp = [...this.#processes.values()].filter((other) => other.isUp).length;
    if (!this.#stopping && how !== undefined) tell(node, how, leftUp);
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
