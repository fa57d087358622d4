/**
 * A node's part in consensus: registry client, registration, manager role, leader services. Wires them and reports
 * events; decides nothing.
 *
 *   membership --who lives--> seat (log, key space, server) <--streams--> other managers
 *                               ^
 *   registration, load report --+-- registry client --> whichever manager leads
 */
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Identity, Log, Peer, Store, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeadershipView, Registry } from '../../base/registry.ts';
import type { ReceivedServingGrant } from '../../containers/serving-lease-renewal.ts';
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

/** A registry that somebody else keeps, and leadership that is decided there. */
export type ExternalRegistry = { readonly registry: Registry; readonly leadership: Leadership };

export type ControlPlanePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly random: Random;
  readonly log: Log;
  /** Where a manager keeps the log; nodes without a seat need none. */
  readonly logStore: Store | undefined;
  readonly external: ExternalRegistry | undefined;
  /** How busy the machine is. */
  readonly measure: () => LoadReport;
};

export type ControlPlaneSettings = {
  readonly identity: Identity;
  readonly seeds: readonly Address[];
  readonly options: ControlPlaneValues & Pick<ContainerValues, 'servingLeaseMs' | 'copyRepairDelayMs'>;
  /** Where a module wants its containers to recover. */
  readonly rank: NonNullable<PlacerPorts['rank']>;
  /** Work of a node besides containers, as the leader knows it. */
  readonly workAt: (node: NodeId) => number;
  /** See NodeRegistrationPorts. */
  readonly reconcile: (done: Done<void>) => void;
  readonly requestTimeoutMs: number;
};

export type ControlPlaneReports = {
  happened(type: string, fields: Readonly<Record<string, unknown>>): void;
  embed(state: Uint8Array): void;
  /** The node has left for good, as it was told to: it is to end. */
  left(reason: string): void;
  /** A mistake of ours, or a disk that cannot be used: the node must end. */
  halted(error: unknown): void;
};

export class ControlPlane {
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly manager: ManagerRole | undefined;
  /** This node in the registry. */
  readonly registration: NodeRegistration;
  /** What this node can tell of groups of managers. */
  readonly groupInfo: GroupInfo;
  readonly operations: NodeOperations;
  readonly commands: LeaderCommands;
  /** Places containers while this node leads; undefined where it never can. */
  readonly placer: PlacerHost | undefined;
  readonly #ports: ControlPlanePorts;
  readonly #settings: ControlPlaneSettings;
  readonly #reports: ControlPlaneReports;
  readonly #managers: ManagerDirectory;
  /** Membership knows that the node is dead, which the registry learns later. */
  readonly #isGone: (node: NodeId) => boolean;
  readonly #seen = new ObservedLeadership();
  readonly #client: RegistryClient | undefined;
  readonly #ends: Cancel[] = [];

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
    this.manager = this.#takeSeat();
    this.#client = ports.external === undefined ? this.#openClient() : undefined;
    this.registry = ports.external?.registry ?? (this.#client as RegistryClient);
    this.leadership = ports.external?.leadership ?? this.manager?.group.leadership ?? this.#seen;
    this.#isGone = (id) =>
      members().some(({ entry, state }) => entry.id === id && (state === 'dead' || state === 'left'));
    const rebalance = rebalanceOptionsOf(settings.options);
    this.operations = new NodeOperations(this.registry, ports.clock, rebalance, this.#isGone);
    this.groupInfo = this.#knowGroups();
    this.registration = this.#bePresent();
    const work = this.#leadWhenLeading();
    this.placer = work?.placer;
    this.commands = this.#takeOrders(work?.assigner);
    this.#follow();
  }

  /** The seat is taken and registration begins: both go on by themselves for as long as it takes. */
  start(): void {
    if (this.manager === undefined) return this.registration.start();
    this.manager.start((outcome) => {
      if (outcome.ok) this.registration.start();
      else this.#reports.halted(outcome.error);
    });
  }

  /** What a manager wants known about who leads. */
  handleLeaderHint(notice: Uint8Array): void {
    this.#seen.handleLeaderHint(notice);
    if (this.#seen.view().leader !== undefined) this.manager?.heardOfGroup();
  }

  /** A process is surely gone: its host refused several members. */
  memberGone(id: NodeId, generation: number): void {
    this.manager?.group.onProcessGone(id, generation);
    this.placer?.nodeGone(id, generation);
  }

  /** That life of a node has stopped in good order: nobody has to wait for the end of its lease. */
  servesNoMore(id: NodeId, generation: number): void {
    this.placer?.nodeGone(id, generation);
  }

  healthChanged(score: number): void {
    this.manager?.group.healthChanged(score);
  }

  notified(from: Identity, message: ConsensusMessage): void {
    this.manager?.onMessage(from, message);
  }

  /** May that life of a node go on serving its containers? Only the leader can say so. */
  grantServing(node: NodeId, generation: number, revision: number): Outcome<ReceivedServingGrant> {
    const outcome =
      this.placer?.grantServingLease(node, generation, revision) ??
      failure('NOT_LEADER', 'this node is no manager', 'no');
    if (!outcome.ok) return outcome;
    const { leaseMs, term, revision: revokedRevision } = outcome.value;
    return success({ leaseMs, term, revokedRevision });
  }

  /** Where to ask what only the leader can say. */
  leader(): Peer | undefined {
    const { leader } = this.leadershipView();
    if (leader === undefined) return undefined;
    const address = this.#managers.locate(leader);
    return address === undefined ? undefined : { id: leader, ...address };
  }

  /** Who may lead or can say who does, those to be asked first in front; the dead are not asked. */
  candidateManagers(): readonly Peer[] {
    const self = this.manager === undefined ? undefined : this.#settings.identity.id;
    return managersByPreference(this.#managers.all(), this.leadership.view().leader, self);
  }

  /** Who leads, as far as this node knows: a manager outside of its group hears of it like all others. */
  leadershipView(): LeadershipView {
    return newestLeadership(this.leadership.view(), this.#seen.view(), this.#isInside());
  }

  /** An operator ordered something here: people want to find later who did what and why. */
  recordAdminEvent(order: string, fields: Readonly<Record<string, unknown>>): void {
    this.#happened('admin.ordered', { order, ...fields });
  }

  get clock(): Clock {
    return this.#ports.clock;
  }

  /**
   * The process ends and may be back soon: leadership is handed over, the registration stays until its time is over.
   */
  stop(done: Done<void>): void {
    this.registration.stop();
    for (const end of this.#ends) end();
    this.#handOver(() => {
      this.#client?.close();
      this.manager?.stop();
      done(success(undefined));
    });
  }

  #takeSeat(): ManagerRole | undefined {
    const { clock, streams, random, log, logStore: store, external } = this.#ports;
    const { identity, seeds, options, requestTimeoutMs } = this.#settings;
    if (external !== undefined || store === undefined || !identity.roles.includes('manager')) return undefined;
    const own = {
      consensus: consensusOptions(options),
      keeper: autopilotOptions(options),
      bootstrap: options.bootstrap,
    };
    return new ManagerRole(
      { clock, streams, store, random, log },
      { identity, seeds, requestTimeoutMs, ...own },
      this.#managers,
      {
        event: ({ type, ...fields }) => this.#happened(type, fields),
        told: (type, fields) => this.#happened(type, fields),
        embed: (state) => this.#reports.embed(state),
        halted: (error) => this.#reports.halted(error),
      },
    );
  }

  #openClient(): RegistryClient {
    const { clock, streams, random } = this.#ports;
    const { identity: self } = this.#settings;
    const anybody = sendToManagers({ clock, streams, self, server: () => this.manager?.server });
    const send = preferSelfWhenLeaderless(anybody, self, () => this.#isLeaderless());
    const localManager = (): Peer | undefined => (this.#isInside() ? self : undefined);
    const managers = (): readonly Peer[] => this.candidateManagers();
    return new RegistryClient({ clock, random: random.fork('registry'), self, managers, localManager, send });
  }

  /** Or is the leader itself, and has lost the others. */
  #isLeaderless(): boolean {
    const own = this.leadership.view().leader;
    if (own === this.#settings.identity.id) return !this.leadership.isLeading();
    return own === undefined && this.#isInside() && this.leadershipView().leader === undefined;
  }

  #isInside(): boolean {
    return this.manager !== undefined && this.manager.group.view().self !== 'outside';
  }

  #knowGroups(): GroupInfo {
    const { clock, streams, external } = this.#ports;
    const { identity } = this.#settings;
    const { manager: seat, leadership } = this;
    const isExternal = external !== undefined;
    return new GroupInfo({ clock, streams, identity, seat, leadership, isExternal, managers: this.#managers });
  }

  #bePresent(): NodeRegistration {
    const { clock, random, measure } = this.#ports;
    const { identity, options, reconcile } = this.#settings;
    const { registry, leadership } = this;
    return new NodeRegistration(
      { registry, leadership, clock, random, reconcile, measure },
      { identity, registration: registrationOptionsOf(options) },
      this.#tellers(),
    );
  }

  /** What only the leader does, on each node that can become one. */
  #leadWhenLeading(): LeaderServices | undefined {
    if (!this.#settings.identity.roles.includes('manager')) return undefined;
    const { registry, leadership } = this;
    const { clock } = this.#ports;
    const { options } = this.#settings;
    const { servingLeaseMs, copyRepairDelayMs } = options;
    const own = {
      ...{ registration: registrationOptionsOf(options), rebalance: rebalanceOptionsOf(options) },
      placement: { servingLeaseMs, copyRepairDelayMs },
    };
    const { rank, workAt } = this.#settings;
    const work = startLeaderServices(
      { registry, leadership, clock, rank, runningUnitsAt: workAt, isGone: this.#isGone },
      own,
      this.#tellers(),
    );
    this.#ends.push(work.stop);
    return work;
  }

  #tellers(): Pick<ControlPlaneReports, 'happened' | 'halted'> {
    return {
      happened: (type, fields) => this.#happened(type, fields),
      halted: (error) => this.#reports.halted(error),
    };
  }

  #takeOrders(assigner: AssignerHost | undefined): LeaderCommands {
    const { registry, leadership, manager: seat } = this;
    const { clock, streams } = this.#ports;
    const { id: self } = this.#settings.identity;
    const managers = this.#managers;
    return new LeaderCommands({
      ...{ self, streams, assigner, placer: this.placer },
      leadership: { view: () => this.leadershipView(), isLeading: () => leadership.isLeading() },
      locate: (id) => managers.locate(id),
      group: seat === undefined ? undefined : new GroupCommands({ clock, registry, seat, managers, self }),
      backups: seat === undefined ? undefined : new RegistryBackups(clock, seat),
      leave: (words, done) => this.#leave(reasonArgument(commandArguments(words)), done),
    });
  }

  /** People want to see changes of leadership also in the events of nodes without a vote. */
  #follow(): void {
    if (this.manager !== undefined) return;
    let before: NodeId | undefined;
    this.#ends.push(
      this.leadership.watch({
        changed: ({ leader, term }) => {
          if (leader !== undefined && leader !== before) this.#happened('leader.elected', { leader, term });
          before = leader;
        },
      }),
    );
  }

  /** Ids of nodes get their names beside them, as far as membership knows them; `node` is who tells, in every event. */
  #happened(type: string, { node, leader, ...fields }: Readonly<Record<string, unknown>>): void {
    const nameOf = (id: unknown): unknown => this.#managers.nameOf(id as NodeId) ?? id;
    const about = node === undefined ? {} : { member: nameOf(node), id: node };
    const leading = leader === undefined ? {} : { leader: nameOf(leader), leaderId: leader };
    this.#reports.happened(type, { ...about, ...leading, ...fields });
  }

  /** For good. Also if nobody could be told: a registration that was given up is not taken up again, and runs out. */
  #leave(reason: string, done: Done<object>): void {
    this.registration.leave((outcome) => {
      done(outcome.ok ? success({}) : outcome);
      this.#reports.left(reason);
    });
  }

  #handOver(done: () => void): void {
    const { manager } = this;
    if (manager === undefined || !manager.group.leadership.isLeading()) return done();
    if (manager.group.view().members.filter(({ standing }) => standing === 'voter').length === 1) return done();
    manager.group.transfer(undefined, this.#settings.options.electionTimeoutMs * 2, () => done());
  }
}
