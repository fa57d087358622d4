/**
 * Nodes, drains, loads and containers as the registry shows them, indexed by node for the assigner, reports and
 * operations. May be stale: a transaction compares the revisions its decision rests on. Holds nothing that the registry
 * does not hold under `/cluster/`.
 */
import type { NodeId } from '../../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { type ClusterKey, type ContainerName, parseClusterKey } from '../../registry/cluster-keys.ts';
import { type PoolRecord, readContainer, readPool } from './container-records.ts';
import {
  type NodeStateRecord,
  readRegistration,
  readNodeState,
  readStopping,
} from '../../registration/registration-records.ts';
import { type DrainRecord, readDrain } from './drain-record.ts';
import { type Versioned, type HeldContainer, containerFullName, heldCount, isMoving } from './node-holdings.ts';
import { type LoadReport, readLoadReport } from './load-report.ts';

export type KnownNode = {
  readonly id: NodeId;
  /** The revision that created its registration; undefined when it is not registered. */
  registered: number | undefined;
  /** From its registration; its id when the registration is missing or unreadable. */
  name: string;
  /** Of its registration; 0 when it is missing or unreadable. */
  generation: number;
  /** The generation that has announced its stop; undefined if none has. */
  stopping: number | undefined;
  /** Only workers own and replicate containers. */
  isWorker: boolean;
  /** A missing or unreadable state never counts as active. */
  state: Versioned<NodeStateRecord | undefined> | undefined;
  report: LoadReport | undefined;
  drain: (Versioned<DrainRecord> & { readonly sinceMs: number }) | undefined;
  /** The mark of a new node: it joined without containers and is being given its share. */
  spread: Versioned<undefined> | undefined;
  readonly owned: Map<string, HeldContainer>;
  /** Containers of other owners whose state this node keeps or is to keep. */
  readonly replicated: Map<string, HeldContainer>;
  /** Owned containers with a move under way. */
  leaving: number;
};

type KeyOfNode = Extract<
  ClusterKey,
  { readonly kind: 'registration' | 'load' | 'state' | 'stopping' | 'drain' | 'spread' }
>;

export class ClusterView {
  readonly nodes = new Map<NodeId, KnownNode>();
  /** With and without an owner, by full name. Unreadable records are left out. */
  readonly containers = new Map<string, HeldContainer>();
  readonly pools = new Map<string, PoolRecord>();
  /** Subsets of `containers`: with a move under way; without an owner. */
  readonly moving = new Map<string, HeldContainer>();
  readonly unowned = new Map<string, HeldContainer>();
  assigner: { readonly value: Uint8Array; readonly modRevision: number } | undefined;
  revision = 0;

  /** Builds a view of all entries; times of unchanged facts (`sinceMs`) are kept from the old view. */
  static from(entries: readonly RegistryEntry[], revision: number, nowMs: number, old?: ClusterView): ClusterView {
    const view = new ClusterView();
    for (const entry of entries) view.#put(entry, nowMs, old);
    view.revision = revision;
    return view;
  }

  apply(changes: readonly RegistryChange[], revision: number, nowMs: number): void {
    for (const change of changes) {
      if (change.kind === 'put') this.#put(change.entry, nowMs, this);
      else this.#delete(change.key);
    }
    this.revision = Math.max(this.revision, revision);
  }

  activeNodes(): readonly KnownNode[] {
    return [...this.nodes.values()].filter(isActive);
  }

  /** While a container moves, the load after the move is not visible yet. */
  hasMovesInFlight(): boolean {
    return this.moving.size > 0;
  }

  #put(entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const key = parseClusterKey(entry.key);
    if (key === undefined) return;
    switch (key.kind) {
      case 'container':
        return this.#putContainer(key, entry, nowMs, old);
      case 'registration': {
        const node = this.#node(key.node, old);
        node.registered = entry.createRevision;
        const record = readRegistration(entry.value);
        node.name = record?.name ?? key.node;
        node.generation = record?.generation ?? 0;
        node.isWorker = record?.roles.includes('worker') ?? false;
        return;
      }
      case 'state':
        this.#node(key.node, old).state = versioned(entry, readNodeState(entry.value));
        return;
      case 'stopping':
        this.#node(key.node, old).stopping = readStopping(entry.value)?.generation;
        return;
      case 'load':
        this.#node(key.node, old).report = readLoadReport(entry.value);
        return;
      case 'drain': {
        const before = old?.nodes.get(key.node)?.drain;
        const sinceMs = before?.createRevision === entry.createRevision ? before.sinceMs : nowMs;
        this.#node(key.node, old).drain = { ...versioned(entry, readDrain(entry.value)), sinceMs };
        return;
      }
      case 'pool': {
        const pool = readPool(entry.value);
        if (pool !== undefined) this.pools.set(key.pool, pool);
        return;
      }
      case 'spread':
        this.#node(key.node, old).spread = versioned(entry, undefined);
        return;
      case 'assigner':
        this.assigner = { value: entry.value, modRevision: entry.modRevision };
        return;
      case 'epoch':
      case 'containerNode':
      case 'lastDeletion':
      case 'lastPool':
      case 'placer':
    }
  }

  #putContainer(name: ContainerName, entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const { pool, container } = name;
    const fullName = containerFullName(name);
    const before = old?.containers.get(fullName);
    this.#removeContainer(fullName);
    const record = readContainer(entry.value);
    if (record === undefined) return;
    const isSame = before?.createRevision === entry.createRevision && before.record.owner?.node === record.owner?.node;
    const sinceMs = isSame ? before.sinceMs : nowMs;
    const isCancelled = isSame && before.record.move !== undefined && record.move === undefined;
    const moveCancelledMs = isCancelled ? nowMs : isSame ? before.moveCancelledMs : undefined;
    const held: HeldContainer = {
      ...versioned(entry, record),
      ...{ name: { pool, container }, fullName, sinceMs, moveCancelledMs },
    };
    this.containers.set(fullName, held);
    if (record.move !== undefined) this.moving.set(fullName, held);
    const owner = record.owner?.node;
    if (owner === undefined) this.unowned.set(fullName, held);
    else {
      const node = this.#node(owner, old);
      node.owned.set(fullName, held);
      if (isMoving(held)) node.leaving += 1;
    }
    for (const id of record.copies) if (id !== owner) this.#node(id, old).replicated.set(fullName, held);
  }

  #removeContainer(fullName: string): void {
    const held = this.containers.get(fullName);
    if (held === undefined) return;
    for (const index of [this.containers, this.moving, this.unowned]) index.delete(fullName);
    const { owner, copies } = held.record;
    for (const id of new Set([...copies, ...(owner === undefined ? [] : [owner.node])])) {
      const node = this.nodes.get(id);
      if (node === undefined) continue;
      node.replicated.delete(fullName);
      if (node.owned.delete(fullName) && isMoving(held)) node.leaving -= 1;
      this.#removeIfEmpty(node);
    }
  }

  #delete(text: string): void {
    const key = parseClusterKey(text);
    if (key === undefined) return;
    switch (key.kind) {
      case 'epoch':
      case 'containerNode':
      case 'lastDeletion':
      case 'lastPool':
      case 'placer':
        return;
      case 'pool':
        this.pools.delete(key.pool);
        return;
      case 'container':
        return this.#removeContainer(containerFullName(key));
      case 'assigner':
        this.assigner = undefined;
        return;
      case 'drain':
      case 'load':
      case 'registration':
      case 'spread':
      case 'state':
      case 'stopping':
        return this.#deleteOfNode(key);
    }
  }

  #deleteOfNode(key: KeyOfNode): void {
    const node = this.nodes.get(key.node);
    if (node === undefined) return;
    if (key.kind === 'registration') node.registered = undefined;
    else if (key.kind === 'load') node.report = undefined;
    else node[key.kind] = undefined;
    this.#removeIfEmpty(node);
  }

  #node(id: NodeId, old?: ClusterView): KnownNode {
    const found = this.nodes.get(id);
    if (found !== undefined) return found;
    const node: KnownNode = {
      id,
      registered: undefined,
      name: old?.nodes.get(id)?.name ?? id,
      generation: 0,
      stopping: undefined,
      isWorker: false,
      state: undefined,
      report: undefined,
      drain: undefined,
      spread: undefined,
      owned: new Map(),
      replicated: new Map(),
      leaving: 0,
    };
    this.nodes.set(id, node);
    return node;
  }

  /** Drops a node about which the registry has no entry any more. */
  #removeIfEmpty(node: KnownNode): void {
    const { registered, state, stopping, report, drain, spread } = node;
    if (heldCount(node) > 0) return;
    if ([registered, state, stopping, report, drain, spread].every((entry) => entry === undefined))
      this.nodes.delete(node.id);
  }
}

/** An active node may get containers. */
export function isActive(node: KnownNode): boolean {
  const isStopping = node.stopping !== undefined && node.stopping >= node.generation;
  return node.isWorker && node.registered !== undefined && node.state?.record?.mode === 'active' && !isStopping;
}

function versioned<T>({ modRevision, createRevision }: RegistryEntry, record: T): Versioned<T> {
  return { record, modRevision, createRevision };
}
