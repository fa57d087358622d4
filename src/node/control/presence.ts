/**
 * This node in the registry: its registration, what it holds of what is assigned to it, what it says about its load; and
 * a copy of who else is registered, for showing. It wires these to each other; what they decide is theirs.
 */
import type { Done } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Identity } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { Leadership, LeaseId, Registry } from '../../base/registry.ts';
import { type AssignmentHost, AssignmentsHeldHost } from '../../registry/assignment/assignments-held-host.ts';
import type { LoadReport } from '../../registry/assignment/load-report.ts';
import { reportLoad } from '../../registry/assignment/load-reporter-host.ts';
import { mirror } from '../../registry/mirror.ts';
import { heldHooks } from '../../registry/assignment/registration-hooks.ts';
import { keyRanges } from '../../registry/keys.ts';
import type { RegistrationOptions } from '../../registry/registration/options.ts';
import type { StateRecord } from '../../registry/registration/records.ts';
import { RegistrationHost } from '../../registry/registration/registration-host.ts';
import { Roster, standingOf } from '../../registry/registration/roster.ts';

export type PresencePorts = {
  readonly registry: Registry;
  readonly leadership: Leadership;
  readonly clock: Clock;
  readonly random: Random;
  readonly assignments: AssignmentHost;
  readonly measure: () => Omit<LoadReport, 'serving'>;
};

export type PresenceReports = {
  happened(type: string, fields: Readonly<Record<string, unknown>>): void;
  halted(error: unknown): void;
};

export class Presence {
  readonly #ports: PresencePorts;
  readonly #identity: Identity;
  readonly #reports: PresenceReports;
  readonly #held: AssignmentsHeldHost;
  readonly #registration: RegistrationHost;
  readonly #roster = new Roster();
  readonly #ends: readonly Cancel[];

  constructor(
    ports: PresencePorts,
    settings: { readonly identity: Identity; readonly registration: RegistrationOptions },
    reports: PresenceReports,
  ) {
    this.#ports = ports;
    this.#identity = settings.identity;
    this.#reports = reports;
    this.#held = this.#holdAssignments();
    this.#registration = this.#register(settings.registration);
    this.#ends = [this.#followRoster(), this.#reportLoad()];
  }

  start(): void {
    this.#registration.start();
  }

  /** The process ends and may be back soon: the registration stays until its time is over. */
  stop(): void {
    this.#registration.stop();
    this.#held.stop();
    for (const end of this.#ends) end();
  }

  /** For good. */
  leave(done: Done<void>): void {
    this.#registration.leave(done);
  }

  /** As last heard from the registry; of this node itself, as it knows best. */
  stateOf(id: NodeId): StateRecord | undefined {
    return id === this.#identity.id ? this.#registration.state : this.#roster.get(id)?.state?.record;
  }

  /** For people: the mode, `lost`, or undefined as long as nothing is known. */
  standingOf(id: NodeId): string | undefined {
    if (id === this.#identity.id) return this.#registration.state?.mode;
    const standing = standingOf(this.#roster.get(id));
    return standing === 'unknown' ? undefined : standing;
  }

  /** Under which it is registered, for what is to end with the registration. */
  get lease(): LeaseId | undefined {
    return this.#registration.lease;
  }

  /** May this node act on what is assigned to it, at this moment? */
  mayServe(): boolean {
    return this.#registration.mayServe();
  }

  #holdAssignments(): AssignmentsHeldHost {
    const { registry, clock, assignments: host } = this.#ports;
    return new AssignmentsHeldHost(this.#identity.id, {
      ...{ registry, clock, host },
      tell: ({ kind, ...fields }) => this.#reports.happened(`container.${kind}`, fields),
      halted: (error) => this.#reports.halted(error),
    });
  }

  #register(options: RegistrationOptions): RegistrationHost {
    const { registry, clock, random, leadership } = this.#ports;
    const hooks = heldHooks(this.#held);
    return new RegistrationHost(
      { registry, clock, random: random.fork('registration'), leadership },
      this.#identity,
      options,
      {
        ...hooks,
        event: (event) => {
          const { type, ...fields } = event;
          this.#reports.happened(type, fields);
          hooks.event(event);
        },
        fenced: (error) => this.#reports.halted(error),
        halted: (error) => this.#reports.halted(error),
      },
    );
  }

  #followRoster(): Cancel {
    return mirror(this.#ports.registry, this.#ports.clock, keyRanges.roster, {
      loaded: (entries) => this.#roster.load(entries),
      changed: (changes) => this.#roster.apply(changes),
    });
  }

  #reportLoad(): Cancel {
    const { registry, clock, measure } = this.#ports;
    return reportLoad(this.#identity.id, {
      ...{ registry, clock },
      measure: () => ({ ...measure(), serving: this.#held.held().length }),
      lease: () => this.lease,
    });
  }
}
