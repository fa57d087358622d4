/**
 * The registration of this node, its load report, and a directory of the other registrations. Wires them; decides
 * nothing.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Identity } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeaseId, Registry, RegistryChange } from '../../base/registry.ts';
import type { LoadReport } from '../../placement/state/load-report.ts';
import { startLoadReporter } from '../../placement/balance/load-reporter.ts';
import { startInformer } from '../../registry/informer.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../../registry/cluster-keys.ts';
import { isLateReturn } from '../../registration/node-modes.ts';
import type { RegistrationOptions } from '../../registration/registration-options.ts';
import { type NodeStateRecord, encodeStopping, readNodeState } from '../../registration/registration-records.ts';
import { RegistrationHost } from '../../registration/registration-host.ts';
import { NodeDirectory, isStopping, registrationStatus } from '../../registration/node-directory.ts';

export type NodeRegistrationPorts = {
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly random: Random;
  /** Ends when the registry has confirmed which containers this node has. */
  readonly reconcile: (done: Done<void>) => void;
  readonly measure: () => LoadReport;
};

export type NodeRegistrationReports = {
  emit(type: string, fields: Readonly<Record<string, unknown>>): void;
  onHalt(error: unknown): void;
};

export class NodeRegistration {
  readonly #ports: NodeRegistrationPorts;
  readonly #identity: Identity;
  readonly #reports: NodeRegistrationReports;
  readonly #registration: RegistrationHost;
  readonly #directory = new NodeDirectory();
  readonly #cancels: readonly Cancel[];

  constructor(
    ports: NodeRegistrationPorts,
    settings: { readonly identity: Identity; readonly registration: RegistrationOptions },
    reports: NodeRegistrationReports,
  ) {
    this.#ports = ports;
    this.#identity = settings.identity;
    this.#reports = reports;
    this.#registration = this.#register(settings.registration);
    this.#cancels = [this.#followDirectory(), this.#reportLoad()];
  }

  start(): void {
    this.#registration.start();
  }

  /** The process ends and may restart soon: the registration stays until its lease expires. */
  stop(): void {
    this.#registration.stop();
    for (const cancel of this.#cancels) cancel();
  }

  /**
   * Marks this process as stopping, so that the leader hands its containers over and gives it no others. The mark ends
   * with the lease of this registration: the mode of the node does not change.
   */
  announceStop(timeoutMs: number, done: Done<void>): void {
    const { registry, clock } = this.#ports;
    const { id: node, generation } = this.#identity;
    const { lease } = this;
    if (lease === undefined)
      return void clock.schedule(0, () => done(failure('PRECONDITION', 'the node is not registered', 'no')));
    const key = clusterKey({ kind: 'stopping', node });
    const mark = { kind: 'put', key, value: encodeStopping({ generation }), lease } as const;
    registry.transact({ compare: [], then: [mark], otherwise: [] }, { timeoutMs }, (outcome) => {
      done(outcome.ok ? success(undefined) : outcome);
    });
  }

  /** The node is registered and has not announced its stop. */
  isStaying(id: NodeId): boolean {
    const node = this.#directory.get(id);
    return node?.registration !== undefined && !isStopping(node);
  }

  /** Removes the registration for good. */
  leave(done: Done<void>): void {
    this.#registration.leave(done);
  }

  /** The last state in the registry; of this node its own state. */
  stateOf(id: NodeId): NodeStateRecord | undefined {
    return id === this.#identity.id ? this.#registration.state : this.#directory.get(id)?.state?.record;
  }

  /** For operators: the mode, `lost`, or undefined if unknown. */
  registrationStatusOf(id: NodeId): string | undefined {
    if (id === this.#identity.id) return this.#registration.state?.mode;
    const status = registrationStatus(this.#directory.get(id));
    return status === 'unknown' ? undefined : status;
  }

  /** The lease of the registration, for other keys that end with it. */
  get lease(): LeaseId | undefined {
    return this.#registration.lease;
  }

  #register(options: RegistrationOptions): RegistrationHost {
    const { registry, clock, random, leadership, reconcile } = this.#ports;
    return new RegistrationHost(
      { registry, clock, random: random.fork('registration'), leadership },
      this.#identity,
      options,
      {
        reconcile,
        event: ({ type, ...fields }) => this.#reports.emit(type, fields),
        fenced: (error) => this.#reports.onHalt(error),
        onHalt: (error) => this.#reports.onHalt(error),
      },
    );
  }

  #followDirectory(): Cancel {
    return startInformer(this.#ports.registry, this.#ports.clock, keyRanges.nodeDirectory, {
      loaded: (entries) => this.#directory.load(entries),
      changed: (changes) => {
        for (const change of changes) this.#emitLateReturn(change);
        this.#directory.apply(changes);
      },
    });
  }

  /**
   * The late return of another node becomes an event of this node too, so that it shows in the events of every node.
   */
  #emitLateReturn(change: RegistryChange): void {
    const key = change.kind === 'put' ? parseClusterKey(change.entry.key) : undefined;
    if (change.kind !== 'put' || key?.kind !== 'state' || key.node === this.#identity.id) return;
    const state = readNodeState(change.entry.value);
    const wasDrained = this.#directory.get(key.node)?.state?.record?.mode === 'drained';
    if (state?.mode !== 'drained' || wasDrained || !isLateReturn(state.reason)) return;
    this.#reports.emit('node.state', { node: key.node, mode: state.mode, reason: state.reason });
  }

  #reportLoad(): Cancel {
    const { registry, clock, measure } = this.#ports;
    return startLoadReporter(this.#identity.id, { registry, clock, measure, lease: () => this.lease });
  }
}
