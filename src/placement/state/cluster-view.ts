/**
 * What the registry says about nodes, assignments and containers, folded into a shape that decisions can be made from:
 * who is registered and active, who holds what, what waits for a node. It is a copy and may be late; whoever acts on it names
 * the revisions it saw and is refused if they have passed. It holds what the registry holds under `/cluster/`, no more.
 */
import type { NodeId } from '../../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { type ClusterKey, type ContainerName, parseClusterKey } from '../../registry/cluster-keys.ts';
import { type PoolRecord, readContainer, readPool } from './container-records.ts';
import { type NodeStateRecord, readRegistration, readNodeState } from '../../registration/registration-records.ts';
import { type DrainRecord, readDrain } from './drain-record.ts';
import { type Versioned, type KnownAssignment, type HeldContainer, heldCount, isMoving } from './node-holdings.ts';
import { type LoadReport, readLoadReport } from './load-report.ts';
import { type UnassignedRecord, decodeAssigned, decodeUnassigned, nameText } from '../../registry/assignment/record.ts';

export type KnownUnassigned = Versioned<UnassignedRecord> & {
  readonly name: ContainerName;
  readonly text: string;
  readonly sinceMs: number;
};

export type KnownNode = {
  readonly id: NodeId;
  /** The revision that created its registration; undefined when it is not registered. */
  registered: number | undefined;
  /** From its registration, for people; its id when it cannot be read. */
  name: string;
  /** It has the role of a worker: only workers hold anything. */
  works: boolean;
  /** By our clock: since when it is not registered. */
  missingMs: number;
  /** A state that is missing or cannot be read never means active. */
  state: Versioned<NodeStateRecord | undefined> | undefined;
  report: LoadReport | undefined;
  drain: (Versioned<DrainRecord> & { readonly sinceMs: number }) | undefined;
  /** It came without containers, and gets its share of them by and by. */
  spread: Versioned<undefined> | undefined;
  readonly assignments: Map<string, KnownAssignment>;
  readonly owned: Map<string, HeldContainer>;
  readonly copied: Map<string, HeldContainer>;
  /** Sum of the weights of what it holds; how many assignments it is asked to release. */
  weight: number;
  releasing: number;
  /** How many of its own containers are on their way to another node. */
  leaving: number;
  /** What it released for a drain and nobody has yet. */
  adrift: number;
};

type KeyOfNode = Extract<
  ClusterKey,
  { readonly kind: 'assignment' | 'registration' | 'load' | 'state' | 'drain' | 'spread' }
>;

export class ClusterView {
  readonly nodes = new Map<NodeId, KnownNode>();
  readonly unassigned = new Map<string, KnownUnassigned>();
  /** Asked to be released: name to owner. */
  readonly releasing = new Map<string, NodeId>();
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
      else this.#delete(change.key, nowMs);
    }
    this.revision = Math.max(this.revision, revision);
  }

  activeNodes(): readonly KnownNode[] {
    return [...this.nodes.values()].filter(isActive);
  }

  /** Everything that is assigned, whoever has it. */
  assignedCount(): number {
    return [...this.nodes.values()].reduce((sum, node) => sum + node.assignments.size, 0);
  }

  /** Something is between two nodes: how the load will lie is not to be seen yet. */
  hasMovesInFlight(): boolean {
    return this.unassigned.size + this.releasing.size + this.moving.size > 0;
  }

  #put(entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const key = parseClusterKey(entry.key);
    if (key === undefined) return;
    switch (key.kind) {
      case 'assignment':
        return this.#assign(key.node, key, entry, nowMs, old);
      case 'unassigned':
        return this.#unassign(key, entry, nowMs, old);
      case 'container':
        return this.#place(key, entry, nowMs, old);
      case 'registration': {
        const node = this.#node(key.node, nowMs, old);
        node.registered = entry.createRevision;
        const record = readRegistration(entry.value);
        node.name = record?.name ?? key.node;
        node.works = record?.roles.includes('worker') ?? false;
        return;
      }
      case 'state':
        this.#node(key.node, nowMs, old).state = known(entry, readNodeState(entry.value));
        return;
      case 'load':
        this.#node(key.node, nowMs, old).report = readLoadReport(entry.value);
        return;
      case 'drain': {
        const before = old?.nodes.get(key.node)?.drain;
        const sinceMs = before?.createRevision === entry.createRevision ? before.sinceMs : nowMs;
        this.#node(key.node, nowMs, old).drain = { ...known(entry, readDrain(entry.value)), sinceMs };
        return;
      }
      case 'pool': {
        const pool = readPool(entry.value);
        if (pool !== undefined) this.pools.set(key.pool, pool);
        return;
      }
      case 'spread':
        this.#node(key.node, nowMs, old).spread = known(entry, undefined);
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

  #assign(id: NodeId, name: ContainerName, entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const text = nameText(name);
    const before = old?.nodes.get(id)?.assignments.get(text);
    const same = before?.createRevision === entry.createRevision ? before : undefined;
    this.#unsettle(id, text);
    const record = decodeAssigned(entry.value);
    const releasingMs = record.releasing === undefined ? undefined : (same?.releasingMs ?? nowMs);
    const node = this.#node(id, nowMs, old);
    const sinceMs = same?.sinceMs ?? nowMs;
    const { pool, container } = name;
    const about = { name: { pool, container }, text, sinceMs, releasingMs };
    node.assignments.set(text, { kind: 'assignment', ...known(entry, record), ...about });
    node.weight += record.hint.weight;
    if (record.releasing === undefined) return;
    node.releasing += 1;
    this.releasing.set(text, id);
  }

  #unassign(name: ContainerName, entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const text = nameText(name);
    const before = old?.unassigned.get(text);
    const sinceMs = before?.createRevision === entry.createRevision ? before.sinceMs : nowMs;
    this.#unwait(text);
    const record = decodeUnassigned(entry.value);
    const { pool, container } = name;
    this.unassigned.set(text, { ...known(entry, record), name: { pool, container }, text, sinceMs });
    if (record.reason === 'drain' && record.from !== undefined) this.#node(record.from, nowMs, old).adrift += 1;
  }

  #place(name: ContainerName, entry: RegistryEntry, nowMs: number, old: ClusterView | undefined): void {
    const { pool, container } = name;
    const text = nameText(name);
    const before = old?.containers.get(text);
    this.#unplace(text);
    const record = readContainer(entry.value);
    if (record === undefined) return;
    const isSame = before?.createRevision === entry.createRevision && before.record.owner?.node === record.owner?.node;
    const sinceMs = isSame ? before.sinceMs : nowMs;
    const hasStayed = isSame && before.record.move !== undefined && record.move === undefined;
    const stayedMs = hasStayed ? nowMs : before?.stayedMs;
    const about = { name: { pool, container }, text, sinceMs, stayedMs: isSame ? stayedMs : undefined };
    const held: HeldContainer = { kind: 'container', ...known(entry, record), ...about };
    this.containers.set(text, held);
    if (record.move !== undefined) this.moving.set(text, held);
    const owner = record.owner?.node;
    if (owner === undefined) this.unowned.set(text, held);
    else {
      const node = this.#node(owner, nowMs, old);
      node.owned.set(text, held);
      node.weight += 1;
      if (isMoving(held)) node.leaving += 1;
    }
    for (const id of record.copies) if (id !== owner) this.#node(id, nowMs, old).copied.set(text, held);
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
      if (node.owned.delete(text)) {
        node.weight -= 1;
        if (isMoving(held)) node.leaving -= 1;
      }
      this.#forget(node);
    }
  }

  #delete(text: string, nowMs: number): void {
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
        return this.#unplace(nameText(key));
      case 'unassigned':
        return this.#unwait(nameText(key));
      case 'assigner':
        this.assigner = undefined;
        return;
      case 'assignment':
      case 'drain':
      case 'load':
      case 'registration':
      case 'spread':
      case 'state':
        return this.#deleteOfNode(key, nowMs);
    }
  }

  #deleteOfNode(key: KeyOfNode, nowMs: number): void {
    const node = this.nodes.get(key.node);
    if (node === undefined) return;
    if (key.kind === 'assignment') this.#unsettle(key.node, nameText(key));
    else if (key.kind === 'registration') {
      node.registered = undefined;
      node.missingMs = nowMs;
    } else if (key.kind === 'load') node.report = undefined;
    else node[key.kind] = undefined;
    this.#forget(node);
  }

  #unsettle(id: NodeId, text: string): void {
    const node = this.nodes.get(id);
    const assignment = node?.assignments.get(text);
    if (node === undefined || assignment === undefined) return;
    node.assignments.delete(text);
    node.weight -= assignment.record.hint.weight;
    if (assignment.record.releasing === undefined) return;
    node.releasing -= 1;
    if (this.releasing.get(text) === id) this.releasing.delete(text);
  }

  #unwait(text: string): void {
    const { record } = this.unassigned.get(text) ?? {};
    this.unassigned.delete(text);
    const node = record?.reason === 'drain' && record.from !== undefined ? this.nodes.get(record.from) : undefined;
    if (node === undefined) return;
    node.adrift -= 1;
    this.#forget(node);
  }

  #node(id: NodeId, nowMs: number, old?: ClusterView): KnownNode {
    const found = this.nodes.get(id);
    if (found !== undefined) return found;
    const node: KnownNode = {
      id,
      registered: undefined,
      name: old?.nodes.get(id)?.name ?? id,
      works: false,
      missingMs: old?.nodes.get(id)?.missingMs ?? nowMs,
      state: undefined,
      report: undefined,
      drain: undefined,
      spread: undefined,
      assignments: new Map(),
      owned: new Map(),
      copied: new Map(),
      weight: 0,
      releasing: 0,
      leaving: 0,
      adrift: 0,
    };
    this.nodes.set(id, node);
    return node;
  }

  /** Nothing is said about it any more. */
  #forget(node: KnownNode): void {
    const { registered, state, report, drain, spread } = node;
    if (heldCount(node) > 0 || node.adrift > 0) return;
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
