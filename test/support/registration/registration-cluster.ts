/**
 * A small pretend world for the tests of this folder: nodes that share one registry, on virtual time. Nodes start,
 * crash and are cut off; clocks may run at their own speed; the leader is whoever the test says. Holds no tests itself.
 */
import assert from 'node:assert/strict';
import { type Done, type ErrorCode, success } from '../../../src/base/errors.ts';
import { type Fence, fenceOf } from '../../../src/base/fence.ts';
import { type NodeId, parseNodeId } from '../../../src/base/ids.ts';
import type { Clock, Identity } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { Leadership, LeadershipEvents, LeadershipView, Registry } from '../../../src/base/registry.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { clusterKey, keyRanges } from '../../../src/registry/cluster-keys.ts';
import type { KeyspaceLimits } from '../../../src/registry/keyspace/keyspace.ts';
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
  side: FakeRegistry | undefined;
  host: RegistrationHost | undefined;
  fenced: string | undefined;
  reconcile: Reconcile;
  /** How often it had to confirm what it holds. */
  reconciled: number;
};

/** Who leads is what the test says; its term grows with each change. */
class Leaders {
  readonly #watchers = new Set<{ readonly self: string; readonly events: LeadershipEvents }>();
  leader: string | undefined;
  term = 1;

  elect(leader: string | undefined): void {
    const before = this.leader;
    this.leader = leader;
    if (leader !== undefined) this.term += 1;
    for (const { self, events } of [...this.#watchers]) {
      if (self === before) events.lost?.('another leads');
      events.changed?.(this.#view());
      if (self === leader) events.elected?.(fenceOf(this.term, 1));
    }
  }

  of(self: string): Leadership {
    return {
      view: () => this.#view(),
      isLeading: () => this.leader === self,
      watch: (events) => {
        const watcher = { self, events };
        this.#watchers.add(watcher);
        return () => this.#watchers.delete(watcher);
      },
    };
  }

  #view(): LeadershipView {
    const fence: Fence | undefined = this.leader === undefined ? undefined : fenceOf(this.term, 1);
    return { leader: undefined, term: this.term, fence };
  }
}

export class RegistrationTestCluster {
  readonly timeline = new Timeline();
  readonly leaders = new Leaders();
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
        side: undefined,
        host: undefined,
        fenced: undefined,
        reconcile: (done) => done(success(undefined)),
        reconciled: 0,
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
    node.side = this.registry.connect();
    node.fenced = undefined;
    const { host } = this.life(name, node.generation, node.side);
    node.host = host;
    host.start();
    return host;
  }

  /** One more process that believes to be this node. */
  life(name: string, generation: number, registry: Registry): { readonly host: RegistrationHost } {
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
        node.reconciled += 1;
        node.reconcile(done);
      },
      event: ({ type, ...event }) => {
        const words = 'mode' in event ? ` ${event.mode} ${event.reason}` : '';
        this.#note(`${name} ${type}${words}`);
      },
      fenced: (error) => {
        node.fenced = error.message;
        this.#note(`${name}/${generation} fenced`);
      },
      onHalt: (error) => {
        throw error;
      },
    });
    return { host };
  }

  /** The process is gone; nothing of it runs on. */
  crash(name: string): void {
    const node = this.node(name);
    node.host?.stop();
    node.host = undefined;
    if (this.leaders.leader === name) this.leaders.elect(undefined);
  }

  cut(name: string, code?: ErrorCode): void {
    this.node(name).side?.interrupt(code);
  }

  heal(name: string): void {
    this.node(name).side?.resume();
  }

  /** Also makes it the one that notes who is lost. */
  lead(name: string): void {
    this.#worker?.stop();
    const ports = { registry: this.registry.connect(), clock: this.#clock(() => 1), leadership: this.leaders.of(name) };
    const worker = new ExpiryWorkerHost(ports, this.options, {
      event: ({ type, node }) => this.#note(`${this.nameOf(node)} ${type}`),
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

  roster(): NodeDirectory {
    const roster = new NodeDirectory();
    roster.load(this.registry.keyspace.range(keyRanges.roster, 10_000).entries);
    return roster;
  }

  row(name: string): NodeDirectoryEntry | undefined {
    return this.roster().get(this.node(name).id);
  }

  /** What the registry says of it, such as `active boot`. */
  standing(name: string): string {
    const row = this.row(name);
    return `${registrationStatus(row)} ${row?.state?.record?.reason ?? '-'}`;
  }

  epoch(): number {
    return this.roster().epoch?.record?.epoch ?? 0;
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

  #note(text: string): void {
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

/** All started one after the other, the first one leads, and the waits of its beginning are over. */
export function running(
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

/** As an operator would. */
export function setMode(
  cluster: RegistrationTestCluster,
  name: string,
  mode: 'draining' | 'drained' | 'active',
  reason: StateReason = mode === 'active' ? 'admin_activate' : 'admin_drain',
): void {
  const state = cluster.row(name)?.state?.record;
  assert.ok(state);
  const record = { ...state, mode, reason };
  const value = new TextEncoder().encode(JSON.stringify(record));
  cluster.write({ kind: 'put', key: clusterKey({ kind: 'state', node: cluster.node(name).id }), value });
}
