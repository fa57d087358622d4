/**
 * Containers on one node: address table, serving lease, hosting, replicas, calls. Wires them; the leader decides about
 * placement.
 *
 *   registry --> table --> replicas, hosting       calls --> hosting here, or the owner in the table
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type {
  Address,
  ByteStream,
  ByteStreamEvents,
  Cancel,
  Clock,
  Files,
  Identity,
  Log,
  Peer,
  RowStore,
  Streams,
} from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeaseId, Registry, RegistryEpoch } from '../../base/registry.ts';
import { CallRouter } from '../../containers/calls/call-router.ts';
import type { ContainerChange, HostedContainer } from '../../containers/contract.ts';
import { admitGroup, registryOfGroup } from './disk-group.ts';
import { ReplicaManager } from '../../containers/replication/replica-manager.ts';
import { ContainerHost } from '../../containers/hosting/container-host.ts';
import type { NodeInfo } from '../../containers/module.ts';
import type { ModuleCatalog } from '../../containers/module-catalog.ts';
import { type GrantServingLease, ServingLeaseHost } from '../../containers/serving-lease-host.ts';

import { AddressTableHost } from '../../containers/address-table/address-table-host.ts';
import type { CallMessageOf } from '../../messages/calls.ts';
import { type Message, encodeMessage } from '../../messages/catalogue.ts';
import type { ContainerValues } from '../options/container-options.ts';
import type { MemberIndex } from '../membership/member-index.ts';
import { type BundleImporter, ModuleSync } from './module-sync.ts';
import { publishLoadedModules } from './loaded-modules.ts';
import { PoolManifests } from './pool-manifests.ts';

export type ContainerServicePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly random: Random;
  readonly log: Log;
  readonly files: Files;
  /** The store of container state; undefined unless the node is a worker. */
  readonly store: RowStore | undefined;
  readonly modules: ModuleCatalog;
  /** For deployed modules; without it the node runs only the modules of its configuration. */
  readonly bundles?: BundleImporter | undefined;
};

/** What the other parts of the node provide. */
export type ContainerServiceContext = {
  readonly identity: Identity;
  readonly members: MemberIndex;
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly leader: () => Peer | undefined;
  /** Living managers in the order in which to send them requests. */
  readonly managers: () => readonly Peer[];
  /** A reply contains a leader hint. */
  readonly onLeaderHint: (hint: Uint8Array) => void;
  /** Publishes the digest of the table as embedded state. */
  readonly embed: (digest: Uint8Array) => void;
  readonly grant: GrantServingLease;
  /** The lease of the registration of this node. */
  readonly registrationLease: () => LeaseId | undefined;
};

export type ContainerServiceReports = {
  emit(type: string, fields: Readonly<Record<string, unknown>>): void;
  count(name: string): void;
  onHalt(error: unknown): void;
};

/** Tables change in bursts, so the digest is published at most once per interval. */
const digestIntervalMs = 1_000;
const seenWorkersMax = 20_000;

/** Parts that only a worker has. */
type WorkerParts = {
  readonly lease: ServingLeaseHost;
  readonly replicas: ReplicaManager;
  readonly hosting: ContainerHost;
  readonly manifests: PoolManifests;
};

export class ContainerService {
  readonly table: AddressTableHost;
  readonly calls: CallRouter;
  /** Deployed modules; undefined if this node cannot load any. */
  readonly moduleSync: ModuleSync | undefined;
  readonly #ports: ContainerServicePorts;
  readonly #context: ContainerServiceContext;
  readonly #reports: ContainerServiceReports;
  readonly #worker: WorkerParts | undefined;
  readonly #cancels: Cancel[] = [];
  readonly #seenWorkers = new BoundedLru<NodeId, true>(seenWorkersMax);
  #digestIsDue = false;
  #awaitingConfirmation: Done<void> | undefined;

  constructor(
    ports: ContainerServicePorts,
    context: ContainerServiceContext,
    options: ContainerValues,
    reports: ContainerServiceReports,
  ) {
    this.#ports = ports;
    this.#context = context;
    this.#reports = reports;
    this.table = this.#openTable();
    this.#worker = ports.store === undefined ? undefined : this.#openWorkerParts(ports.store, options);
    this.calls = this.#openCalls(options);
    this.moduleSync = ports.bundles === undefined ? undefined : this.#openModuleSync(ports.bundles);
  }

  get lease(): ServingLeaseHost | undefined {
    return this.#worker?.lease;
  }

  get replicas(): ReplicaManager | undefined {
    return this.#worker?.replicas;
  }

  get hosting(): ContainerHost | undefined {
    return this.#worker?.hosting;
  }

  get modules(): ModuleCatalog {
    return this.#ports.modules;
  }

  start(): void {
    this.table.start();
    this.#worker?.lease.start();
    const changed = (): void => this.#worker?.lease.leaderChanged();
    this.#cancels.push(this.#context.leadership.watch({ changed }));
    if (this.moduleSync !== undefined) this.#startModuleSync(this.moduleSync);
  }

  /**
   * Ends when the registry has confirmed the address table, so that this node does not serve containers that were given
   * to other nodes while it was away. After that the serving lease protects them. A previous caller that still waits
   * gets CANCELLED.
   */
  awaitConfirmed(done: Done<void>): void {
    this.#awaitingConfirmation?.(failure('CANCELLED'));
    this.#awaitingConfirmation = done;
    const { isConfirmed, refusal } = this.table;
    if (refusal !== undefined) this.#ports.clock.schedule(0, () => this.#finishAwaiting({ ok: false, error: refusal }));
    else if (isConfirmed) this.#ports.clock.schedule(0, () => this.#finishAwaiting(success(undefined)));
  }

  /** The containers that this node owns or replicates. */
  localReplicas(): readonly HostedContainer[] {
    return this.#worker?.replicas.hostedReplicas() ?? [];
  }

  /** Growing counters by name. */
  counters(): Readonly<Record<string, number>> {
    if (this.#worker === undefined) return {};
    const { calls, failed } = this.#worker.hosting.metrics;
    const { commits, commitBytes, joined, left, lost } = this.#worker.replicas.metrics();
    return { calls, callsFailed: failed, commits, commitBytes, copiesJoined: joined, copiesLeft: left, logsLost: lost };
  }

  /** Current lengths of queues by name. */
  queues(): Readonly<Record<string, number>> {
    const routed = { calls: this.calls.open };
    if (this.#worker === undefined) return routed;
    const { open: containersOpen, calls: callsHere } = this.#worker.hosting.load();
    const { waiting: commits, lagging: copiesLagging } = this.#worker.replicas.metrics();
    return { ...routed, callsHere, containersOpen, commits, copiesLagging };
  }

  /** A member is dead or has left. */
  memberLost(node: NodeId): void {
    this.#worker?.replicas.peerLost(node);
  }

  /** Modules are notified of the first join of a worker, not of its returns. */
  memberAlive(node: NodeId): void {
    this.#worker?.replicas.peerReturned(node);
    const entry = this.#context.members.get(node)?.entry;
    if (entry === undefined || !entry.roles.includes('worker') || this.#seenWorkers.peek(node) !== undefined) return;
    this.#seenWorkers.set(node, true);
    const info = nodeInfo(entry);
    if (info !== undefined) this.#worker?.hosting.nodeJoined(info);
  }

  /** Another node has published the digest of its table. */
  handleTableDigest(digest: Uint8Array): void {
    this.table.digestReceived(digest);
  }

  /** False if the message is not about containers. */
  handle(from: Identity, message: Message, remainingMs: number, reply: Done<Uint8Array>): boolean {
    if (this.calls.handle(from, message, remainingMs, reply)) return true;
    if (message.kind !== 'replicateCommits' && message.kind !== 'replicateSnapshot') return false;
    if (this.#worker === undefined)
      reply(failure('PRECONDITION', 'this node is not a worker: it holds no replicas', 'no'));
    else {
      this.#worker.replicas.handle(from, message, (outcome) => {
        reply(outcome.ok ? success(encodeMessage(outcome.value)) : outcome);
      });
    }
    return true;
  }

  openResultStream(from: Identity, opening: CallMessageOf<'openResultStream'>, stream: ByteStream): ByteStreamEvents {
    return this.calls.openedResultStream(from, opening, stream);
  }

  /** This node starts no more calls of its containers, and closes them when those under way have ended. */
  finishCalls(limitMs: number, done: () => void): void {
    if (this.#worker === undefined) done();
    else this.#worker.hosting.stop(() => done(), limitMs);
  }

  /** Stops in order: running calls end, and committed state is on disk. */
  stop(done: Done<void>): void {
    for (const end of this.#cancels) end();
    this.#finishAwaiting(failure('CANCELLED'));
    const finish = (): void => {
      this.#worker?.lease.stop();
      this.#worker?.replicas.stop();
      this.table.stop();
      done(success(undefined));
    };
    if (this.#worker === undefined) finish();
    else this.#worker.hosting.stop(finish);
  }

  #openTable(): AddressTableHost {
    const { clock, files, store } = this.#ports;
    const { registry, identity: self } = this.#context;
    return new AddressTableHost(
      {
        ...{ registry, clock, files, self, emit: this.#emitter('') },
        onHalt: (error) => this.#reports.onHalt(error),
        admitGroup: (groupId, done) =>
          store === undefined ? done(success(undefined)) : admitGroup(store, groupId, done),
      },
      {
        changed: (change) => this.#onContainerChanged(change),
        confirmed: () => this.#onTableConfirmed(),
        poolChanged: (pool, isGone) => this.#worker?.manifests.poolChanged(pool, isGone),
        refused: (error) => this.#finishAwaiting({ ok: false, error }),
        onRevisionApplied: (revision, epoch) => this.#onRevisionApplied(revision, epoch),
      },
    );
  }

  /** All records are known now: other state on disk belongs to deleted pools or former placements. */
  #onTableConfirmed(): void {
    this.#finishAwaiting(success(undefined));
    if (this.#worker === undefined) return;
    const { replicas, manifests } = this.#worker;
    manifests.onPoolsLoaded();
    const hosted = new Set(replicas.hostedReplicas().map(({ pool, id }) => `${pool}/${id}`));
    replicas.reconcile((major, container) => {
      const pool = this.table.poolByNumber(major);
      return pool !== undefined && hosted.has(`${pool.name}/${container}`) ? 'keep' : 'drop';
    });
  }

  #finishAwaiting(outcome: Outcome<void>): void {
    const done = this.#awaitingConfirmation;
    this.#awaitingConfirmation = undefined;
    done?.(outcome);
  }

  #onRevisionApplied(revision: number, epoch: RegistryEpoch): void {
    this.#worker?.lease.tableApplied(revision, epoch);
    if (this.#digestIsDue) return;
    this.#digestIsDue = true;
    this.#ports.clock.schedule(digestIntervalMs, () => {
      this.#digestIsDue = false;
      this.#context.embed(this.table.digestBytes());
    });
  }

  #onContainerChanged(change: ContainerChange): void {
    this.#worker?.replicas.changed(change);
    this.#worker?.hosting.changed(change);
  }

  #openWorkerParts(store: RowStore, options: ContainerValues): WorkerParts {
    const { clock, streams, random, log, modules } = this.#ports;
    const { identity: self, registry, leader, managers, onLeaderHint, grant, members } = this.#context;
    const onHalt = (error: unknown): void => this.#reports.onHalt(error);
    const common = { clock, self, onHalt };
    const lease = new ServingLeaseHost(
      {
        clock,
        random: random.fork('serving'),
        streams,
        leader,
        managers,
        onLeaderNotice: onLeaderHint,
        grant,
        self,
        onHalt,
      },
      options.servingLeaseMs,
    );
    const replicas = new ReplicaManager(
      {
        ...common,
        store,
        streams,
        registry: registryOfGroup(registry, clock, () => this.table.groupId),
        emit: this.#emitter('copies.'),
        addressOf: (node) => this.#addressOf(node),
        isGone: (node, generation) => this.#isGone(node, generation),
      },
      { copyAckTimeoutMs: options.copyAckTimeoutMs },
    );
    const hosting = new ContainerHost({
      ...{
        ...common,
        random: random.fork('hosting'),
        log,
        lease,
        replication: replicas,
        modules,
        emit: this.#emitter('container.'),
      },
      session: (name) => this.calls.session(name),
      nodeInfo: (id) => nodeInfo(members.get(id)?.entry),
    });
    const manifests = new PoolManifests({ registry, clock, files: this.#ports.files, emit: this.#emitter('') });
    this.#cancels.push(() => manifests.stop());
    return { lease, replicas, hosting, manifests };
  }

  #openModuleSync(bundles: BundleImporter): ModuleSync {
    const { clock, files, modules } = this.#ports;
    return new ModuleSync({
      registry: this.#context.registry,
      clock,
      files,
      modules,
      bundles,
      emit: this.#emitter(''),
    });
  }

  #startModuleSync(moduleSync: ModuleSync): void {
    const { clock, modules } = this.#ports;
    const { registry, identity, registrationLease: lease } = this.#context;
    moduleSync.start();
    this.#cancels.push(() => moduleSync.stop(), publishLoadedModules(identity.id, { registry, clock, modules, lease }));
  }

  #openCalls({ callRetryMs: retryTimeoutMs }: ContainerValues): CallRouter {
    const { clock, random, streams, modules } = this.#ports;
    const { identity: self, members } = this.#context;
    const { table } = this;
    return new CallRouter(
      {
        ...{ self, clock, random: random.fork('calls'), streams, table, modules },
        hosting: this.#worker?.hosting,
        addressOf: (node, nowMs) => members.get(node, nowMs)?.entry,
        nodeByName: (name) => members.byName(name)?.entry.id,
        isAlive: (node) => members.get(node)?.state !== 'dead',
        count: (name) => this.#reports.count(name),
      },
      { retryTimeoutMs },
    );
  }

  #addressOf(node: NodeId): Address | undefined {
    const entry = this.#context.members.get(node)?.entry;
    return entry === undefined ? undefined : { host: entry.host, port: entry.port };
  }

  /** By membership. A node that returned in a later generation still has its state, so it is not gone. */
  #isGone(node: NodeId, generation: number): boolean {
    const view = this.#context.members.get(node);
    return view?.entry.generation === generation && (view.state === 'dead' || view.state === 'left');
  }

  /** Events carry fences as text. */
  #emitter(prefix: string): (event: { readonly kind: string; readonly fence?: bigint }) => void {
    return ({ kind, fence, ...fields }) => {
      this.#reports.emit(`${prefix}${kind}`, { ...fields, ...(fence !== undefined && { fence: String(fence) }) });
    };
  }
}

function nodeInfo(entry: Pick<Identity, 'id' | 'name'> | undefined): NodeInfo | undefined {
  return entry === undefined ? undefined : { id: entry.id, name: entry.name, containers: 0 };
}
