/**
 * A manager's part in the consensus group: log, registry replica, formation, autopilot. Wires them; services on the
 * registry live elsewhere.
 */
import { type Done, success } from '../../base/errors.ts';
import { fenceParts } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Clock, Identity, Log, Store, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { ConsensusEvent } from '../../consensus/state/effects.ts';
import { ConsensusHost } from '../../consensus/consensus-host.ts';
import type { ConsensusOptions } from '../../consensus/state/options.ts';
import type { GroupChange, GroupMember } from '../../consensus/state/state-machine.ts';
import type { ConsensusMessage } from '../../messages/consensus.ts';
import { leaderHintCodec } from '../../messages/group-admin.ts';
import { RegistryReplica } from '../../registry/replica/registry-replica.ts';
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
  /** There is no group yet, an operator says: begin one without asking. */
  readonly bootstrap: boolean;
  readonly consensus: ConsensusOptions;
  readonly keeper: AutopilotOptions;
  readonly requestTimeoutMs: number;
};

export type ManagerRoleReports = {
  event(event: ConsensusEvent): void;
  /** The group waits for something, or met one that is not its own: for people. */
  told(type: 'group.waiting' | 'group.foreign' | 'group.begun', fields: Readonly<Record<string, unknown>>): void;
  /** What everybody should know about who leads. */
  embed(state: Uint8Array): void;
  halted(error: unknown): void;
};

export class ManagerRole {
  readonly group: ConsensusHost<RegistryWriteResult>;
  readonly server: RegistryServer;
  readonly replica = new RegistryReplica();
  readonly #ports: ManagerRolePorts;
  readonly #settings: ManagerRoleSettings;
  readonly #managers: ManagerDirectory;
  readonly #reports: ManagerRoleReports;
  readonly #ask: DescribeGroup;
  readonly #formation: GroupFormationHost;
  #keeper: GroupAutopilotHost | undefined;

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
    this.#ask = groupInfoClient(streams, identity.dc, requestTimeoutMs);
    this.group = new ConsensusHost(
      { clock, streams, store, random: random.fork('consensus'), log },
      { group: identity.dc, self: identity, options: consensus, locate },
      this.replica,
      { event: (event) => reports.event(event), onHalt: (error) => reports.halted(error) },
    );
    this.server = new RegistryServer({ clock, group: this.group, replica: this.replica, addressOf: locate });
    this.#formation = this.#formationHost();
    this.group.leadership.watch({ changed: () => this.#embed() });
  }

  /** Reads the log from the disk, and joins or begins the group. */
  start(done: Done<void>): void {
    this.group.start((outcome) => {
      if (!outcome.ok) return done(outcome);
      this.#embed();
      if (outcome.value.fresh) this.#formation.begin(this.#settings.seeds, this.#settings.bootstrap);
      else this.#formation.belongs();
      this.#keeper = this.#keeperHost();
      done(success(undefined));
    });
  }

  onMessage(from: Identity, message: ConsensusMessage): void {
    this.group.onMessage(from, message);
  }

  /** Who leads, as this manager tells everybody. */
  notice(): Uint8Array {
    const { leader, term, fence } = this.group.leadership.view();
    const since = fence === undefined ? undefined : fenceParts(fence).index;
    return leaderHintCodec.encode({ kind: 'leaderHint', term, leader, since });
  }

  /** Somebody tells of a leader, so there is a group. */
  heardOfGroup(): void {
    this.#formation.heardOfGroup();
  }

  /** A node asks what we know of the group. */
  groupInfo(from: Identity): Omit<DescribeGroupReply, 'managers'> {
    const { id, dc } = this.#settings.identity;
    const isMember = this.#belongs();
    if (!isMember && from.dc === dc && from.roles.includes('manager')) this.#formation.askedBy(from);
    const { leader, term, members, appliedIndex } = this.group.view();
    return { kind: 'describeGroupReply', id, isCandidate: true, isMember, leader, term, members, appliedIndex };
  }

  /** The change is agreed on, or refused by those who know better; the leader is the one to ask. */
  change(change: GroupChange, timeoutMs: number, done: Done<void>): void {
    this.group.change(change, timeoutMs, done);
  }

  /** An operator removed it: it is not taken in again by itself. */
  isRemoved(id: NodeId): boolean {
    return isRemovedManager(this.replica, id);
  }

  stop(): void {
    this.#formation.stop();
    this.#keeper?.stop();
    this.server.close();
    this.group.stop();
  }

  #belongs(): boolean {
    return this.group.view().self !== 'outside';
  }

  #formationHost(): GroupFormationHost {
    const { clock } = this.#ports;
    return new GroupFormationHost(this.#settings.identity.id, {
      clock,
      ask: this.#ask,
      managers: () => {
        if (this.#belongs()) clock.schedule(0, () => this.#formation.belongs());
        return this.#managers.others();
      },
      form: () => this.#form(),
      waiting: (why) => this.#reports.told('group.waiting', { group: this.#settings.identity.dc, why }),
      halted: (error) => this.#reports.halted(error),
    });
  }

  #form(): void {
    const { id, name, host, port, dc } = this.#settings.identity;
    const first: GroupMember = { id, name, host, port, standing: 'voter' };
    this.group.bootstrap([first], (outcome) => {
      if (outcome.ok) return this.#reports.told('group.begun', { group: dc });
      // Somebody added us in the meantime: that group is the one.
      this.#ports.log('warn', 'the group was not begun', { code: outcome.error.code, why: outcome.error.message });
    });
  }

  #keeperHost(): GroupAutopilotHost {
    return new GroupAutopilotHost(
      {
        clock: this.#ports.clock,
        ask: this.#ask,
        look: () => this.#look(),
        change: (change, why, done) => {
          this.#ports.log('info', 'the group is to change', { ...change, why });
          this.group.change(change, this.#settings.requestTimeoutMs, done);
        },
        foreign: (id, name) => this.#reports.told('group.foreign', { group: this.#settings.identity.dc, id, name }),
        halted: (error) => this.#reports.halted(error),
      },
      this.#settings.keeper,
    );
  }

  #look(): GroupSnapshot {
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
    this.#reports.embed(this.notice());
  }
}
