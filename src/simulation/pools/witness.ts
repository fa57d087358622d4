/**
 * Sees everything about containers that simulated nodes do, from outside: which methods run where and under which fence,
 * who else would have run them, what callers were told, and what the disks of those hold who are in sync.
 */
import { fenceParts } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { HostedContainer } from '../../containers/contract.ts';
import type { Context } from '../../containers/module.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { StageSpec } from '../observation.ts';
import type { World } from '../world.ts';
import { type CellWitness, type Run, tagOf } from './cell-module.ts';
import { callsOnDisk } from './copy-on-disk.ts';
import type { ContainerName, Lack, Server } from './observation.ts';
import { labelOf, nameIn } from './pool-label.ts';
import { RegistryTruth } from './registry-truth.ts';

export class PoolWitness implements CellWitness {
  readonly truth: RegistryTruth;
  readonly #world: () => World<HostedNode>;
  readonly #observe: StageSpec['observe'];
  /** Where each writing call ran last. */
  readonly #ran = new Map<string, ContainerName>();
  /** By container: the calls of which a caller was told that they are done. */
  readonly #acknowledged = new Map<string, Set<string>>();
  /** A node keeps its id for ever; who is down has told it before. */
  readonly #ids = new Map<NodeId, string>();
  /** When the registry has lost a pool. */
  readonly #endedMs = new Map<string, number>();
  /** By container: who was in sync when it was looked at last. */
  readonly #inSync = new Map<string, string>();

  constructor(world: () => World<HostedNode>, observe: StageSpec['observe']) {
    this.#world = world;
    this.#observe = observe;
    this.truth = new RegistryTruth({
      labelOf,
      changed: (name, record) => this.#recordChanged(name, record),
      poolEnded: (pool) => this.#endedMs.set(pool, this.#world().timeline.nowMs),
    });
  }

  /** The node has begun to live. */
  booted(name: string, { core }: HostedNode): void {
    if (core === undefined) return;
    this.#ids.set(core.identity.id, name);
    if (core.control?.seat !== undefined) this.truth.follow(core.control.seat.replica);
  }

  ran(run: Run): void {
    const { node, pool, container, call } = run;
    if (run.isWriting) this.#ran.set(call, { pool, container });
    const world = this.#world();
    const hasLease = world.program(node)?.core?.containers?.lease?.holds() === true;
    const others = world.up().filter((name) => name !== node && world.host(name).life?.isStalled === false);
    const alsoServedBy = others.flatMap((name) => this.#serverOf(name, run) ?? []);
    const goneMs = world.timeline.nowMs - (this.#endedMs.get(pool) ?? Infinity);
    this.#observe({ kind: 'executed', ...run, fence: this.#fenceOf(node, run), hasLease, alsoServedBy, goneMs });
  }

  opened(ctx: Context, how: string): void {
    const name = { pool: labelOf(ctx.pool.name, ctx.pool.params), container: ctx.container };
    this.#observe({ kind: 'opened', ...name, node: ctx.node, fence: this.#fenceOf(ctx.node, name), how });
  }

  acknowledged(call: string, pool: string, containers: readonly number[] | undefined): void {
    for (const container of containers ?? [this.#ran.get(call)?.container ?? -1]) {
      const name = { pool, container };
      const known = this.#acknowledged.get(tagOf(pool, container)) ?? new Set();
      this.#acknowledged.set(tagOf(pool, container), known.add(call));
      this.#observe({ kind: 'acknowledged', ...name, call });
      this.#look(name, this.truth.record(name), [call]);
    }
  }

  /** Everything that was ever acknowledged is looked for, on every disk that is said to have it. */
  lookAtAll(): void {
    for (const name of this.truth.containers()) this.#lookAtAllOf(name, this.truth.record(name));
  }

  #recordChanged(name: ContainerName, record: ContainerRecord | undefined): void {
    this.#world().log.add('registry', this.#print(name, record));
    const inSync = (record?.inSync ?? []).map(({ node, generation }) => `${node}/${generation}`).join();
    const tag = tagOf(name.pool, name.container);
    if (this.#inSync.get(tag) === inSync) return;
    this.#inSync.set(tag, inSync);
    this.#lookAtAllOf(name, record);
  }

  #lookAtAllOf(name: ContainerName, record: ContainerRecord | undefined): void {
    const calls = this.#acknowledged.get(tagOf(name.pool, name.container));
    if (calls !== undefined) this.#look(name, record, [...calls]);
  }

  #print({ pool, container }: ContainerName, record: ContainerRecord | undefined): string {
    if (record === undefined) return `${pool}/${container} is gone`;
    const { owner, fence, phase, opening, copies, inSync, move } = record;
    const nameOf = (id: NodeId | undefined): string => (id === undefined ? 'nobody' : (this.#ids.get(id) ?? id));
    const { term, index } = fenceParts(fence);
    const what = `${pool}/${container} under ${term}.${index} on ${nameOf(owner?.node)} ${phase} ${opening}`;
    const moving = move === undefined ? '' : `, ${move.step} to ${nameOf(move.to)}`;
    return `${what}, copies ${copies.map(nameOf).join()}, in sync ${inSync.map(({ node }) => nameOf(node)).join()}${moving}`;
  }

  #look(name: ContainerName, record: ContainerRecord | undefined, calls: readonly string[]): void {
    const lacks: Lack[] = [];
    const major = this.truth.majorOf(name.pool) ?? -1;
    for (const { node: id } of record?.inSync ?? []) {
      const node = this.#ids.get(id) as string;
      const has = callsOnDisk(this.#world().host(node).disk, major, name.container);
      for (const call of calls) if (!has(call)) lacks.push({ node, call });
    }
    this.#observe({ kind: 'copiesLooked', ...name, lacks });
  }

  /** Who is stopped or stands still serves nothing. */
  #serverOf(node: string, name: ContainerName): Server | undefined {
    const own = this.#ownedBy(node, name);
    const holds = this.#world().program(node)?.core?.containers?.lease?.holds() === true;
    return holds && own?.isOpen === true ? { node, fence: BigInt(own.fence) } : undefined;
  }

  #fenceOf(node: string, name: ContainerName): bigint {
    return BigInt(this.#ownedBy(node, name)?.fence ?? -1);
  }

  /** What a node hosts under a name belongs to the pool that its own table has under it. */
  #ownedBy(node: string, { pool: label, container }: ContainerName): HostedContainer | undefined {
    const parts = this.#world().program(node)?.core?.containers;
    const pool = nameIn(label);
    if (labelOf(pool, parts?.table.pool(pool)?.record.params) !== label) return undefined;
    const isOwned = ({ pool: its, id, role }: HostedContainer): boolean =>
      its === pool && id === container && role === 'owner';
    return parts?.hosting?.containers().find(isOwned);
  }
}
