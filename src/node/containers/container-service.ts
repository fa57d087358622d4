/**
 * A node's part in containers: address table, serving lease, hosting, replicas, calls. Wires them; placement belongs to
 * the leader.
 *
 *   registry --> table --> copies, hosting       calls --> hosting here, or the node that the table names
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
import type { Leadership, LeaseId, Registry } from '../../base/registry.ts';
import { CallRouter } from '../../containers/calls/call-router.ts';
import type { ContainerChange, HostedContainer } from '../../containers/contract.ts';
import { ReplicaManager } from '../../containers/replication/replica-manager.ts';
import { ContainerHost } from '../../containers/hosting/container-host.ts';
import type { NodeInfo } from '../../containers/module.ts';
import type { ModuleCatalog } from '../../containers/module-catalog.ts';
import { ServingLeaseHost } from '../../containers/serving-lease-host.ts';
import type { ReceivedServingGrant } from '../../containers/serving-lease-renewal.ts';
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
  /** Where the state of containers lies; undefined on nodes that are no workers. */
  readonly store: RowStore | undefined;
  readonly modules: ModuleCatalog;
  /** For modules that are deployed; without it the node runs those of its configuration. */
  readonly bundles?: BundleImporter | undefined;
};

/** What the rest of the node knows. */
export type ContainerServiceContext = {
  readonly identity: Identity;
  readonly members: MemberIndex;
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly leader: () => Peer | undefined;
  /** Who could lead, or say who does. */
  readonly managers: () => readonly Peer[];
  /** A manager tells who leads. */
  readonly heard: (notice: Uint8Array) => void;
  /** What this node wants known about its table. */
  readonly embed: (digest: Uint8Array) => void;
  readonly grant: (node: NodeId, generation: number, revision: number) => Outcome<ReceivedServingGrant>;
  /** That of the node's registration. */
  readonly registrationLease: () => LeaseId | undefined;
};

export type ContainerServiceReports = {
  happened(type: string, fields: Readonly<Record<string, unknown>>): void;
  count(name: string): void;
  halted(error: unknown): void;
};

/** Tables change in bursts; others need not hear of each change. */
const digestPauseMs = 1_000;
const metMax = 20_000;

/** What only workers have. */
type Works = {
  readonly lease: ServingLeaseHost;
  readonly copies: ReplicaManager;
  readonly hosting: ContainerHost;
  readonly restartFiles: PoolManifests;
};

export class ContainerService {
  readonly table: AddressTableHost;
  readonly calls: CallRouter;
  /** Modules that are deployed; undefined where none can be. */
  readonly keeper: ModuleSync | undefined;
  readonly #ports: ContainerServicePorts;
  readonly #around: ContainerServiceContext;
  readonly #reports: ContainerServiceReports;
  readonly #works: Works | undefined;
  readonly #ends: Cancel[] = [];
  readonly #met = new BoundedLru<NodeId, true>(metMax);
  #digestIsDue = false;
  #awaiting: Done<void> | undefined;

  constructor(
    ports: ContainerServicePorts,
    around: ContainerServiceContext,
    options: ContainerValues,
    reports: ContainerServiceReports,
  ) {
    this.#ports = ports;
    this.#around = around;
    this.#reports = reports;
    this.table = this.#openTable();
    this.#works = ports.store === undefined ? undefined : this.#openWorks(ports.store, options);
    this.calls = this.#openCalls(options);
    this.keeper = ports.bundles === undefined ? undefined : this.#openKeeper(ports.bundles);
  }

  get lease(): ServingLeaseHost | undefined {
    return this.#works?.lease;
  }

  get copies(): ReplicaManager | undefined {
    return this.#works?.copies;
  }

  get hosting(): ContainerHost | undefined {
    return this.#works?.hosting;
  }

  get modules(): ModuleCatalog {
    return this.#ports.modules;
  }

  start(): void {
    this.table.start();
    this.#works?.lease.start();
    const changed = (): void => this.#works?.lease.leaderChanged();
    this.#ends.push(this.#around.leadership.watch({ changed }));
    if (this.keeper !== undefined) this.#keepModules(this.keeper);
  }

  /**
   * Ends when the registry has confirmed the address table, so that what was given to others while this node was away is
   * no longer taken for its own. Later doubts are those of the serving lease. An earlier caller that still waits gets
   * CANCELLED.
   */
  awaitConfirmed(done: Done<void>): void {
    this.#awaiting?.(failure('CANCELLED'));
    this.#awaiting = done;
    if (this.table.isConfirmed) this.#ports.clock.schedule(0, () => this.#endAwaiting(success(undefined)));
  }

  /** What the node itself owns and keeps copies of. */
  localReplicas(): readonly HostedContainer[] {
    return this.#works?.copies.hostedReplicas() ?? [];
  }

  /** Numbers that only grow, by name. */
  counters(): Readonly<Record<string, number>> {
    if (this.#works === undefined) return {};
    const { calls, failed } = this.#works.hosting.metrics;
    const { commits, commitBytes, joined, left, lost } = this.#works.copies.metrics();
    return { calls, callsFailed: failed, commits, commitBytes, copiesJoined: joined, copiesLeft: left, logsLost: lost };
  }

  /** What waits at this moment, by name. */
  queues(): Readonly<Record<string, number>> {
    const under = { calls: this.calls.open };
    if (this.#works === undefined) return under;
    const { open: containersOpen, calls: callsHere } = this.#works.hosting.load();
    const { waiting: commits, lagging: copiesLagging } = this.#works.copies.metrics();
    return { ...under, callsHere, containersOpen, commits, copiesLagging };
  }

  /** A process is surely gone. */
  memberLost(node: NodeId): void {
    this.#works?.copies.peerLost(node);
  }

  /** Modules hear of a worker when it comes for the first time, and not of its returns. */
  memberAlive(node: NodeId): void {
    this.#works?.copies.peerReturned(node);
    const entry = this.#around.members.get(node)?.entry;
    if (entry === undefined || !entry.roles.includes('worker') || this.#met.peek(node) !== undefined) return;
    this.#met.set(node, true);
    const info = nodeInfo(entry);
    if (info !== undefined) this.#works?.hosting.nodeJoined(info);
  }

  /** What another node says about its table. */
  handleTableDigest(digest: Uint8Array): void {
    this.table.digestReceived(digest);
  }

  /** False when the message is none of ours. */
  handle(from: Identity, message: Message, remainingMs: number, reply: Done<Uint8Array>): boolean {
    if (this.calls.handle(from, message, remainingMs, reply)) return true;
    if (message.kind !== 'replicateCommits' && message.kind !== 'replicateSnapshot') return false;
    if (this.#works === undefined) reply(failure('PRECONDITION', 'this node is no worker and keeps no copies', 'no'));
    else {
      this.#works.copies.handle(from, message, (outcome) => {
        reply(outcome.ok ? success(encodeMessage(outcome.value)) : outcome);
      });
    }
    return true;
  }

  handleFlow(from: Identity, opening: CallMessageOf<'openResultStream'>, stream: ByteStream): ByteStreamEvents {
    return this.calls.openedResultStream(from, opening, stream);
  }

  /** Lets go of everything in good order: what runs ends, what was committed is on the disk. */
  stop(done: Done<void>): void {
    for (const end of this.#ends) end();
    this.#endAwaiting(failure('CANCELLED'));
    const finish = (): void => {
      this.#works?.lease.stop();
      this.#works?.copies.stop();
      this.table.stop();
      done(success(undefined));
    };
    if (this.#works === undefined) finish();
    else this.#works.hosting.stop(finish);
  }

  #openTable(): AddressTableHost {
    const { clock, files } = this.#ports;
    const { registry, identity: self } = this.#around;
    return new AddressTableHost(
      { registry, clock, files, self, emit: this.#teller(''), halted: (error) => this.#reports.halted(error) },
      {
        changed: (change) => this.#changed(change),
        confirmed: () => this.#confirmed(),
        poolChanged: (pool, isGone) => this.#works?.restartFiles.poolChanged(pool, isGone),
        onRevisionApplied: (revision) => this.#advanced(revision),
      },
    );
  }

  /** All records are known now: what else lies on the disk belongs to pools and places of former times. */
  #confirmed(): void {
    this.#endAwaiting(success(undefined));
    if (this.#works === undefined) return;
    const { copies, restartFiles } = this.#works;
    restartFiles.onPoolsLoaded();
    const ours = new Set(copies.hostedReplicas().map(({ pool, id }) => `${pool}/${id}`));
    copies.reconcile((major, container) => {
      const pool = this.table.poolByNumber(major);
      return pool !== undefined && ours.has(`${pool.name}/${container}`) ? 'keep' : 'drop';
    });
  }

  #endAwaiting(outcome: Outcome<void>): void {
    const done = this.#awaiting;
    this.#awaiting = undefined;
    done?.(outcome);
  }

  #advanced(revision: number): void {
    this.#works?.lease.tableApplied(revision);
    if (this.#digestIsDue) return;
    this.#digestIsDue = true;
    this.#ports.clock.schedule(digestPauseMs, () => {
      this.#digestIsDue = false;
      this.#around.embed(this.table.digestBytes());
    });
  }

  #changed(change: ContainerChange): void {
    this.#works?.copies.changed(change);
    this.#works?.hosting.changed(change);
  }

  #openWorks(store: RowStore, options: ContainerValues): Works {
    const { clock, streams, random, log, modules } = this.#ports;
    const { identity: self, registry, leader, managers, heard, grant, members } = this.#around;
    const halted = (error: unknown): void => this.#reports.halted(error);
    const common = { clock, self, halted };
    const lease = new ServingLeaseHost(
      {
        clock,
        random: random.fork('serving'),
        streams,
        leader,
        managers,
        onLeaderNotice: heard,
        grant,
        self,
        onHalt: halted,
      },
      options.servingLeaseMs,
    );
    const copies = new ReplicaManager(
      {
        ...common,
        store,
        streams,
        registry,
        emit: this.#teller('copies.'),
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
        replication: copies,
        modules,
        tell: this.#teller('container.'),
      },
      session: (name) => this.calls.session(name),
      nodeInfo: (id) => nodeInfo(members.get(id)?.entry),
    });
    const restartFiles = new PoolManifests({ registry, clock, files: this.#ports.files, tell: this.#teller('') });
    this.#ends.push(() => restartFiles.stop());
    return { lease, copies, hosting, restartFiles };
  }

  #openKeeper(bundles: BundleImporter): ModuleSync {
    const { clock, files, modules } = this.#ports;
    return new ModuleSync({
      registry: this.#around.registry,
      clock,
      files,
      modules,
      bundles,
      tell: this.#teller(''),
    });
  }

  #keepModules(keeper: ModuleSync): void {
    const { clock, modules } = this.#ports;
    const { registry, identity, registrationLease: lease } = this.#around;
    keeper.start();
    this.#ends.push(() => keeper.stop(), publishLoadedModules(identity.id, { registry, clock, modules, lease }));
  }

  #openCalls({ callRetryMs: retryTimeoutMs }: ContainerValues): CallRouter {
    const { clock, random, streams, modules } = this.#ports;
    const { identity: self, members } = this.#around;
    const { table } = this;
    return new CallRouter(
      {
        ...{ self, clock, random: random.fork('calls'), streams, table, modules },
        hosting: this.#works?.hosting,
        addressOf: (node, nowMs) => members.get(node, nowMs)?.entry,
        nodeByName: (name) => members.byName(name)?.entry.id,
        isAlive: (node) => members.get(node)?.state !== 'dead',
        count: (name) => this.#reports.count(name),
      },
      { retryTimeoutMs },
    );
  }

  #addressOf(node: NodeId): Address | undefined {
    const entry = this.#around.members.get(node)?.entry;
    return entry === undefined ? undefined : { host: entry.host, port: entry.port };
  }

  /** As far as members know. A node that is back in a later life holds what its former one held, and is not gone. */
  #isGone(node: NodeId, generation: number): boolean {
    const view = this.#around.members.get(node);
    return view?.entry.generation === generation && (view.state === 'dead' || view.state === 'left');
  }

  /** Fences are shown as text, like everywhere. */
  #teller(prefix: string): (event: { readonly kind: string; readonly fence?: bigint }) => void {
    return ({ kind, fence, ...fields }) => {
      this.#reports.happened(`${prefix}${kind}`, { ...fields, ...(fence !== undefined && { fence: String(fence) }) });
    };
  }
}

function nodeInfo(entry: Pick<Identity, 'id' | 'name'> | undefined): NodeInfo | undefined {
  return entry === undefined ? undefined : { id: entry.id, name: entry.name, containers: 0 };
}
