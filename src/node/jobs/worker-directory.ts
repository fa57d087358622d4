/** Workers of this datacenter from membership and registration, for the job manager. Keeps no state. */
import type { NodeId } from '../../base/ids.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { WorkerStatus } from '../../jobs/manager/job-manager-host.ts';

export type WorkerDirectorySources = {
  readonly dc: string;
  readonly view: (id: NodeId) => MemberView | undefined;
  readonly registrationStatusOf: (id: NodeId) => string | undefined;
};

export function findWorker(sources: WorkerDirectorySources, id: NodeId): WorkerStatus | undefined {
  const view = sources.view(id);
  return view === undefined ? undefined : workerOf(sources, view);
}

function workerOf({ dc, registrationStatusOf }: WorkerDirectorySources, view: MemberView): WorkerStatus | undefined {
  const { entry, stuck, health } = view;
  if (entry.dc !== dc || !entry.roles.includes('worker')) return undefined;
  const { id, name, generation, host, port } = entry;
  const status = registrationStatusOf(id);
  const admin = status === 'active' || status === 'draining' || status === 'drained' ? status : undefined;
  // One failed probe is no evidence yet.
  const state = view.state === 'probe-failed' ? 'alive' : view.state;
  return { id, name, generation, address: { host, port }, state, stuck, health, admin };
}
