/**
 * The manager role of a node: consensus group, registry replica and server, group formation, autopilot. Wires them;
 * decides nothing.
 */
import { type Done, success } from '../../base/errors.ts';
import { fenceParts } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Clock, Identity, Log, Store, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import { groupIdBytes, groupIdFrom } from '../../base/registry-epoch.ts';
import type { ConsensusEvent } from '../../consensus/state/effects.ts';
import { ConsensusHost } from '../../consensus/consensus-host.ts';
import type { ConsensusOptions } from '../../consensus/state/options.ts';
import type { GroupChange, GroupMember } from '../../consensus/state/state-machine.ts';
import type { ConsensusMessage } from '../../messages/consensus.ts';
import { leaderHintCodec } from '../../messages/group-admin.ts';
import { RegistryReplica } from '../../registry/replica/registry-replica.ts';
import { GroupFounder } from '../../registry/server/group-founder.ts';
import { RegistryServer } from '../../registry/server/registry-server.ts';
import type { RegistryWriteResult } from '../../registry/registry-messages.ts';
import { isRemovedManager } from './removed-managers.ts';
import { GroupFormationHost } from './group-formation-host.ts';
import type { GroupSnapshot, AutopilotOptions } from './group-autopilot.ts';
import { type DescribeGroup, type DescribeGroupReply, groupInfoClient } from './group-info-client.ts';
import { GroupAutopilotHost } from './group-autopilot-host.ts';
import type { ManagerDirectory } from './manager-directory.ts';

export type ManagerRolePorts = {
  readonly clock: Clock;
  readonly streams: Streams;
  readonly store: Store;
  readonly random: Random;
  readonly log: Log;
};

export type ManagerRoleSettings = {
  readonly identity: Identity;
  readonly seeds: readonly Address[];
  /** The operator states that no group exists: create one without asking other nodes. */
  readonly bootstrap: boolean;
  readonly consensus: ConsensusOptions;
  readonly autopilot: AutopilotOptions;
  readonly requestTimeoutMs: number;
};

export type ManagerRoleReports = {
  event(event: ConsensusEvent): void;
  /** For operators: formation waits, a manager of another group was found, or this node created the group. */
  emit(type: 'group.waiting' | 'group.foreign' | 'group.begun', fields: Readonly<Record<string, unknown>>): void;
  /** Publishes a leader hint as embedded state. */
  embed(state: Uint8Array): void;
  onHalt(error: unknown): void;
};

export class ManagerRole {
  readonly group: ConsensusHost<RegistryWriteResult>;
  readonly server: RegistryServer;
  readonly replica = new RegistryReplica();
  readonly #ports: ManagerRolePorts;
  readonly #settings: ManagerRoleSettings;
  readonly #managers: ManagerDirectory;
  readonly #reports: ManagerRoleReports;
  readonly #describeGroup: DescribeGroup;
  readonly #formation: GroupFormationHost;
  readonly #founder: GroupFounder;
  #autopilot: GroupAutopilotHost | undefined;

  constructor(
    ports: ManagerRolePorts,
    settings: ManagerRoleSettings,
    managers: ManagerDirectory,
    reports: ManagerRoleReports,
  ) {
    const { clock, streams, store, random, log } = ports;
    const { identity, consensus, requestTimeoutMs } = settings;
    const locate = (id: NodeId): Address | undefined => managers.locate(id);
    this.#ports = ports;
    this.#settings = settings;
    this.#managers = managers;
    this.#reports = reports;
    this.#describeGroup = groupInfoClient(streams, identity.dc, requestTimeoutMs);
    this.group = new ConsensusHost(
      { clock, streams, store, random: random.fork('consensus'), log },
      { group: identity.dc, self: identity, options: consensus, locate },
      this.replica,
      { event: (event) => reports.event(event), onHalt: (error) => reports.onHalt(error) },
    );
    this.server = new RegistryServer({ clock, group: this.group, replica: this.replica, addressOf: locate });
    const ids = random.fork('group-id');
    const newGroupId = (): string => groupIdFrom(ids.bytes(groupIdBytes));
    this.#founder = new GroupFounder({ clock, group: this.group, replica: this.replica, newGroupId });
    this.#formation = this.#openFormation();
    this.group.leadership.watch({ changed: () => this.#embed() });
  }

  /** Recovers the log from disk, then joins or creates the group. */
  start(done: Done<void>): void {
    this.group.start((outcome) => {
      if (!outcome.ok) return done(outcome);
      this.#embed();
      if (outcome.value.fresh) this.#formation.start(this.#settings.seeds, this.#settings.bootstrap);
      else this.#formation.onJoined();
      this.#autopilot = this.#startAutopilot();
      done(success(undefined));
    });
  }

  onMessage(from: Identity, message: ConsensusMessage): void {
    this.group.onMessage(from, message);
  }

  /** The leader hint that this manager gossips. */
  leaderHint(): Uint8Array {
    const { leader, term, fence } = this.group.leadership.view();
    const since = fence === undefined ? undefined : fenceParts(fence).index;
    return leaderHintCodec.encode({ kind: 'leaderHint', term, leader, since });
  }

  /** A leader hint has arrived, so a group exists. */
  onGroupFound(): void {
    this.#formation.onGroupFound();
  }

  /** The reply to a node that requests group information. */
  groupInfo(from: Identity): Omit<DescribeGroupReply, 'managers'> {
    const { id, dc } = this.#settings.identity;
    const isMember = this.#isMember();
    if (!isMember && from.dc === dc && from.roles.includes('manager')) this.#formation.onRequest(from);
    const { leader, term, members, appliedIndex } = this.group.view();
    return { kind: 'describeGroupReply', id, isCandidate: true, isMember, leader, term, members, appliedIndex };
  }

  /** Ends when the change is committed or refused. Only the leader can execute it. */
  change(change: GroupChange, timeoutMs: number, done: Done<void>): void {
    this.group.change(change, timeoutMs, done);
  }

  /** An operator removed this manager, so the autopilot does not add it again. */
  isRemoved(id: NodeId): boolean {
    return isRemovedManager(this.replica, id);
  }

  stop(): void {
    this.#formation.stop();
    this.#autopilot?.stop();
    this.#founder.stop();
    this.server.close();
    this.group.stop();
  }

  #isMember(): boolean {
    return this.group.view().self !== 'outside';
  }

  #openFormation(): GroupFormationHost {
    const { clock } = this.#ports;
    return new GroupFormationHost(this.#settings.identity.id, {
      clock,
      describeGroup: this.#describeGroup,
      managers: () => {
        if (this.#isMember()) clock.schedule(0, () => this.#formation.onJoined());
        return this.#managers.others();
      },
      bootstrap: () => this.#bootstrap(),
      onWaiting: (why) => this.#reports.emit('group.waiting', { group: this.#settings.identity.dc, why }),
      onHalt: (error) => this.#reports.onHalt(error),
    });
  }

  #bootstrap(): void {
    const { id, name, host, port, dc } = this.#settings.identity;
    const first: GroupMember = { id, name, host, port, standing: 'voter' };
    this.group.bootstrap([first], (outcome) => {
      if (outcome.ok) return this.#reports.emit('group.begun', { group: dc });
      // A leader added this node meanwhile: this node belongs to that group.
      this.#ports.log('warn', 'the manager group was not created', {
        code: outcome.error.code,
        why: outcome.error.message,
      });
    });
  }

  #startAutopilot(): GroupAutopilotHost {
    return new GroupAutopilotHost(
      {
        clock: this.#ports.clock,
        describeGroup: this.#describeGroup,
        snapshot: () => this.#snapshot(),
        change: (change, why, done) => {
          this.#ports.log('info', 'changing the manager group', { ...change, why });
          this.group.change(change, this.#settings.requestTimeoutMs, done);
        },
        onForeign: (id, name) => this.#reports.emit('group.foreign', { group: this.#settings.identity.dc, id, name }),
        onHalt: (error) => this.#reports.onHalt(error),
      },
      this.#settings.autopilot,
    );
  }

  #snapshot(): GroupSnapshot {
    const group = this.group.view().members;
    const caughtUp = new Set(this.group.progress().flatMap((one) => (one.caughtUp ? [one.id] : [])));
    return {
      isLeading: this.group.leadership.isLeading(),
      self: this.#settings.identity.id,
      group,
      caughtUp,
      managers: this.#managers.all().filter(({ id }) => group.some((one) => one.id === id) || !this.isRemoved(id)),
    };
  }

  #embed(): void {
    this.#reports.embed(this.leaderHint());
  }
}
