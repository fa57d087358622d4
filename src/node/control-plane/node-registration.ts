/**
 * This node in the registry: registration, load report, and a directory of the other registrations. Wires them; decides
 * nothing.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Identity } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeaseId, Registry, RegistryChange } from '../../base/registry.ts';
import type { LoadReport } from '../../placement/state/load-report.ts';
import { startLoadReporter } from '../../placement/balance/load-reporter.ts';
import { startInformer } from '../../registry/informer.ts';
import { keyRanges, parseClusterKey } from '../../registry/cluster-keys.ts';
import { isLateReturn } from '../../registration/node-modes.ts';
import type { RegistrationOptions } from '../../registration/registration-options.ts';
import { type NodeStateRecord, readNodeState } from '../../registration/registration-records.ts';
import { RegistrationHost } from '../../registration/registration-host.ts';
import { NodeDirectory, registrationStatus } from '../../registration/node-directory.ts';

export type NodeRegistrationPorts = {
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly random: Random;
  /** Ends when this node knows by the registry which containers it has. */
  readonly reconcile: (done: Done<void>) => void;
  readonly measure: () => LoadReport;
};

export type NodeRegistrationReports = {
  happened(type: string, fields: Readonly<Record<string, unknown>>): void;
  halted(error: unknown): void;
};

export class NodeRegistration {
  readonly #ports: NodeRegistrationPorts;
  readonly #identity: Identity;
  readonly #reports: NodeRegistrationReports;
  readonly #registration: RegistrationHost;
  readonly #roster = new NodeDirectory();
  readonly #ends: readonly Cancel[];

  constructor(
    ports: NodeRegistrationPorts,
    settings: { readonly identity: Identity; readonly registration: RegistrationOptions },
    reports: NodeRegistrationReports,
  ) {
    this.#ports = ports;
    this.#identity = settings.identity;
    this.#reports = reports;
    this.#registration = this.#register(settings.registration);
    this.#ends = [this.#followRoster(), this.#reportLoad()];
  }

  start(): void {
    this.#registration.start();
  }

  /** The process ends and may be back soon: the registration stays until its time is over. */
  stop(): void {
    this.#registration.stop();
    for (const end of this.#ends) end();
  }

  /** For good. */
  leave(done: Done<void>): void {
    this.#registration.leave(done);
  }

  /** As last heard from the registry; of this node itself, as it knows best. */
  stateOf(id: NodeId): NodeStateRecord | undefined {
    return id === this.#identity.id ? this.#registration.state : this.#roster.get(id)?.state?.record;
  }

  /** For people: the mode, `lost`, or undefined as long as nothing is known. */
  registrationStatusOf(id: NodeId): string | undefined {
    if (id === this.#identity.id) return this.#registration.state?.mode;
    const standing = registrationStatus(this.#roster.get(id));
    return standing === 'unknown' ? undefined : standing;
  }

  /** Under which it is registered, for what is to end with the registration. */
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
        event: ({ type, ...fields }) => this.#reports.happened(type, fields),
        fenced: (error) => this.#reports.halted(error),
        onHalt: (error) => this.#reports.halted(error),
      },
    );
  }

  #followRoster(): Cancel {
    return startInformer(this.#ports.registry, this.#ports.clock, keyRanges.roster, {
      loaded: (entries) => this.#roster.load(entries),
      changed: (changes) => {
        for (const change of changes) this.#noteLateReturn(change);
        this.#roster.apply(changes);
      },
    });
  }

  /** Another node is drained for returning too late: its own events say so, and those of all others. */
  #noteLateReturn(change: RegistryChange): void {
    const key = change.kind === 'put' ? parseClusterKey(change.entry.key) : undefined;
    if (change.kind !== 'put' || key?.kind !== 'state' || key.node === this.#identity.id) return;
    const state = readNodeState(change.entry.value);
    const wasDrained = this.#roster.get(key.node)?.state?.record?.mode === 'drained';
    if (state?.mode !== 'drained' || wasDrained || !isLateReturn(state.reason)) return;
    this.#reports.happened('node.state', { node: key.node, mode: state.mode, reason: state.reason });
  }

  #reportLoad(): Cancel {
    const { registry, clock, measure } = this.#ports;
    return startLoadReporter(this.#identity.id, { registry, clock, measure, lease: () => this.lease });
  }
}
