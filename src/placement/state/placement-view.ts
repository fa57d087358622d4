/**
 * Pools, containers and nodes as the registry shows them, indexed for the placer. May be stale: a transaction compares
 * the revisions its decision rests on. `changedNames` collects what changed since the placer cleared it, so a change
 * never costs a full scan. Holds only `/cluster/`.
 */
import type { NodeId } from '../../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { type ClusterKey, parseClusterKey } from '../../registry/cluster-keys.ts';
import type { NodeMode } from '../../registration/node-modes.ts';
import { readRegistration, readNodeState, readStopping } from '../../registration/registration-records.ts';
import { type ContainerRecord, type PoolRecord, readContainer, readNodeNumber, readPool } from './container-records.ts';

export type PlacementNode = {
  readonly id: NodeId;
  /** From its registration; its id when the registration is missing or unreadable. */
  name: string;
  isWorker: boolean;
  /** The revision that created its registration; undefined when it is not registered. */
  registered: number | undefined;
  /** Of the last registration that the view showed. */
  generation: number;
  /** Local time since which it is not registered. */
  missingSinceMs: number;
  /** A missing or unreadable mode never counts as active. */
  mode: NodeMode | undefined;
  stateRevision: number;
  /** The generation that has announced its stop; undefined if none has. */
  stoppingGeneration: number | undefined;
  /** Its number in address tables. */
  number: number | undefined;
  readonly owned: Set<string>;
  /** Containers of other owners whose state it has or is to have. */
  readonly replicated: Set<string>;
  /** Of `replicated`, the served ones whose ISR lacks this node: local time since then. */
  readonly laggingSinceMs: Map<string, number>;
};

export type PlacementContainer = {
  readonly pool: string;
  readonly number: number;
  readonly fullName: string;
  readonly record: ContainerRecord;
  readonly modRevision: number;
  /** Local time since which fence, phase, failures and move are what they are. */
  readonly sinceMs: number;
};

export type PlacementPool = {
  readonly name: string;
  /** Undefined: missing or unreadable. The placer then leaves its containers alone. */
  record: PoolRecord | undefined;
  modRevision: number;
  readonly containers: Map<number, PlacementContainer>;
  /** Numbers of existing records that are malformed; the placer leaves them alone. */
  readonly unreadable: Set<number>;
  /** In the phase `opening`. */
  readonly opening: Set<number>;
  /** With another module version than the pool. */
  readonly behind: Set<number>;
  /** All containers with a lower number exist. */
  missingFrom: number;
};

type KeyOfNode = Extract<ClusterKey, { readonly kind: 'registration' | 'state' | 'stopping' | 'containerNode' }>;

const numberPattern = /^(?:0|[1-9]\d{0,8})$/;

export class PlacementView {
  readonly nodes = new Map<NodeId, PlacementNode>();
  readonly pools = new Map<string, PlacementPool>();
  readonly containers = new Map<string, PlacementContainer>();
  readonly changedNames = { containers: new Set<string>(), pools: new Set<string>(), nodes: new Set<NodeId>() };
  placer: { readonly value: Uint8Array; readonly modRevision: number } | undefined;
  /** The highest node number seen. */
  numberMax = 0;
  revision = 0;

  /** Builds a view of all entries; times of unchanged facts (`sinceMs`) are kept from the old view. */
  static from(entries: readonly RegistryEntry[], revision: number, nowMs: number, old?: PlacementView): PlacementView {
    const view = new PlacementView();
    for (const entry of entries) view.#put(entry, nowMs, old);
    view.revision = revision;
    return view;
  }

  apply(changes: readonly RegistryChange[], revision: number, nowMs: number): void {
    for (const change of changes) {
      if (change.kind === 'put') this.#put(change.entry, nowMs, this);
      else this.#delete(change.key, nowMs);
    }
    this.revision = Math.max(this.revision, revision);
  }

  nameOf(id: NodeId): string {
    return this.nodes.get(id)?.name ?? id;
  }

  #put(entry: RegistryEntry, nowMs: number, old: PlacementView | undefined): void {
    const key = parseClusterKey(entry.key);
    if (key?.kind === 'container') this.#putContainer(key, entry, nowMs, old);
    else if (key?.kind === 'pool') this.#putPool(key.pool, entry);
    else if (key?.kind === 'placer') this.placer = { value: entry.value, modRevision: entry.modRevision };
    else if (key !== undefined && isKeyOfNode(key)) {
      this.#putNode(key, entry, nowMs, old);
    }
  }

  #putNode(key: KeyOfNode, entry: RegistryEntry, nowMs: number, old: PlacementView | undefined): void {
    const node = this.#node(key.node, nowMs, old);
    this.changedNames.nodes.add(node.id);
    if (key.kind === 'state') {
      node.mode = readNodeState(entry.value)?.mode;
      node.stateRevision = entry.modRevision;
    } else if (key.kind === 'stopping') {
      node.stoppingGeneration = readStopping(entry.value)?.generation;
    } else if (key.kind === 'containerNode') {
      node.number = readNodeNumber(entry.value);
      this.numberMax = Math.max(this.numberMax, node.number ?? 0);
    } else {
      const record = readRegistration(entry.value);
      node.registered = entry.createRevision;
      node.name = record?.name ?? node.id;
      node.isWorker = record?.roles.includes('worker') ?? false;
      node.generation = Math.max(node.generation, record?.generation ?? 0);
    }
  }

  #putPool(name: string, entry: RegistryEntry): void {
    const pool = this.#pool(name);
    pool.record = readPool(entry.value);
    pool.modRevision = entry.modRevision;
    this.changedNames.pools.add(name);
    pool.behind.clear();
    for (const { number, fullName, record } of pool.containers.values()) {
      this.changedNames.containers.add(fullName);
      if (record.moduleVersion !== pool.record?.moduleVersion) pool.behind.add(number);
    }
  }

  #putContainer(
    key: { readonly pool: string; readonly container: string },
    entry: RegistryEntry,
    nowMs: number,
    old: PlacementView | undefined,
  ): void {
    if (!numberPattern.test(key.container)) return;
    const number = Number(key.container);
    const fullName = `${key.pool}/${number}`;
    const before = old?.containers.get(fullName);
    const pool = this.#pool(key.pool);
    const record = readContainer(entry.value);
    if (record === undefined) {
      this.#removeContainer(fullName);
      pool.unreadable.add(number);
      return;
    }
    const sinceMs = before !== undefined && stageOf(before.record) === stageOf(record) ? before.sinceMs : nowMs;
    const container = { pool: key.pool, number, fullName, record, modRevision: entry.modRevision, sinceMs };
    const replaced = this.containers.get(fullName);
    this.containers.set(fullName, container);
    pool.containers.set(number, container);
    pool.unreadable.delete(number);
    setMember(pool.opening, number, record.phase === 'opening');
    setMember(pool.behind, number, record.moduleVersion !== pool.record?.moduleVersion);
    if (replaced !== undefined) this.#unindex(fullName, replaced.record, holdersOf(record));
    this.#index(container, nowMs, old);
    this.changedNames.containers.add(fullName);
    this.changedNames.pools.add(key.pool);
  }

  /** Updates in place: deleting and adding a name again makes a large Set slow. */
  #index({ fullName, record }: PlacementContainer, nowMs: number, old: PlacementView | undefined): void {
    const owner = record.owner?.node;
    const isServed = record.phase === 'serving' && record.move === undefined;
    for (const id of holdersOf(record)) {
      const node = this.#node(id, nowMs, old);
      setMember(node.owned, fullName, id === owner);
      setMember(node.replicated, fullName, id !== owner);
      const isLagging = isServed && id !== owner && record.inSync.every((holder) => holder.node !== id);
      if (isLagging) node.laggingSinceMs.set(fullName, old?.nodes.get(id)?.laggingSinceMs.get(fullName) ?? nowMs);
      else node.laggingSinceMs.delete(fullName);
    }
  }

  #delete(text: string, nowMs: number): void {
    const key = parseClusterKey(text);
    if (key?.kind === 'container') return this.#deleteContainer(key);
    if (key?.kind === 'pool') {
      const pool = this.#pool(key.pool);
      pool.record = undefined;
      pool.modRevision = 0;
      this.changedNames.pools.add(key.pool);
      this.#removePoolIfEmpty(pool);
    } else if (key?.kind === 'placer') this.placer = undefined;
    else if (key !== undefined && isKeyOfNode(key)) {
      const node = this.nodes.get(key.node);
      if (node === undefined) return;
      this.changedNames.nodes.add(node.id);
      if (key.kind === 'registration') {
        node.registered = undefined;
        node.missingSinceMs = nowMs;
      } else if (key.kind === 'containerNode') node.number = undefined;
      else if (key.kind === 'stopping') node.stoppingGeneration = undefined;
      else {
        node.mode = undefined;
        node.stateRevision = 0;
      }
      this.#removeNodeIfEmpty(node);
    }
  }

  #deleteContainer(key: { readonly pool: string; readonly container: string }): void {
    const number = Number(key.container);
    if (!numberPattern.test(key.container)) return;
    this.#removeContainer(`${key.pool}/${number}`);
    const pool = this.#pool(key.pool);
    pool.unreadable.delete(number);
    pool.missingFrom = Math.min(pool.missingFrom, number);
    this.changedNames.pools.add(key.pool);
    this.#removePoolIfEmpty(pool);
  }

  #removeContainer(fullName: string): void {
    const container = this.containers.get(fullName);
    if (container === undefined) return;
    this.containers.delete(fullName);
    this.changedNames.containers.add(fullName);
    const pool = this.#pool(container.pool);
    for (const index of [pool.containers, pool.opening, pool.behind]) index.delete(container.number);
    this.#unindex(fullName, container.record, new Set());
  }

  /** Removes the container from the nodes of its record, except from those that the next record still names. */
  #unindex(fullName: string, record: ContainerRecord, kept: ReadonlySet<NodeId>): void {
    for (const id of holdersOf(record)) {
      const node = this.nodes.get(id);
      if (node === undefined || kept.has(id)) continue;
      for (const index of [node.owned, node.replicated, node.laggingSinceMs]) index.delete(fullName);
      this.#removeNodeIfEmpty(node);
    }
  }

  #pool(name: string): PlacementPool {
    const found = this.pools.get(name);
    if (found !== undefined) return found;
    const pool: PlacementPool = {
      ...{ name, record: undefined, modRevision: 0, missingFrom: 0 },
      ...{ containers: new Map(), unreadable: new Set(), opening: new Set(), behind: new Set() },
    };
    this.pools.set(name, pool);
    return pool;
  }

  #removePoolIfEmpty({ name, record, modRevision, containers, unreadable }: PlacementPool): void {
    if (record === undefined && modRevision === 0 && containers.size + unreadable.size === 0) this.pools.delete(name);
  }

  #node(id: NodeId, nowMs: number, old: PlacementView | undefined): PlacementNode {
    const found = this.nodes.get(id);
    if (found !== undefined) return found;
    const before = old?.nodes.get(id);
    const node: PlacementNode = {
      id,
      name: before?.name ?? id,
      isWorker: false,
      registered: undefined,
      generation: before?.generation ?? 0,
      missingSinceMs: before?.registered === undefined ? (before?.missingSinceMs ?? nowMs) : nowMs,
      mode: undefined,
      stateRevision: 0,
      stoppingGeneration: undefined,
      number: undefined,
      owned: new Set(),
      replicated: new Set(),
      laggingSinceMs: new Map(),
    };
    this.nodes.set(id, node);
    return node;
  }

  /** Drops a node about which the registry has no entry any more. */
  #removeNodeIfEmpty({ id, registered, stateRevision, number, owned, replicated }: PlacementNode): void {
    if (registered !== undefined || stateRevision > 0 || number !== undefined) return;
    if (owned.size + replicated.size === 0) this.nodes.delete(id);
  }
}

/** It may get containers, as far as the registry knows; its serving lease is another question. */
export function isActiveNode(node: PlacementNode): boolean {
  return node.isWorker && node.registered !== undefined && node.mode === 'active' && !isStoppingNode(node);
}

/** Its process is stopping. A later process of the node is not concerned. */
export function isStoppingNode({ stoppingGeneration, generation }: PlacementNode): boolean {
  return stoppingGeneration !== undefined && stoppingGeneration >= generation;
}

function isKeyOfNode(key: ClusterKey): key is KeyOfNode {
  return ['registration', 'state', 'stopping', 'containerNode'].includes(key.kind);
}

function holdersOf({ owner, copies, inSync, move }: ContainerRecord): ReadonlySet<NodeId> {
  const nodes = new Set([...copies, ...inSync.map(({ node }) => node)]);
  if (owner !== undefined) nodes.add(owner.node);
  if (move !== undefined) nodes.add(move.to);
  return nodes;
}

function stageOf({ fence, phase, failures, move }: ContainerRecord): string {
  return `${fence} ${phase} ${failures} ${move?.step} ${move?.to}`;
}

function setMember<T>(set: Set<T>, member: T, isMember: boolean): void {
  if (isMember) set.add(member);
  else set.delete(member);
}
