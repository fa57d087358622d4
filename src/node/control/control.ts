/**
 * A node's part in what the cluster agrees on. Every node holds a registry and is registered in it; a manager has also
 * a seat in the group behind that registry, and does the leader's work while it leads. This file wires those parts to
 * each other and tells the node what happened; it decides nothing.
 *
 *   membership --who lives--> seat (log, key space, server) <--streams--> other managers
 *                               ^
 *   registration, assignments --+-- registry client --> whichever manager leads
 */
import { type Done, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Identity, Log, Peer, Store, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeadershipView, Registry } from '../../base/registry.ts';
import type { GroupMember } from '../../consensus/replica.ts';
import type { MemberView } from '../../membership/member-view.ts';
import type { ConsensusMessage } from '../../messages/consensus.ts';
import { AssignerHost } from '../../registry/assignment/assigner-host.ts';
import { type AssignmentHost, AssignmentsHeldHost } from '../../registry/assignment/assignments-held-host.ts';
import type { LoadReport } from '../../registry/assignment/load-report.ts';
import { reportLoad } from '../../registry/assignment/load-reporter-host.ts';
import { mirror } from '../../registry/assignment/mirror.ts';
import { AssignmentOperations } from '../../registry/assignment/operations.ts';
import { heldHooks } from '../../registry/assignment/registration-hooks.ts';
import { keyRanges } from '../../registry/keys.ts';
import { RegistryClient, askManagers } from '../../registry/registry-client.ts';
import { ExpiryWorkerHost } from '../../registry/registration/expiry-worker-host.ts';
import type { StateRecord } from '../../registry/registration/records.ts';
import { RegistrationHost } from '../../registry/registration/registration-host.ts';
import { Roster, standingOf } from '../../registry/registration/roster.ts';
import {
  type ControlValues,
  consensusOptions,
  keeperOptions,
  rebalanceOptionsOf,
  registrationOptionsOf,
} from '../control-options.ts';
import { askInReach, inOrderOfAsking } from './ask-in-reach.ts';
import { Askers } from './askers.ts';
import { BackupDesk } from './backup-desk.ts';
import { GroupDesk } from './group-desk.ts';
import type { GroupStatusParts } from './group-status.ts';
import type { ToldGroup } from './group-questions.ts';
import { LeadershipSeen, betterKnown } from './leadership-seen.ts';
import { ManagerSeat } from './manager-seat.ts';
import { type ManagersSeen, managersSeen } from './managers-seen.ts';
import { reasonIn, wordsOf } from './order-words.ts';
import { Orders } from './orders.ts';

/** A registry that somebody else keeps, and leadership that is decided there. */
export type ExternalRegistry = { readonly registry: Registry; readonly leadership: Leadership };

export type ControlPorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly random: Random;
  readonly log: Log;
  /** Where a manager keeps the log; nodes without a seat need none. */
  readonly logStore: Store | undefined;
  readonly external: ExternalRegistry | undefined;
  /** Whoever really holds what is assigned to this node. */
  readonly assignments: AssignmentHost;
  /** How busy the machine is; what is served is added here. */
  readonly measure: () => Omit<LoadReport, 'serving'>;
};

export type ControlSettings = {
  readonly identity: Identity;
  readonly seeds: readonly Address[];
  readonly options: ControlValues;
  readonly requestTimeoutMs: number;
};

export type ControlReports = {
  happened(type: string, fields: Readonly<Record<string, unknown>>): void;
  embed(state: Uint8Array): void;
  /** The node has left for good, as it was told to: it is to end. */
  left(reason: string): void;
  /** A mistake of ours, or a disk that cannot be used: the node must end. */
  halted(error: unknown): void;
};

const toldMax = 64;

export class Control {
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly seat: ManagerSeat | undefined;
  readonly operations: AssignmentOperations;
  readonly orders: Orders;
  readonly #ports: ControlPorts;
  readonly #settings: ControlSettings;
  readonly #reports: ControlReports;
  readonly #managers: ManagersSeen;
  readonly #seen = new LeadershipSeen();
  readonly #askers: Askers;
  readonly #client: RegistryClient | undefined;
  readonly #registration: RegistrationHost;
  readonly #held: AssignmentsHeldHost;
  readonly #roster = new Roster();
  readonly #ends: Cancel[] = [];

  constructor(
    ports: ControlPorts,
    settings: ControlSettings,
    members: () => readonly MemberView[],
    reports: ControlReports,
  ) {
    this.#ports = ports;
    this.#settings = settings;
    this.#reports = reports;
    this.#askers = new Askers(ports.clock);
    this.#managers = managersSeen(members, settings.identity);
    this.seat = this.#takeSeat();
    this.#client = ports.external === undefined ? this.#openClient() : undefined;
    this.registry = ports.external?.registry ?? (this.#client as RegistryClient);
    this.leadership = ports.external?.leadership ?? this.seat?.group.leadership ?? this.#seen;
    this.operations = new AssignmentOperations(this.registry, ports.clock, rebalanceOptionsOf(settings.options));
    this.#held = this.#holdAssignments();
    this.#registration = this.#register();
    this.#ends.push(this.#followRoster(), this.#reportLoad());
    this.orders = this.#takeOrders(this.#leadWhenLeading());
    this.#follow();
  }

  /** The seat is taken and registration begins: both go on by themselves for as long as it takes. */
  start(): void {
    if (this.seat === undefined) return this.#registration.start();
    this.seat.start((outcome) => {
      if (outcome.ok) this.#registration.start();
      else this.#reports.halted(outcome.error);
    });
  }

  /** What a manager wants known about who leads. */
  heard(notice: Uint8Array): void {
    this.#seen.heard(notice);
    if (this.#seen.view().leader !== undefined) this.seat?.heardOfGroup();
  }

  /** A process is surely gone: its host refused several members. */
  memberGone(id: NodeId, generation: number): void {
    this.seat?.group.memberGone(id, generation);
  }

  healthChanged(score: number): void {
    this.seat?.group.healthChanged(score);
  }

  notified(from: Identity, message: ConsensusMessage): void {
    this.seat?.received(from, message);
  }

  /** What this node knows of the group; of another group than its own it knows nothing. */
  tell(from: Identity, group: string): ToldGroup {
    const { id, dc } = this.#settings.identity;
    if (from.id !== id && from.dc === group && from.roles.includes('manager')) this.#askers.note(from);
    const managers = this.#heardOf(group);
    if (this.seat !== undefined && group === dc) return { ...this.seat.tell(from), managers };
    const { leader, term } = group === dc ? this.leadership.view() : { leader: undefined, term: 0 };
    const nothing = { eligible: false, belongs: false, members: [], appliedIndex: 0 };
    return { kind: 'toldGroup', id, ...nothing, leader, term, managers };
  }

  /** By membership, or because they asked. */
  #heardOf(dc: string): readonly GroupMember[] {
    const seen = dc === this.#settings.identity.dc ? this.#managers.all().filter(({ isAlive }) => isAlive) : [];
    const members = seen.map(({ id, name, host, port }): GroupMember => ({
      id,
      name,
      host,
      port,
      standing: 'syncing',
    }));
    const others = this.#askers.of(dc).filter(({ id }) => !members.some((member) => member.id === id));
    return [...members, ...others].slice(0, toldMax);
  }

  /** For who asks about any group of managers. */
  statusParts(members: GroupStatusParts['members']): GroupStatusParts {
    const { identity } = this.#settings;
    const isExternal = this.#ports.external !== undefined;
    const tell = (group: string): ToldGroup => this.tell(identity, group);
    return { streams: this.#ports.streams, identity, members, tell, isExternal };
  }

  /** As last heard from the registry; of this node itself, as it knows best. */
  stateOf(id: NodeId): StateRecord | undefined {
    return id === this.#settings.identity.id ? this.#registration.state : this.#roster.get(id)?.state?.record;
  }

  /** For people: the mode, `lost`, or undefined as long as nothing is known. */
  standingOf(id: NodeId): string | undefined {
    if (id === this.#settings.identity.id) return this.#registration.state?.mode;
    const standing = standingOf(this.#roster.get(id));
    return standing === 'unknown' ? undefined : standing;
  }

  /** Who leads, as far as this node knows: a manager outside of its group hears of it like all others. */
  known(): LeadershipView {
    return betterKnown(this.leadership.view(), this.#seen.view(), this.#isInside());
  }

  /** An operator ordered something here: people want to find later who did what and why. */
  ordered(order: string, fields: Readonly<Record<string, unknown>>): void {
    this.#happened('admin.ordered', { order, ...fields });
  }

  get clock(): Clock {
    return this.#ports.clock;
  }

  /** What this node holds of what is assigned to it. */
  held(): readonly { readonly pool: string; readonly container: string }[] {
    return this.#held.held();
  }

  /** May this node act on what is assigned to it, at this moment? */
  mayServe(): boolean {
    return this.#registration.mayServe();
  }

  /**
   * The process ends and may be back soon: leadership is handed over, the registration stays until its time is over.
   */
  stop(done: Done<void>): void {
    this.#registration.stop();
    this.#held.stop();
    for (const end of this.#ends) end();
    this.#handOver(() => {
      this.#client?.close();
      this.seat?.stop();
      done(success(undefined));
    });
  }

  #followRoster(): Cancel {
    return mirror(this.registry, this.#ports.clock, keyRanges.roster, {
      loaded: (entries) => this.#roster.load(entries),
      changed: (changes) => this.#roster.apply(changes),
    });
  }

  #reportLoad(): Cancel {
    const { clock, measure } = this.#ports;
    return reportLoad(this.#settings.identity.id, {
      ...{ registry: this.registry, clock },
      measure: () => ({ ...measure(), serving: this.#held.held().length }),
      lease: () => this.#registration.lease,
    });
  }

  #takeSeat(): ManagerSeat | undefined {
    const { clock, streams, random, log, logStore: store, external } = this.#ports;
    const { identity, seeds, options, requestTimeoutMs } = this.#settings;
    if (external !== undefined || store === undefined || !identity.roles.includes('manager')) return undefined;
    const own = { consensus: consensusOptions(options), keeper: keeperOptions(options), bootstrap: options.bootstrap };
    return new ManagerSeat(
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
    const anybody = askManagers({ clock, streams, self, server: () => this.seat?.server });
    const isLeaderless = (): boolean =>
      this.leadership.view().leader === undefined && this.#isInside() && this.known().leader === undefined;
    const ask = askInReach(anybody, self, isLeaderless);
    return new RegistryClient({ clock, random: random.fork('registry'), self, managers: () => this.#askable(), ask });
  }

  #isInside(): boolean {
    return this.seat !== undefined && this.seat.group.view().self !== 'outside';
  }

  #askable(): readonly Peer[] {
    const self = this.seat === undefined ? undefined : this.#settings.identity.id;
    return inOrderOfAsking(this.#managers.all(), this.leadership.view().leader, self);
  }

  #holdAssignments(): AssignmentsHeldHost {
    const { clock, assignments } = this.#ports;
    return new AssignmentsHeldHost(this.#settings.identity.id, {
      registry: this.registry,
      clock,
      host: assignments,
      tell: ({ kind, ...fields }) => this.#happened(`container.${kind}`, fields),
      halted: (error) => this.#reports.halted(error),
    });
  }

  #register(): RegistrationHost {
    const { clock, random } = this.#ports;
    const { identity, options } = this.#settings;
    const hooks = heldHooks(this.#held);
    return new RegistrationHost(
      { registry: this.registry, clock, random: random.fork('registration'), leadership: this.leadership },
      identity,
      registrationOptionsOf(options),
      {
        ...hooks,
        event: (event) => {
          const { type, ...fields } = event;
          this.#happened(type, fields);
          hooks.event(event);
        },
        fenced: (error) => this.#reports.halted(error),
        halted: (error) => this.#reports.halted(error),
      },
    );
  }

  #takeOrders(assigner: AssignerHost | undefined): Orders {
    const { registry, leadership, seat } = this;
    const { clock, streams } = this.#ports;
    const { id: self } = this.#settings.identity;
    const managers = this.#managers;
    return new Orders({
      ...{ self, streams, assigner },
      leadership: { view: () => this.known(), isLeading: () => leadership.isLeading() },
      locate: (id) => managers.locate(id),
      group: seat === undefined ? undefined : new GroupDesk({ clock, registry, seat, managers, self }),
      backups: seat === undefined ? undefined : new BackupDesk(clock, seat),
      leave: (words, done) => this.#leave(reasonIn(wordsOf(words)), done),
    });
  }

  /** What only the leader does, on each node that can become one. */
  #leadWhenLeading(): AssignerHost | undefined {
    if (!this.#settings.identity.roles.includes('manager')) return undefined;
    const { registry, leadership } = this;
    const { clock } = this.#ports;
    const { options } = this.#settings;
    const registration = registrationOptionsOf(options);
    const halted = (error: unknown): void => this.#reports.halted(error);
    const expiry = new ExpiryWorkerHost({ registry, clock, leadership }, registration, {
      event: ({ type, ...fields }) => this.#happened(type, fields),
      halted,
    });
    expiry.start();
    this.#ends.push(() => expiry.stop());
    const tell = ({ kind, ...fields }: { readonly kind: string }): void =>
      this.#happened(kind === 'assigned' ? 'container.assigned' : `assigner.${kind}`, fields);
    const ports = { registry, leadership, clock, tell, halted };
    const { regrantDelayMs } = registration;
    const assigner = new AssignerHost(ports, { rebalance: rebalanceOptionsOf(options), regrantDelayMs });
    this.#ends.push(() => assigner.stop());
    return assigner;
  }

  /** People want to see changes of leadership also in the events of nodes without a vote. */
  #follow(): void {
    if (this.seat !== undefined) return;
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
    this.#registration.leave((outcome) => {
      done(outcome.ok ? success({}) : outcome);
      this.#reports.left(reason);
    });
  }

  #handOver(done: () => void): void {
    const { seat } = this;
    if (seat === undefined || !seat.group.leadership.isLeading()) return done();
    if (seat.group.view().members.filter(({ standing }) => standing === 'voter').length === 1) return done();
    seat.group.transfer(undefined, this.#settings.options.electionTimeoutMs * 2, () => done());
  }
}
