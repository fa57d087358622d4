/**
 * Wires the machines of a node to ports that its owner opened. The same code runs in production and in the simulator.
 * Never opens or closes a port.
 *
 *   streams --bytes--> dispatcher --messages--> membership (here or in its own thread) --> event log, member history
 *                                          --> control plane, containers, jobs
 */
import { type Done, success } from '../base/errors.ts';
import { BoundedLru } from '../base/collections/bounded-lru.ts';
import type { NodeId } from '../base/ids.ts';
import type { Address, Clock, Identity } from '../base/ports.ts';
import type { NodeInfo } from '../containers/module.ts';
import type { MemberView } from '../membership/state/member-view.ts';
import type { EmbeddedState, MembershipHandle, MembershipListener } from '../membership/membership-handle.ts';
import { readHints } from '../membership/state/hints.ts';
import type { MembershipEvent } from '../membership/state/membership-event.ts';
import type { EmbeddingRole } from '../messages/membership.ts';
import { handleForwardedAdminCommand, handlePoolRequest } from './admin/admin-actions.ts';
import { ContainerService } from './containers/container-service.ts';
import { MemberIndex } from './membership/member-index.ts';
import { ControlPlane } from './control-plane/control-plane.ts';
import type { CoreHooks, CoreOptions, CorePorts, NodeCore } from './core/node-core-types.ts';
import { JobService } from './jobs/job-service.ts';
import { activationHint, lateReturnText } from './core/late-return.ts';
import { NodeEventLog } from './core/node-event-log.ts';
import { type MemberHistoryEntry, MemberHistory } from './membership/member-history.ts';
import { type NodeStatus, nodeStatus, rejections } from './core/node-status.ts';
import { type MemberRow, memberRows } from './membership/member-rows.ts';
import { type Reachability, measureReachability, memberViewRequester } from './membership/reachability.ts';
import { OrderlyStop } from './core/orderly-stop.ts';
import { scopedClock } from './core/scoped-clock.ts';
import { messageDispatcher } from './message-dispatcher.ts';
import { type WorkerSummary, decodeWorkerSummary, publishWorkerSummary } from './membership/worker-summary.ts';

const embeddedMax = 20_000;
/** Events that an operator has to act on. */
const warnings: ReadonlySet<string> = new Set(['table.refused', 'reconcile.failed']);
const healthReportMs = 1_000;
const stopMsMax = 10_000;
/** A manager that is stopping is the last choice as leader. */
const healthWorst = 8;

export function bootNode(ports: CorePorts, options: CoreOptions, hooks: CoreHooks = {}): NodeCore {
  return new Core(ports, options, hooks);
}

class Core implements NodeCore {
  readonly identity: Identity;
  readonly events: NodeEventLog;
  readonly control: ControlPlane | undefined;
  readonly containers: ContainerService | undefined;
  readonly jobs: JobService | undefined;
  readonly #ports: CorePorts;
  readonly #options: CoreOptions;
  readonly #hooks: CoreHooks;
  readonly #timers: ReturnType<typeof scopedClock>;
  readonly #membership: MembershipHandle;
  readonly #history = new MemberHistory();
  readonly #index: MemberIndex;
  readonly #embedded = new BoundedLru<NodeId, EmbeddedState>(embeddedMax);
  readonly #counters = new Map<string, number>();
  readonly #bootedMs: number;
  #tableDigest: Uint8Array | undefined;
  /** The worker summary that this node last published. */
  #workerSummary: Uint8Array | undefined;
  #joined = false;
  #halted = false;
  #stopping = false;
  #refusesCalls = false;
  #refusesRequests = false;
  readonly #stopCallbacks: Done<void>[] = [];

  constructor(ports: CorePorts, options: CoreOptions, hooks: CoreHooks) {
    const { clock, streams, store } = ports;
    const { identity } = options;
    this.identity = identity;
    this.#ports = ports;
    this.#options = options;
    this.#hooks = hooks;
    this.#bootedMs = clock.nowMs();
    this.#timers = scopedClock(clock);
    this.events = new NodeEventLog({ clock, node: identity.name, generation: identity.generation });
    this.#membership = ports.membership({ clock: this.#timers.clock, streams, identity }, this.#reports());
    this.#index = new MemberIndex(this.#timers.clock, () => this.memberViews());
    this.control = this.#openControlPlane();
    this.containers = this.control === undefined ? undefined : this.#openContainers(this.control);
    this.jobs = this.control === undefined ? undefined : this.#openJobs(this.control);
    this.#serve();
    this.#emit('node.started', { generation: identity.generation });
    readHints(store, (hints, failed) => {
      if (failed) this.#count('store.readFailed');
      if (this.#stopping) return;
      this.#membership.start(hints);
      this.control?.start();
      this.containers?.start();
      this.#publishWorkerSummary();
    });
  }

  get clock(): Clock {
    return this.#timers.clock;
  }

  joined(): boolean {
    return this.#joined;
  }

  halted(): boolean {
    return this.#halted;
  }

  memberViews(): readonly MemberView[] {
    return this.#membership.members();
  }

  members(): readonly MemberRow[] {
    return memberRows(this.memberViews(), {
      registrationOf: (id) => this.control?.registration.registrationStatusOf(id),
      registrationReasonOf: (id) => this.control?.registration.stateOf(id)?.reason,
      summaryOf: (id) => this.#summaryOf(id),
    });
  }

  #summaryOf(id: NodeId): WorkerSummary | undefined {
    const parts = this.#embedded.peek(id)?.parts;
    const state = id === this.identity.id ? this.#workerSummary : parts?.find(({ role }) => role === 'worker')?.state;
    return state === undefined ? undefined : decodeWorkerSummary(state);
  }

  memberHistory(id: NodeId): readonly MemberHistoryEntry[] {
    return this.#history.of(id);
  }

  join(seeds: readonly Address[]): void {
    this.#membership.join(seeds);
  }

  embed(role: EmbeddingRole, state: Uint8Array): void {
    this.#membership.embed(role, state);
  }

  embedded(id: NodeId): EmbeddedState | undefined {
    return this.#embedded.peek(id);
  }

  requestMemberView(member: MemberRow, done: (members: readonly MemberView[] | undefined) => void): void {
    memberViewRequester(this.#ports.streams, this.#options.requestTimeoutMs)(member, done);
  }

  reachability(done: (result: Reachability) => void): void {
    const requestView = memberViewRequester(this.#ports.streams, this.#options.requestTimeoutMs);
    measureReachability(this.memberViews(), this.identity.name, requestView, done);
  }

  counters(): Readonly<Record<'core' | 'membership' | 'containers', Readonly<Record<string, number>>>> {
    const containers = this.containers?.counters() ?? {};
    return { core: Object.fromEntries(this.#counters), membership: this.#membership.counters(), containers };
  }

  status(): NodeStatus {
    return nodeStatus({
      self: this.identity,
      members: this.members(),
      joined: this.#joined,
      stopping: this.#stopping,
      leadership: this.control?.leadershipView(),
      containers: this.containers,
      jobs: this.jobs,
      queues: { ...this.containers?.queues(), ...this.jobs?.queues() },
      rejected: rejections(this.counters()),
      uptimeMs: Math.floor(this.#ports.clock.nowMs() - this.#bootedMs),
    });
  }

  acceptsCalls(): boolean {
    return !this.#refusesCalls;
  }

  stop(done: Done<void>, reason = 'stopped', budgetMs = stopMsMax): void {
    this.#stopCallbacks.push(done);
    if (this.#stopping) return;
    this.#stopping = true;
    this.#emit('node.stopping', { reason });
    const { clock, log } = this.#ports;
    const { control, containers, jobs } = this;
    const stop = new OrderlyStop({
      ...{ clock, log, self: this.identity.id, control, containers, jobs },
      members: () => this.memberViews(),
      refuseCalls: () => (this.#refusesCalls = true),
      refuseRequests: () => (this.#refusesRequests = true),
      leaveMembership: (left) => this.#membership.leave(reason, left),
    });
    stop.run(budgetMs, this.#halted, () => {
      this.#membership.stop();
      this.#timers.close();
      for (const callback of this.#stopCallbacks.splice(0)) callback(success(undefined));
    });
  }

  #openControlPlane(): ControlPlane | undefined {
    const { streams, log, control } = this.#ports;
    if (control === undefined) return undefined;
    const { clock } = this.#timers;
    const { identity, join: seeds, requestTimeoutMs } = this.#options;
    const controlPlane = new ControlPlane(
      { clock, streams, log, ...control },
      {
        ...{ identity, seeds, options: this.#options, requestTimeoutMs },
        rank: (...args) => this.#rank(...args),
        runningUnitsAt: (node) => this.jobs?.manager?.unitsOn(node) ?? 0,
        reconcile: (done) => this.#reconcile(done),
      },
      () => this.memberViews(),
      {
        emit: (type, fields) => this.#onControlPlaneEvent(type, fields),
        embed: (state) => this.embed('manager', state),
        onLeft: (reason) => this.#hooks.left?.(reason),
        onHalt: (error) => this.#halt(error),
      },
    );
    controlPlane.commands.setAdminHandler((command, done) => handleForwardedAdminCommand(this, command, done));
    const reportHealth = (): void => {
      const own = this.memberViews().find(({ entry }) => entry.id === identity.id);
      controlPlane.healthChanged(this.#stopping ? healthWorst : (own?.health ?? 0));
      clock.schedule(healthReportMs, reportHealth);
    };
    reportHealth();
    return controlPlane;
  }

  /** A node becomes active only after the registry has confirmed which containers it has. */
  #reconcile(done: Done<void>): void {
    if (this.containers === undefined) this.clock.schedule(0, () => done(success(undefined)));
    else this.containers.awaitConfirmed(done);
  }

  /** The preference of the module for the nodes of a recovery, if it is loaded and has one. */
  #rank(pool: string, container: number, candidates: readonly NodeInfo[]): readonly string[] {
    const record = this.containers?.table.pool(pool)?.record;
    if (record === undefined) return [];
    const definition = this.#ports.containers?.modules.get(record.module, record.moduleVersion);
    return definition?.scheduleRecover?.(container, candidates) ?? [];
  }

  #openContainers(control: ControlPlane): ContainerService | undefined {
    const { streams, log, containers, control: controlPorts } = this.#ports;
    if (containers === undefined || controlPorts === undefined) return undefined;
    const { identity } = this;
    return new ContainerService(
      { clock: this.clock, streams, log, random: controlPorts.random.fork('containers'), ...containers },
      {
        ...{ identity, members: this.#index, registry: control.registry, leadership: control.leadership },
        leader: () => control.leader(),
        managers: () => control.candidateManagers(),
        onLeaderHint: (hint) => control.handleLeaderHint(hint),
        embed: (digest) => {
          this.#tableDigest = digest;
        },
        grant: (node, generation, seen) => control.grantServing(node, generation, seen),
        registrationLease: () => control.registration.lease,
      },
      this.#options,
      {
        emit: (type, fields) => void this.#emit(type, fields),
        count: (name) => this.#count(name),
        onHalt: (error) => this.#halt(error),
      },
    );
  }

  #openJobs(control: ControlPlane): JobService | undefined {
    const { streams, jobs, control: controlPorts } = this.#ports;
    if (jobs === undefined || controlPorts === undefined) return undefined;
    const { registry, leadership, registration } = control;
    const members = {
      views: () => this.memberViews(),
      view: (id: NodeId) => this.#index.get(id),
      registrationStatusOf: (id: NodeId) => registration.registrationStatusOf(id),
    };
    return new JobService(
      { clock: this.clock, streams, random: controlPorts.random.fork('jobs'), ...jobs },
      { identity: this.identity, registry, leadership, leader: () => control.leader(), members },
      this.#options,
      { emit: (type, fields) => void this.#emit(type, fields), onHalt: (error) => this.#halt(error) },
    );
  }

  /** A worker publishes its summary to all members. */
  #publishWorkerSummary(): void {
    const { control } = this.#ports;
    if (control === undefined || !this.identity.roles.includes('worker')) return;
    publishWorkerSummary(this.clock, {
      table: () => this.#tableDigest,
      jobs: () => this.jobs?.summary() ?? { coresTotal: 0, coresFree: 0, units: 0, attempts: 0 },
      measure: () => control.measure(),
      embed: (state) => {
        this.#workerSummary = state;
        this.embed('worker', state);
      },
    });
  }

  /** A change of registration or leadership; the mode of this node may have changed. */
  #onControlPlaneEvent(type: string, fields: Readonly<Record<string, unknown>>): void {
    const activate = type === 'node.state' ? activationHint(fields) : undefined;
    this.#emit(type, activate === undefined ? fields : { ...fields, activate });
    const isOwn = fields['id'] === this.identity.id;
    if (activate !== undefined && isOwn) this.#ports.log('warn', lateReturnText(this.#options), { activate });
    if (type !== 'node.state' && type !== 'node.registered') return;
    this.jobs?.modeChanged(this.control?.registration.registrationStatusOf(this.identity.id) === 'active');
  }

  #halt(error: unknown): void {
    this.#halted = true;
    this.#ports.log('error', 'the node has stopped because of an internal error', { error: String(error) });
    this.#hooks.halted?.(error);
  }

  #reports(): MembershipListener {
    return {
      event: (event) => this.#onMemberEvent(event),
      joined: () => {
        this.#joined = true;
        this.#emit('node.joined', { generation: this.identity.generation });
        this.#hooks.joined?.();
      },
      embedded: (embedded) => {
        this.#embedded.set(embedded.id, embedded);
        this.#onEmbeddedState(embedded);
      },
      saveHints: (writes) =>
        this.#ports.store.write(writes, ({ ok }) => {
          if (!ok) this.#count('store.writeFailed');
        }),
      onHalt: (error) => this.#halt(error),
    };
  }

  /** From members of this datacenter only: managers send leader hints, workers the digest of their address table. */
  #onEmbeddedState({ id, parts }: EmbeddedState): void {
    if (this.#index.get(id)?.entry.dc !== this.identity.dc) return;
    for (const { role, state } of parts) {
      if (role === 'manager') this.control?.handleLeaderHint(state);
      const table = role === 'worker' ? decodeWorkerSummary(state)?.table : undefined;
      if (table !== undefined) this.containers?.handleTableDigest(table);
    }
  }

  #onMemberEvent(event: MembershipEvent): void {
    const { type, name, id, generation, incarnation, why, accusers, refusedTo, portIsClosed } = event;
    const evidence = { ...(accusers.length > 0 ? { accusers } : {}), ...(refusedTo.length > 0 ? { refusedTo } : {}) };
    const { seq, time } = this.#emit(type, { member: name, id, generation, incarnation, why, ...evidence });
    this.#history.record(event, time, seq);
    this.#index.invalidate();
    if (type === 'member.dead' || type === 'member.left') this.containers?.memberLost(id);
    if (type === 'member.alive') this.containers?.memberAlive(id);
    // Several members found the port closed, so that process no longer uses its lease.
    if (type === 'member.dead' && portIsClosed) {
      this.control?.memberGone(id, generation);
      this.jobs?.nodeGone(id, generation);
    }
    // Only a node itself announces that it leaves, and only after it has stopped serving: see `stop`.
    if (type === 'member.left') {
      this.control?.memberLeft(id, generation);
      this.jobs?.nodeGone(id, generation);
    }
    this.jobs?.memberChanged();
  }

  #emit(type: string, fields: Readonly<Record<string, unknown>>): { readonly seq: number; readonly time: string } {
    const event = this.events.append(type, fields);
    this.#ports.log(warnings.has(type) ? 'warn' : 'info', type, fields);
    return event;
  }

  #serve(): void {
    this.#ports.streams.serve(
      messageDispatcher({
        count: (name) => this.#count(name),
        refusesRequests: () => this.#refusesRequests,
        refusesCalls: () => this.#refusesCalls,
        members: () => this.memberViews(),
        membership: (from, body, reply) => this.#membership.handleRequest(from, body, reply),
        managePool: (action, spec, done) => handlePoolRequest(this, action, spec, done),
        control: this.control,
        containers: this.containers,
        jobs: this.jobs,
      }),
    );
    this.#ports.streams.watch((change) => this.#count(`connections.${change.kind}`));
  }

  #count(name: string): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1);
  }
}
