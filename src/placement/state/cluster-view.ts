/**
 * Nodes, drains, loads and containers as the registry shows them, in a shape that decisions can be made from. It is a
 * copy and may be late; a decision names the revisions it rests on and is refused when they have passed. It holds what
 * the registry holds under `/cluster/`, no more.
 */
import type { NodeId } from '../../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { type ClusterKey, type ContainerName, parseClusterKey } from '../../registry/cluster-keys.ts';
import { type PoolRecord, readContainer, readPool } from './container-records.ts';
import { type NodeStateRecord, readRegistration, readNodeState } from '../../registration/registration-records.ts';
import { type DrainRecord, readDrain } from './drain-record.ts';
import { type Versioned, type HeldContainer, containerText, heldCount, isMoving } from './node-holdings.ts';
import { type LoadReport, readLoadReport } from './load-report.ts';

export type KnownNode = {
  readonly id: NodeId;
  /** The revision that created its registration; undefined when it is not registered. */
  registered: number | undefined;
  /** From its registration, for people; its id when it cannot be read. */
  name: string;
  /** It has the role of a worker: only workers hold anything. */
  works: boolean;
  /** A state that is missing or cannot be read never means active. */
  state: Versioned<NodeStateRecord | undefined> | undefined;
  report: LoadReport | undefined;
  drain: (Versioned<DrainRecord> & { readonly sinceMs: number }) | undefined;
  /** It came without containers, and gets its share of them by and by. */
  spread: Versioned<undefined> | undefined;
  readonly owned: Map<string, HeldContainer>;
  readonly copied: Map<string, HeldContainer>;
  /** How many of its own containers are on their way to another node. */
  leaving: number;
};

type KeyOfNode = Extract<ClusterKey, { readonly kind: 'registration' | 'load' | 'state' | 'drain' | 'spread' }>;

export class ClusterView {
  readonly nodes = new Map<NodeId, KnownNode>();
  /** Whoever owns them, if anybody does. A record that cannot be read is as good as none. */
  readonly containers = new Map<string, HeldContainer>();
  readonly pools = new Map<string, PoolRecord>();
  /** Of the containers: on their way to another node; without an owner. */
  readonly moving = new Map<string, HeldContainer>();
  readonly unowned = new Map<string, HeldContainer>();
  assigner: { readonly value: Uint8Array; readonly modRevision: number } | undefined;
  revision = 0;

  /** A new view of everything, which remembers since when from the old one. */
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

  /** A container is between two nodes: how the load will lie is not to be seen yet. */
  hasMovesInFlight(): boolean {
    return this.moving.size > 0;
  }

  #put(entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const key = parseClusterKey(entry.key);
    if (key === undefined) return;
    switch (key.kind) {
      case 'container':
        return this.#place(key, entry, nowMs, old);
      case 'registration': {
        const node = this.#node(key.node, old);
        node.registered = entry.createRevision;
        const record = readRegistration(entry.value);
        node.name = record?.name ?? key.node;
        node.works = record?.roles.includes('worker') ?? false;
        return;
      }
      case 'state':
        this.#node(key.node, old).state = known(entry, readNodeState(entry.value));
        return;
      case 'load':
        this.#node(key.node, old).report = readLoadReport(entry.value);
        return;
      case 'drain': {
        const before = old?.nodes.get(key.node)?.drain;
        const sinceMs = before?.createRevision === entry.createRevision ? before.sinceMs : nowMs;
        this.#node(key.node, old).drain = { ...known(entry, readDrain(entry.value)), sinceMs };
        return;
      }
      case 'pool': {
        const pool = readPool(entry.value);
        if (pool !== undefined) this.pools.set(key.pool, pool);
        return;
      }
      case 'spread':
        this.#node(key.node, old).spread = known(entry, undefined);
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

  #place(name: ContainerName, entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const { pool, container } = name;
    const text = containerText(name);
    const before = old?.containers.get(text);
    this.#unplace(text);
    const record = readContainer(entry.value);
    if (record === undefined) return;
    const isSame = before?.createRevision === entry.createRevision && before.record.owner?.node === record.owner?.node;
    const sinceMs = isSame ? before.sinceMs : nowMs;
    const hasStayed = isSame && before.record.move !== undefined && record.move === undefined;
    const stayedMs = hasStayed ? nowMs : before?.stayedMs;
    const about = { name: { pool, container }, text, sinceMs, stayedMs: isSame ? stayedMs : undefined };
    const held: HeldContainer = { ...known(entry, record), ...about };
    this.containers.set(text, held);
    if (record.move !== undefined) this.moving.set(text, held);
    const owner = record.owner?.node;
    if (owner === undefined) this.unowned.set(text, held);
    else {
      const node = this.#node(owner, old);
      node.owned.set(text, held);
      if (isMoving(held)) node.leaving += 1;
    }
    for (const id of record.copies) if (id !== owner) this.#node(id, old).copied.set(text, held);
  }

  #unplace(text: string): void {
    const held = this.containers.get(text);
    if (held === undefined) return;
    for (const places of [this.containers, this.moving, this.unowned]) places.delete(text);
    const { owner, copies } = held.record;
    for (const id of new Set([...copies, ...(owner === undefined ? [] : [owner.node])])) {
      const node = this.nodes.get(id);
      if (node === undefined) continue;
      node.copied.delete(text);
      if (node.owned.delete(text) && isMoving(held)) node.leaving -= 1;
      this.#forget(node);
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
        return this.#unplace(containerText(key));
      case 'assigner':
        this.assigner = undefined;
        return;
      case 'drain':
      case 'load':
      case 'registration':
      case 'spread':
      case 'state':
        return this.#deleteOfNode(key);
    }
  }

  #deleteOfNode(key: KeyOfNode): void {
    const node = this.nodes.get(key.node);
    if (node === undefined) return;
    if (key.kind === 'registration') node.registered = undefined;
    else if (key.kind === 'load') node.report = undefined;
    else node[key.kind] = undefined;
    this.#forget(node);
  }

  #node(id: NodeId, old?: ClusterView): KnownNode {
    const found = this.nodes.get(id);
    if (found !== undefined) return found;
    const node: KnownNode = {
      id,
      registered: undefined,
      name: old?.nodes.get(id)?.name ?? id,
      works: false,
      state: undefined,
      report: undefined,
      drain: undefined,
      spread: undefined,
      owned: new Map(),
      copied: new Map(),
      leaving: 0,
    };
    this.nodes.set(id, node);
    return node;
  }

  /** Nothing is said about it any more. */
  #forget(node: KnownNode): void {
    const { registered, state, report, drain, spread } = node;
    if (heldCount(node) > 0) return;
    if ([registered, state, report, drain, spread].every((one) => one === undefined)) this.nodes.delete(node.id);
  }
}

/** It can be given something. */
export function isActive(node: KnownNode): boolean {
  return node.works && node.registered !== undefined && node.state?.record?.mode === 'active';
}

function known<T>({ modRevision, createRevision }: RegistryEntry, record: T): Versioned<T> {
  return { record, modRevision, createRevision };
}
