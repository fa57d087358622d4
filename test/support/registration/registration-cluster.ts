/**
 * Nodes that share one fake registry on virtual time. A test starts, crashes and cuts them off, gives each clock its
 * own rate, and appoints the leader.
 */
import assert from 'node:assert/strict';
import { type Done, type ErrorCode, success } from '../../../src/base/errors.ts';
import { type NodeId, parseNodeId } from '../../../src/base/ids.ts';
import type { Clock, Identity } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { Registry } from '../../../src/base/registry.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { clusterKey, keyRanges } from '../../../src/registry/cluster-keys.ts';
import type { KeyspaceLimits } from '../../../src/registry/keyspace/keyspace-types.ts';
import { FakeLeadershipGroup } from '../../fakes/fake-leadership-group.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';
import { ExpiryWorkerHost } from '../../../src/registration/expiry-worker-host.ts';
import type { StateReason } from '../../../src/registration/node-modes.ts';
import { type RegistrationOptions, registrationOptions } from '../../../src/registration/registration-options.ts';
import { RegistrationHost } from '../../../src/registration/registration-host.ts';
import {
  NodeDirectory,
  type NodeDirectoryEntry,
  registrationStatus,
} from '../../../src/registration/node-directory.ts';

export const ttlMs = 32_000;

export type Reconcile = (done: Done<void>) => void;

type Node = {
  readonly id: NodeId;
  generation: number;
  rate: number;
  connection: FakeRegistry | undefined;
  host: RegistrationHost | undefined;
  fenced: string | undefined;
  reconcile: Reconcile;
  /** How often the node has reconciled. */
  reconcileCount: number;
};

export class RegistrationTestCluster {
  readonly timeline = new Timeline();
  readonly leaders = new FakeLeadershipGroup();
  readonly log: string[] = [];
  readonly registry: FakeRegistry;
  readonly random: Random;
  readonly nodes = new Map<string, Node>();
  readonly options: RegistrationOptions;
  #worker: ExpiryWorkerHost | undefined;

  constructor(
    names: readonly string[],
    chosen: Partial<RegistrationOptions> = {},
    { seed = 'registration', ...limits }: Partial<KeyspaceLimits> & { readonly seed?: string } = {},
  ) {
    this.options = registrationOptions(chosen);
    this.random = new Random(seed);
    this.registry = fakeRegistry({ clock: this.#clock(() => 1), limits });
    for (const [index, name] of names.entries()) {
      const id = parseNodeId(String(index + 1).padStart(32, '0'));
      const node: Node = {
        id,
        generation: 0,
        rate: 1,
        connection: undefined,
        host: undefined,
        fenced: undefined,
        reconcile: (done) => done(success(undefined)),
        reconcileCount: 0,
      };
      this.nodes.set(name, node);
    }
  }

  node(name: string): Node {
    const node = this.nodes.get(name);
    assert.ok(node, `no node ${name}`);
    return node;
  }

  get nowMs(): number {
    return this.timeline.nowMs;
  }

  run(ms: number): void {
    this.timeline.runUntil(this.timeline.nowMs + ms);
  }

  start(name: string, generation?: number): RegistrationHost {
    const node = this.node(name);
    node.generation = generation ?? node.generation + 1;
    node.connection = this.registry.connect();
    node.fenced = undefined;
    const { host } = this.createProcess(name, node.generation, node.connection);
    node.host = host;
    host.start();
    return host;
  }

  /** Another process of this node, not started yet. */
  createProcess(name: string, generation: number, registry: Registry): { readonly host: RegistrationHost } {
    const node = this.node(name);
    const roles = ['worker'] as const;
    const identity: Identity = { id: node.id, name, generation, roles, dc: 'dc1', host: '127.0.0.1', port: 7000 };
    const ports = {
      registry,
      clock: this.#clock(() => node.rate),
      random: this.random.fork(`${name}/${generation}`),
      leadership: this.leaders.of(name),
    };
    const host: RegistrationHost = new RegistrationHost(ports, identity, this.options, {
      reconcile: (done) => {
        node.reconcileCount += 1;
        node.reconcile(done);
      },
      event: ({ type, ...event }) => {
        for (const [name, value] of Object.entries(event))
          assert.ok(typeof value !== 'number' || Number.isInteger(value), `${type} has ${name} ${String(value)}`);
        const state = 'mode' in event ? ` ${event.mode} ${event.reason}` : '';
        this.#trace(`${name} ${type}${state}`);
      },
      fenced: (error) => {
        node.fenced = error.message;
        this.#trace(`${name}/${generation} fenced`);
      },
      onHalt: (error) => {
        throw error;
      },
    });
    return { host };
  }

  /** Ends the process without deregistering. */
  crash(name: string): void {
    const node = this.node(name);
    node.host?.stop();
    node.host = undefined;
    if (this.leaders.leader === name) this.leaders.elect(undefined);
  }

  cut(name: string, code?: ErrorCode): void {
    this.node(name).connection?.interrupt(code);
  }

  heal(name: string): void {
    this.node(name).connection?.resume();
  }

  /** Appoints the leader; its expiry worker marks lost nodes. */
  lead(name: string): void {
    this.#worker?.stop();
    const ports = { registry: this.registry.connect(), clock: this.#clock(() => 1), leadership: this.leaders.of(name) };
    const worker = new ExpiryWorkerHost(ports, this.options, {
      event: ({ type, node }) => this.#trace(`${this.nameOf(node)} ${type}`),
      onHalt: (error) => {
        throw error;
      },
    });
    worker.start();
    this.#worker = worker;
    this.leaders.elect(name);
  }

  nameOf(id: NodeId): string {
    return [...this.nodes].find(([, node]) => node.id === id)?.[0] ?? id;
  }

  directory(): NodeDirectory {
    const directory = new NodeDirectory();
    directory.load(this.registry.keyspace.range(keyRanges.nodeDirectory, 10_000).entries);
    return directory;
  }

  entry(name: string): NodeDirectoryEntry | undefined {
    return this.directory().get(this.node(name).id);
  }

  /** Status and reason in the registry, such as `active boot`. */
  statusOf(name: string): string {
    const entry = this.entry(name);
    return `${registrationStatus(entry)} ${entry?.state?.record?.reason ?? '-'}`;
  }

  epoch(): number {
    return this.directory().epoch?.record?.epoch ?? 0;
  }

  write(op: Parameters<Registry['transact']>[0]['then'][number]): void {
    let ended = false;
    this.registry.transact({ compare: [], then: [op], otherwise: [] }, {}, (outcome) => {
      assert.ok(outcome.ok, 'the write works');
      ended = true;
    });
    this.run(0);
    assert.ok(ended);
  }

  #trace(text: string): void {
    this.log.push(`${Math.round(this.timeline.nowMs)} ${text}`);
  }

  #clock(rate: () => number): Clock {
    return {
      nowMs: () => this.timeline.nowMs * rate(),
      wallMs: () => 1_900_000_000_000 + this.timeline.nowMs,
      schedule: (delayMs, run) => this.timeline.after(delayMs / rate(), run),
    };
  }
}

/** A cluster with all nodes registered, the first one as leader, and the grace after its election over. */
export function startedCluster(
  ...[names, ...rest]: ConstructorParameters<typeof RegistrationTestCluster>
): RegistrationTestCluster {
  const cluster = new RegistrationTestCluster(names, ...rest);
  cluster.lead(names[0] as string);
  for (const name of names) {
    cluster.start(name);
    cluster.run(100);
  }
  cluster.run(ttlMs + 5_000);
  cluster.log.length = 0;
  return cluster;
}

/** Writes the mode of a node as an operator does. */
export function setMode(
  cluster: RegistrationTestCluster,
  name: string,
  mode: 'draining' | 'drained' | 'active',
  reason: StateReason = mode === 'active' ? 'admin_activate' : 'admin_drain',
): void {
  const state = cluster.entry(name)?.state?.record;
  assert.ok(state);
  const record = { ...state, mode, reason };
  const value = new TextEncoder().encode(JSON.stringify(record));
  cluster.write({ kind: 'put', key: clusterKey({ kind: 'state', node: cluster.node(name).id }), value });
}
