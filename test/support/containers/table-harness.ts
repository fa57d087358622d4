/** One registry, and nodes with an address table each, on simulated disks. */
import assert from 'node:assert/strict';

import { fenceOf } from '../../../src/base/fence.ts';
import { type NodeId, nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { type Registry, type RegistryOp, onlyKey } from '../../../src/base/registry.ts';
import { clusterKey } from '../../../src/registry/cluster-keys.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';
import {
  type ContainerRecord,
  type PoolRecord,
  encodeContainer,
  encodeNodeNumber,
  encodePool,
} from '../../../src/placement/state/container-records.ts';
import type { SimulatedPorts } from '../../../src/simulation/world/simulated-ports.ts';
import { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';
import type { ContainerChange, KnownPool } from '../../../src/containers/contract.ts';
import type { AddressTableEvent } from '../../../src/containers/address-table/table-event.ts';
import {
  AddressTableHost,
  type AddressTableOptions,
} from '../../../src/containers/address-table/address-table-host.ts';

export function node(number: number): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(number));
}

export const poolRecord: PoolRecord = {
  ...{ major: 1, minor: 0, module: 'counter', moduleVersion: 0, containers: 8, copies: 2 },
  ...{ durability: 'copies', restart: true, params: null, state: 'active' },
};

function containerRecord(owner: NodeId | undefined, count = 1): ContainerRecord {
  const replica = owner === undefined ? undefined : { node: owner, generation: 1 };
  return {
    ...{ owner: replica, fence: fenceOf(1, count), opening: 'init', phase: 'serving', move: undefined },
    ...{ copies: [], inSync: [], moduleVersion: 0, failures: 0, note: '' },
  };
}

export type TableTestNode = {
  readonly table: AddressTableHost;
  readonly changes: ContainerChange[];
  readonly events: AddressTableEvent[];
  /** Reports of the table in order, as short texts. */
  readonly log: string[];
  readonly registry: FakeRegistry;
  readonly ports: SimulatedPorts;
};

export type TableHarnessOptions = {
  readonly seed?: string;
  readonly names?: readonly string[];
  /** Wraps the registry client of a table. */
  readonly wrap?: (registry: FakeRegistry) => Pick<Registry, 'range' | 'watch'>;
  /** Nodes start cut off from the registry. */
  readonly isCut?: () => boolean;
  readonly options?: Partial<AddressTableOptions>;
};

export class TableHarness {
  readonly world: SimulatedWorld<TableTestNode>;
  readonly registry: FakeRegistry;
  readonly errors: unknown[] = [];

  constructor(harnessOptions: TableHarnessOptions = {}) {
    const {
      seed = 'table',
      names = ['a'],
      wrap = (registry) => registry,
      isCut = () => false,
      options = {},
    } = harnessOptions;
    this.world = new SimulatedWorld<TableTestNode>({
      ...{ seed, names, failpoints: false },
      boot: (ports) => {
        const registry = this.registry.connect();
        if (isCut()) registry.interrupt('NO_QUORUM');
        const changes: ContainerChange[] = [];
        const events: AddressTableEvent[] = [];
        const log: string[] = [];
        const table: AddressTableHost = new AddressTableHost(
          {
            ...{ registry: wrap(registry), clock: ports.clock, files: ports.files, self: { id: node(200) } },
            emit: (event) => events.push(event),
            onHalt: (error) => this.errors.push(error),
          },
          {
            changed: (change) => {
              changes.push(change);
              const { pool, container, record, revision } = change;
              log.push(`${pool.name}/${container} ${short(record?.owner?.node)}`);
              // A report equals the table at that moment.
              assert.equal(table.ownerOf(pool, container), record?.owner?.node);
              assert.equal(table.versionOf(pool, container), record === undefined ? 0 : revision);
            },
            confirmed: () => log.push('confirmed'),
            poolChanged: (pool, isGone) => log.push(`${pool.name} ${isGone ? 'gone' : 'is'} ${pool.record.major}`),
          },
          options,
        );
        table.start();
        return { table, changes, events, log, registry, ports };
      },
    });
    const clock: Clock = {
      nowMs: () => this.world.timeline.nowMs,
      wallMs: () => this.world.timeline.nowMs,
      schedule: (delayMs, run) => this.world.timeline.after(delayMs, run),
    };
    this.registry = fakeRegistry({ clock });
  }

  start(): this {
    this.world.startAll();
    this.run(100);
    return this;
  }

  run(forMs: number): void {
    this.world.advance(forMs);
    assert.deepEqual(this.errors, []);
  }

  at(name = 'a'): TableTestNode {
    const program = this.world.program(name);
    assert.ok(program !== undefined, `${name} is down`);
    return program;
  }

  get table(): AddressTableHost {
    return this.at().table;
  }

  pool(name = 'p'): KnownPool {
    const pool = this.table.pool(name);
    assert.ok(pool !== undefined, `${name} is not known`);
    return pool;
  }

  /** Puts all keys in one transaction; returns its revision. */
  put(...ops: readonly RegistryOp[]): number {
    this.registry.transact({ compare: [], then: ops, otherwise: [] }, {}, (outcome) => assert.ok(outcome.ok));
    return this.registry.keyspace.revision;
  }

  /** Creates a pool and assigns the owners to its containers in turn. */
  createPool(name: string, record: Partial<PoolRecord> = {}, owners: readonly NodeId[] = [node(1), node(2)]): void {
    const whole = { ...poolRecord, ...record };
    this.put(putPool(name, whole), ...owners.map((owner, index) => putNumber(owner, index + 1)));
    for (let container = 0; container < whole.containers; container++) {
      this.put(putContainer(name, container, owners[container % owners.length]));
    }
  }

  owners(name = 'p', at = 'a'): string {
    const { table } = this.at(at);
    const pool = table.pool(name);
    if (pool === undefined) return 'no pool';
    return Array.from({ length: pool.record.containers }, (_, i) => short(table.ownerOf(pool, i))).join(' ');
  }

  files(name = 'a'): readonly string[] {
    return [...this.world.host(name).disk.files.keys()].toSorted();
  }

  crash(power: 'kept' | 'lost' = 'lost', name = 'a'): void {
    const { table } = this.at(name);
    this.world.crash(name, power);
    // The shared registry knows nothing of crashes and would go on notifying the crashed node.
    table.stop();
  }

  restart(power: 'kept' | 'lost' = 'lost', name = 'a'): void {
    this.crash(power, name);
    this.world.start(name);
    this.run(100);
  }
}

export function putPool(name: string, record: PoolRecord): RegistryOp {
  return { kind: 'put', key: clusterKey({ kind: 'pool', pool: name }), value: encodePool(record) };
}

export function putContainer(pool: string, container: number, owner: NodeId | undefined, count = 1): RegistryOp {
  const key = clusterKey({ kind: 'container', pool, container: String(container) });
  return { kind: 'put', key, value: encodeContainer(containerRecord(owner, count)) };
}

export function putNumber(id: NodeId, number: number): RegistryOp {
  return { kind: 'put', key: clusterKey({ kind: 'containerNode', node: id }), value: encodeNodeNumber(number) };
}

export function remove(key: string): RegistryOp {
  return { kind: 'delete', range: onlyKey(key) };
}

function short(id: NodeId | undefined): string {
  return id === undefined ? '-' : String(Number.parseInt(id.slice(0, 2), 16));
}

/** Calls `run` that many times at an interval; returns a function that counts the calls. */
export function setEvery(
  harness: TableHarness,
  everyMs: number,
  times: number,
  run: (round: number) => void,
): () => number {
  let done = 0;
  const next = (): void => {
    if (done === times) return;
    run(done);
    done += 1;
    harness.world.timeline.after(everyMs, next);
  };
  next();
  return () => done;
}
