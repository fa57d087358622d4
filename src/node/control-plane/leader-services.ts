/**
 * Services of the leader: expiry of registrations, placement, rebalancing. They run on every manager and act only while
 * the manager leads.
 */
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Leadership, Registry } from '../../base/registry.ts';
import { AssignerHost, type AssignerPorts } from '../../placement/leader/assigner-host.ts';
import type { RebalanceOptions } from '../../placement/balance/rebalance-options.ts';
import { PlacerHost, type PlacerPorts } from '../../placement/leader/placer-host.ts';
import type { PlacerOptions } from '../../placement/leader/placer-types.ts';
import { ExpiryWorkerHost } from '../../registration/expiry-worker-host.ts';
import type { RegistrationOptions } from '../../registration/registration-options.ts';

export type LeaderServices = { readonly assigner: AssignerHost; readonly placer: PlacerHost; readonly stop: Cancel };

export function startLeaderServices(
  ports: {
    readonly registry: Registry;
    readonly leadership: Leadership;
    readonly clock: Clock;
    readonly rank: NonNullable<PlacerPorts['rank']>;
    readonly runningUnitsAt: NonNullable<AssignerPorts['runningUnitsAt']>;
    readonly isGone: NonNullable<AssignerPorts['isGone']>;
  },
  options: {
    readonly registration: RegistrationOptions;
    readonly rebalance: RebalanceOptions;
    readonly placement: Partial<PlacerOptions>;
  },
  reports: {
    emit(type: string, fields: Readonly<Record<string, unknown>>): void;
    onHalt(error: unknown): void;
  },
): LeaderServices {
  const onHalt = (error: unknown): void => reports.onHalt(error);
  const expiry = new ExpiryWorkerHost(ports, options.registration, {
    event: ({ type, ...fields }) => reports.emit(type, fields),
    onHalt,
  });
  expiry.start();
  const emit = ({ kind, ...fields }: { readonly kind: string }): void => reports.emit(eventType(kind), fields);
  const assigner = new AssignerHost({ ...ports, emit, onHalt }, { rebalance: options.rebalance });
  const placer = new PlacerHost(
    { ...ports, emit: ({ kind, ...fields }) => reports.emit(kind, fields), onHalt },
    options.placement,
  );
  return {
    assigner,
    placer,
    stop: () => {
      expiry.stop();
      assigner.stop();
      placer.stop();
    },
  };
}

/** Events about containers already have a prefix. */
function eventType(kind: string): string {
  return kind.includes('.') ? kind : `assigner.${kind}`;
}
