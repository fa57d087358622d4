/**
 * What only the leader does: it notes whose registration is over, and gives what waits for a node to one. Both run on
 * every node that can lead, and act only while it does.
 */
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Leadership, Registry } from '../../base/registry.ts';
import { AssignerHost } from '../../registry/assignment/assigner-host.ts';
import type { RebalanceOptions } from '../../registry/assignment/rebalance-options.ts';
import { ExpiryWorkerHost } from '../../registry/registration/expiry-worker-host.ts';
import type { RegistrationOptions } from '../../registry/registration/options.ts';

export function leadersWork(
  ports: { readonly registry: Registry; readonly leadership: Leadership; readonly clock: Clock },
  options: { readonly registration: RegistrationOptions; readonly rebalance: RebalanceOptions },
  reports: {
    happened(type: string, fields: Readonly<Record<string, unknown>>): void;
    halted(error: unknown): void;
  },
): { readonly assigner: AssignerHost; readonly stop: Cancel } {
  const halted = (error: unknown): void => reports.halted(error);
  const expiry = new ExpiryWorkerHost(ports, options.registration, {
    event: ({ type, ...fields }) => reports.happened(type, fields),
    halted,
  });
  expiry.start();
  const tell = ({ kind, ...fields }: { readonly kind: string }): void =>
    reports.happened(kind === 'assigned' ? 'container.assigned' : `assigner.${kind}`, fields);
  const { rebalance, registration } = options;
  const assigner = new AssignerHost(
    { ...ports, tell, halted },
    { rebalance, regrantDelayMs: registration.regrantDelayMs },
  );
  return {
    assigner,
    stop: () => {
      expiry.stop();
      assigner.stop();
    },
  };
}
