/**
 * Observes containers from outside: executions and fences, other serving nodes, acknowledgements, and the writes that
 * in-sync replicas have on disk. Changes nothing.
 */
import { fenceParts } from '../../../../src/base/fence.ts';
import type { NodeId } from '../../../../src/base/ids.ts';
import type { HostedContainer } from '../../../../src/containers/contract.ts';
import type { Context } from '../../../../src/containers/module.ts';
import type { ContainerRecord } from '../../../../src/placement/state/container-records.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { type CellObserver, type CellExecution, stateTagOf } from './cell-module.ts';
import { replicaHasCall } from './replica-on-disk.ts';
import type { ContainerLabel } from '../../../../src/simulation/cluster/registry-oracle.ts';
import type { MissingWrite, ServingNode } from '../../checking/pool-observations.ts';
import { poolLabel, poolNameOfLabel } from './pool-label.ts';
import { RegistryOracle } from '../../../../src/simulation/cluster/registry-oracle.ts';

export class PoolObserver implements CellObserver {
  readonly oracle: RegistryOracle;
  readonly #world: () => SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  /** The container in which each write ran last. */
  readonly #lastRun = new Map<string, ContainerLabel>();
  /** By container: the writes whose callers got a reply. */
  readonly #acknowledged = new Map<string, Set<string>>();
  /** A node keeps its id for ever, so nodes that are down stay here. */
  readonly #ids = new Map<NodeId, string>();
  /** When a pool was deleted from the registry. */
  readonly #deletedMs = new Map<string, number>();
  /** By container: the ISR at the last read. */
  readonly #inSync = new Map<string, string>();

  constructor(world: () => SimulatedWorld<SimulatedNode>, observe: WorkloadContext['observe']) {
    this.#world = world;
    this.#observe = observe;
    this.oracle = new RegistryOracle({
      labelOf: poolLabel,
      changed: (name, record) => this.#recordChanged(name, record),
      poolEnded: (pool) => this.#deletedMs.set(pool, this.#world().timeline.nowMs),
    });
  }

  booted(name: string, { core }: SimulatedNode): void {
    if (core === undefined) return;
    this.#ids.set(core.identity.id, name);
    if (core.control?.manager !== undefined) this.oracle.watch(core.control.manager.replica);
  }

  executed(run: CellExecution): void {
    const { node, pool, container, call } = run;
    if (run.isWrite) this.#lastRun.set(call, { pool, container });
    const world = this.#world();
    const hasLease = world.program(node)?.core?.containers?.lease?.holds() === true;
    const others = world.up().filter((name) => name !== node && world.host(name).process?.isPaused === false);
    const alsoServedBy = others.flatMap((name) => this.#servingNodeOf(name, run) ?? []);
    const goneMs = world.timeline.nowMs - (this.#deletedMs.get(pool) ?? Infinity);
    this.#observe({ kind: 'executed', ...run, fence: this.#fenceOf(node, run), hasLease, alsoServedBy, goneMs });
  }

  opened(ctx: Context, opening: string): void {
    const name = { pool: poolLabel(ctx.pool.name, ctx.pool.params), container: ctx.container };
    this.#observe({ kind: 'opened', ...name, node: ctx.node, fence: this.#fenceOf(ctx.node, name), opening });
  }

  acknowledged(call: string, pool: string, containers: readonly number[] | undefined): void {
    for (const container of containers ?? [this.#lastRun.get(call)?.container ?? -1]) {
      const name = { pool, container };
      const known = this.#acknowledged.get(stateTagOf(pool, container)) ?? new Set();
      this.#acknowledged.set(stateTagOf(pool, container), known.add(call));
      this.#observe({ kind: 'acknowledged', ...name, call });
      this.#readReplicas(name, this.oracle.record(name), [call]);
    }
  }

  /** Checks every acknowledged write on the disks of all in-sync replicas. */
  readAllReplicas(): void {
    for (const name of this.oracle.containers()) this.#readReplicasOf(name, this.oracle.record(name));
  }

  #recordChanged(name: ContainerLabel, record: ContainerRecord | undefined): void {
    this.#world().log.add('registry', this.#format(name, record));
    const inSync = (record?.inSync ?? []).map(({ node, generation }) => `${node}/${generation}`).join();
    const tag = stateTagOf(name.pool, name.container);
    if (this.#inSync.get(tag) === inSync) return;
    this.#inSync.set(tag, inSync);
    this.#readReplicasOf(name, record);
  }

  #readReplicasOf(name: ContainerLabel, record: ContainerRecord | undefined): void {
    const calls = this.#acknowledged.get(stateTagOf(name.pool, name.container));
    if (calls !== undefined) this.#readReplicas(name, record, [...calls]);
  }

  #format({ pool, container }: ContainerLabel, record: ContainerRecord | undefined): string {
    if (record === undefined) return `${pool}/${container} is gone`;
    const { owner, fence, phase, opening, copies, inSync, move } = record;
    const nameOf = (id: NodeId | undefined): string => (id === undefined ? 'no node' : (this.#ids.get(id) ?? id));
    const { term, index } = fenceParts(fence);
    const what = `${pool}/${container} under ${term}.${index} on ${nameOf(owner?.node)} ${phase} ${opening}`;
    const moving = move === undefined ? '' : `, ${move.step} to ${nameOf(move.to)}`;
    return `${what}, copies ${copies.map(nameOf).join()}, in sync ${inSync.map(({ node }) => nameOf(node)).join()}${moving}`;
  }

  #readReplicas(name: ContainerLabel, record: ContainerRecord | undefined, calls: readonly string[]): void {
    const missing: MissingWrite[] = [];
    const major = this.oracle.majorOf(name.pool) ?? -1;
    for (const { node: id } of record?.inSync ?? []) {
      const node = this.#ids.get(id) as string;
      const has = replicaHasCall(this.#world().host(node).disk, major, name.container);
      for (const call of calls) if (!has(call)) missing.push({ node, call });
    }
    this.#observe({ kind: 'replicasRead', ...name, missing });
  }

  /** A node that is down or paused serves nothing. */
  #servingNodeOf(node: string, name: ContainerLabel): ServingNode | undefined {
    const owned = this.#ownedContainer(node, name);
    const holds = this.#world().program(node)?.core?.containers?.lease?.holds() === true;
    return holds && owned?.isOpen === true ? { node, fence: BigInt(owned.fence) } : undefined;
  }

  #fenceOf(node: string, name: ContainerLabel): bigint {
    return BigInt(this.#ownedContainer(node, name)?.fence ?? -1);
  }

  /** A container that a node hosts under a name belongs to the pool that its own address table has under that name. */
  #ownedContainer(node: string, { pool: label, container }: ContainerLabel): HostedContainer | undefined {
    const parts = this.#world().program(node)?.core?.containers;
    const pool = poolNameOfLabel(label);
    if (poolLabel(pool, parts?.table.pool(pool)?.record.params) !== label) return undefined;
    const isOwned = ({ pool: its, id, role }: HostedContainer): boolean =>
      its === pool && id === container && role === 'owner';
    return parts?.hosting?.containers().find(isOwned);
  }
}
