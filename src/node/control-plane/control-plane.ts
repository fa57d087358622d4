/**
 * The part of a node in the control plane: registry client, registration, manager role, leader services. Wires them and
 * emits their events; decides nothing.
 *
 *   membership --live managers--> manager role (log, registry, server) <--streams--> other managers
 *                                   ^
 *   registration, load report ------+-- registry client --> the leading manager
 */
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Identity, Log, Peer, Store, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeadershipView, Registry } from '../../base/registry.ts';
import type { ReceivedServingGrant } from '../../containers/serving-lease-renewal.ts';
import type { GrantServingLease } from '../../containers/serving-lease-host.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { ConsensusMessage } from '../../messages/consensus.ts';
import type { AssignerHost } from '../../placement/leader/assigner-host.ts';
import type { LoadReport } from '../../placement/state/load-report.ts';
import { NodeOperations } from '../../placement/operations/node-operations.ts';
import type { PlacerHost, PlacerPorts } from '../../placement/leader/placer-host.ts';
import { RegistryClient, sendToManagers } from '../../registry/client/registry-client.ts';
import type { ContainerValues } from '../options/container-options.ts';
import {
  type ControlPlaneValues,
  consensusOptions,
  rebalanceOptionsOf,
  registrationOptionsOf,
} from '../options/control-plane-options.ts';
import { preferSelfWhenLeaderless, managersByPreference } from './manager-selection.ts';
import { RegistryBackups } from './registry-backups.ts';
import { GroupCommands } from './group-commands.ts';
import { GroupInfo } from '../group/group-info.ts';
import { type LeaderServices, startLeaderServices } from './leader-services.ts';
import { ObservedLeadership, newestLeadership } from './observed-leadership.ts';
import { autopilotOptions } from '../group/group-autopilot.ts';
import { ManagerRole } from '../group/manager-role.ts';
import { type ManagerDirectory, managerDirectory } from '../group/manager-directory.ts';
import { reasonArgument, commandArguments } from './command-arguments.ts';
import { LeaderCommands } from './leader-commands.ts';
import { NodeRegistration } from './node-registration.ts';

/** A registry outside of Remuster (etcd), and the leadership that is decided there. */
export type ExternalRegistry = {
  readonly registry: Registry;
  readonly leadership: Leadership;
  /** Stops leading, so that another candidate can. */
  readonly resign: (done: Done<void>) => void;
};

export type ControlPlanePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly random: Random;
  readonly log: Log;
  /** The store of the consensus log; only managers have one. */
  readonly logStore: Store | undefined;
  readonly external: ExternalRegistry | undefined;
  /** The load of the machine. */
  readonly measure: () => LoadReport;
};

export type ControlPlaneSettings = {
  readonly identity: Identity;
  readonly seeds: readonly Address[];
  readonly options: ControlPlaneValues & Pick<ContainerValues, 'servingLeaseMs' | 'copyRepairDelayMs'>;
  /** The preference of a module for the nodes on which its containers recover. */
  readonly rank: NonNullable<PlacerPorts['rank']>;
  /** Units that run on a node, as the leader knows them. */
  readonly runningUnitsAt: (node: NodeId) => number;
  /** See NodeRegistrationPorts. */
  readonly reconcile: (done: Done<void>) => void;
  readonly requestTimeoutMs: number;
};

export type ControlPlaneReports = {
  emit(type: string, fields: Readonly<Record<string, unknown>>): void;
  embed(state: Uint8Array): void;
  /** The node has left for good, by command: its process must end. */
  onLeft(reason: string): void;
  /** An internal error, or a disk that cannot be used: the node must end. */
  onHalt(error: unknown): void;
};

export class ControlPlane {
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly manager: ManagerRole | undefined;
  /** The registration of this node. */
  readonly registration: NodeRegistration;
  /** Replies to requests about manager groups. */
  readonly groupInfo: GroupInfo;
  readonly operations: NodeOperations;
  readonly commands: LeaderCommands;
  /** Places containers while this node leads; undefined if the node is not a manager. */
  readonly placer: PlacerHost | undefined;
  readonly #ports: ControlPlanePorts;
  readonly #settings: ControlPlaneSettings;
  readonly #reports: ControlPlaneReports;
  readonly #managers: ManagerDirectory;
  /** True if the node is dead or has left in membership, which the registry learns later. */
  readonly #isGone: (node: NodeId) => boolean;
  readonly #observed = new ObservedLeadership();
  readonly #client: RegistryClient | undefined;
  readonly #cancels: Cancel[] = [];

  constructor(
    ports: ControlPlanePorts,
    settings: ControlPlaneSettings,
    members: () => readonly MemberView[],
    reports: ControlPlaneReports,
  ) {
    this.#ports = ports;
    this.#settings = settings;
    this.#reports = reports;
    this.#managers = managerDirectory(members, settings.identity);
    this.manager = this.#openManagerRole();
    this.#client = ports.external === undefined ? this.#openClient() : undefined;
    this.registry = ports.external?.registry ?? (this.#client as RegistryClient);
    this.leadership = ports.external?.leadership ?? this.manager?.group.leadership ?? this.#observed;
    this.#isGone = (id) =>
      members().some(({ entry, state }) => entry.id === id && (state === 'dead' || state === 'left'));
    const rebalance = rebalanceOptionsOf(settings.options);
    this.operations = new NodeOperations(this.registry, ports.clock, rebalance, this.#isGone);
    this.groupInfo = this.#openGroupInfo();
    this.registration = this.#openRegistration();
    const services = this.#startLeaderServices();
    this.placer = services?.placer;
    this.commands = this.#openCommands(services?.assigner);
    this.#emitLeaderChanges();
  }

  /** Starts the manager role, then the registration. Both retry for as long as it takes. */
  start(): void {
    if (this.manager === undefined) return this.registration.start();
    this.manager.start((outcome) => {
      if (outcome.ok) this.registration.start();
      else this.#reports.onHalt(outcome.error);
    });
  }

  /** A manager gossips which manager leads. */
  handleLeaderHint(hint: Uint8Array): void {
    this.#observed.handleLeaderHint(hint);
    if (this.#observed.view().leader !== undefined) this.manager?.onGroupFound();
  }

  /** A process has certainly ended: its host refused connections of several members. */
  memberGone(id: NodeId, generation: number): void {
    this.manager?.group.onProcessGone(id, generation);
    this.placer?.nodeGone(id, generation);
  }

  /** That generation of a node has shut down in order: a takeover need not wait for the end of its lease. */
  memberLeft(id: NodeId, generation: number): void {
    this.placer?.nodeGone(id, generation);
  }

  healthChanged(score: number): void {
    this.manager?.group.healthChanged(score);
  }

  onConsensusMessage(from: Identity, message: ConsensusMessage): void {
    this.manager?.onMessage(from, message);
  }

  /** Renews the serving lease of that generation of a node. Only the leader can. */
  grantServing(...[node, generation, seen]: Parameters<GrantServingLease>): Outcome<ReceivedServingGrant> {
    const outcome =
      this.placer?.grantServingLease(node, generation, seen) ??
      failure('NOT_LEADER', 'this node is not a manager', 'no');
    if (!outcome.ok) return outcome;
    const { leaseMs, term, revision: revokedRevision } = outcome.value;
    return success({ leaseMs, term, revokedRevision });
  }

  /** Address of the leader; undefined while none is known. */
  leader(): Peer | undefined {
    const { leader } = this.leadershipView();
    if (leader === undefined) return undefined;
    const address = this.#managers.locate(leader);
    return address === undefined ? undefined : { id: leader, ...address };
  }

  /** Living managers in the order in which to send them requests. */
  candidateManagers(): readonly Peer[] {
    const self = this.manager === undefined ? undefined : this.#settings.identity.id;
    return managersByPreference(this.#managers.all(), this.leadership.view().leader, self);
  }

  /** The newest leadership that this node knows; a manager outside of its group learns of it by gossip. */
  leadershipView(): LeadershipView {
    return newestLeadership(this.leadership.view(), this.#observed.view(), this.#isGroupMember());
  }

  /** Audit: an operator gave a command on this node. */
  recordAdminEvent(order: string, fields: Readonly<Record<string, unknown>>): void {
    this.#emit('admin.ordered', { order, ...fields });
  }

  get clock(): Clock {
    return this.#ports.clock;
  }

  /** Alive as far as membership knows, registered, and it has not announced its stop. */
  isStaying(id: NodeId): boolean {
    return !this.#isGone(id) && this.registration.isStaying(id);
  }

  /** If this node leads, another manager does afterwards. It keeps leading if no other manager stays. */
  handOverLeadership(done: () => void): void {
    const { external } = this.#ports;
    if (!this.leadership.isLeading()) return done();
    if (external !== undefined) return external.resign(() => done());
    const { id: self } = this.#settings.identity;
    const voters = this.manager?.group.view().members.filter(({ standing }) => standing === 'voter') ?? [];
    if (!voters.some(({ id }) => id !== self && this.isStaying(id))) return done();
    this.manager?.group.transfer(undefined, this.#settings.options.electionTimeoutMs * 2, () => done());
  }

  /** The process ends and may restart soon: transfers leadership; the registration stays until it expires. */
  stop(done: Done<void>): void {
    this.registration.stop();
    for (const cancel of this.#cancels) cancel();
    this.handOverLeadership(() => {
      this.#client?.close();
      this.manager?.stop();
      done(success(undefined));
    });
  }

  #openManagerRole(): ManagerRole | undefined {
    const { clock, streams, random, log, logStore: store, external } = this.#ports;
    const { identity, seeds, options, requestTimeoutMs } = this.#settings;
    if (external !== undefined || store === undefined || !identity.roles.includes('manager')) return undefined;
    const own = {
      consensus: consensusOptions(options),
      autopilot: autopilotOptions(options),
      bootstrap: options.bootstrap,
    };
    return new ManagerRole(
      { clock, streams, store, random, log },
      { identity, seeds, requestTimeoutMs, ...own },
      this.#managers,
      {
        event: ({ type, ...fields }) => this.#emit(type, fields),
        emit: (type, fields) => this.#emit(type, fields),
        embed: (state) => this.#reports.embed(state),
        onHalt: (error) => this.#reports.onHalt(error),
      },
    );
  }

  #openClient(): RegistryClient {
    const { clock, streams, random } = this.#ports;
    const { identity: self } = this.#settings;
    const sendToAny = sendToManagers({ clock, streams, self, server: () => this.manager?.server });
    const send = preferSelfWhenLeaderless(sendToAny, self, () => this.#isLeaderless());
    const localManager = (): Peer | undefined => (this.#isGroupMember() ? self : undefined);
    const managers = (): readonly Peer[] => this.candidateManagers();
    return new RegistryClient({ clock, random: random.fork('registry'), self, managers, localManager, send });
  }

  /** True also if this node is the leader and has lost its majority. */
  #isLeaderless(): boolean {
    const own = this.leadership.view().leader;
    if (own === this.#settings.identity.id) return !this.leadership.isLeading();
    return own === undefined && this.#isGroupMember() && this.leadershipView().leader === undefined;
  }

  #isGroupMember(): boolean {
    return this.manager !== undefined && this.manager.group.view().self !== 'outside';
  }

  #openGroupInfo(): GroupInfo {
    const { clock, streams, external } = this.#ports;
    const { identity } = this.#settings;
    const { manager, leadership } = this;
    const isExternal = external !== undefined;
    return new GroupInfo({ clock, streams, identity, manager, leadership, isExternal, managers: this.#managers });
  }

  #openRegistration(): NodeRegistration {
    const { clock, random, measure } = this.#ports;
    const { identity, options, reconcile } = this.#settings;
    const { registry, leadership } = this;
    return new NodeRegistration(
      { registry, leadership, clock, random, reconcile, measure },
      { identity, registration: registrationOptionsOf(options) },
      this.#eventReports(),
    );
  }

  /** Starts the services of the leader on a manager; they act only while it leads. */
  #startLeaderServices(): LeaderServices | undefined {
    if (!this.#settings.identity.roles.includes('manager')) return undefined;
    const { registry, leadership } = this;
    const { clock } = this.#ports;
    const { options } = this.#settings;
    const { servingLeaseMs, copyRepairDelayMs } = options;
    const own = {
      ...{ registration: registrationOptionsOf(options), rebalance: rebalanceOptionsOf(options) },
      placement: { servingLeaseMs, copyRepairDelayMs },
    };
    const { rank, runningUnitsAt } = this.#settings;
    const services = startLeaderServices(
      { registry, leadership, clock, rank, runningUnitsAt, isGone: this.#isGone },
      own,
      this.#eventReports(),
    );
    this.#cancels.push(services.stop);
    return services;
  }

  #eventReports(): Pick<ControlPlaneReports, 'emit' | 'onHalt'> {
    return {
      emit: (type, fields) => this.#emit(type, fields),
      onHalt: (error) => this.#reports.onHalt(error),
    };
  }

  #openCommands(assigner: AssignerHost | undefined): LeaderCommands {
    const { registry, leadership, manager } = this;
    const { clock, streams } = this.#ports;
    const { id: self } = this.#settings.identity;
    const managers = this.#managers;
    return new LeaderCommands({
      ...{ self, streams, assigner, placer: this.placer },
      leadership: { view: () => this.leadershipView(), isLeading: () => leadership.isLeading() },
      locate: (id) => managers.locate(id),
      group: manager === undefined ? undefined : new GroupCommands({ clock, registry, manager, managers, self }),
      backups: manager === undefined ? undefined : new RegistryBackups(clock, manager),
      leave: (args, done) => this.#leave(reasonArgument(commandArguments(args)), done),
    });
  }

  /** Nodes without a vote emit leader changes, too, so that their events show them. */
  #emitLeaderChanges(): void {
    if (this.manager !== undefined) return;
    let before: NodeId | undefined;
    this.#cancels.push(
      this.leadership.watch({
        changed: ({ leader, term }) => {
          if (leader !== undefined && leader !== before) this.#emit('leader.elected', { leader, term });
          before = leader;
        },
      }),
    );
  }

  /**
   * Adds names to ids of nodes, as far as membership knows them. `node` becomes `id`: it names the emitter in events.
   */
  #emit(type: string, { node, leader, ...fields }: Readonly<Record<string, unknown>>): void {
    const nameOf = (id: unknown): unknown => this.#managers.nameOf(id as NodeId) ?? id;
    const about = node === undefined ? {} : { member: nameOf(node), id: node };
    const leading = leader === undefined ? {} : { leader: nameOf(leader), leaderId: leader };
    this.#reports.emit(type, { ...about, ...leading, ...fields });
  }

  /**
   * Leaves for good, even if the registry cannot be reached: the node does not renew its registration, which expires.
   */
  #leave(reason: string, done: Done<object>): void {
    this.registration.leave((outcome) => {
      done(outcome.ok ? success({}) : outcome);
      this.#reports.onLeft(reason);
    });
  }
}
