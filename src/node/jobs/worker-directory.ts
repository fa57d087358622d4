/** Workers of this datacenter from membership and registration, as the job manager needs them. Keeps nothing. */
import type { NodeId } from '../../base/ids.ts';
import type { MemberView } from '../../membership/state/member-view.ts';
import type { WorkerStatus } from '../../jobs/manager/job-manager-host.ts';

export type WorkerDirectorySources = {
  readonly dc: string;
  readonly view: (id: NodeId) => MemberView | undefined;
  readonly standingOf: (id: NodeId) => string | undefined;
};

export function findWorker(seen: WorkerDirectorySources, id: NodeId): WorkerStatus | undefined {
  const view = seen.view(id);
  return view === undefined ? undefined : workerOf(seen, view);
}

function workerOf({ dc, standingOf }: WorkerDirectorySources, view: MemberView): WorkerStatus | undefined {
  const { entry, stuck, health } = view;
  if (entry.dc !== dc || !entry.roles.includes('worker')) return undefined;
  const { id, name, generation, host, port } = entry;
  const standing = standingOf(id);
  const admin = standing === 'active' || standing === 'draining' || standing === 'drained' ? standing : undefined;
  // One probe that was not answered says nothing yet.
  const state = view.state === 'probe-failed' ? 'alive' : view.state;
  return { id, name, generation, address: { host, port }, state, stuck, health, admin };
}
