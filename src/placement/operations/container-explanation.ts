/** Why a container is at its owner, what it waits for and which nodes could recover it, as sentences. Pure. */
import { type ClusterView, isActive } from '../state/cluster-view.ts';
import { type ContainerLookup, nodeNameIn } from './pool-views.ts';
import type {
  ContainerMove,
  ContainerRecord,
  NodeInstance,
  ActivationReason,
  PoolRecord,
} from '../state/container-records.ts';

export type ContainerExplanation = {
  readonly owner: string | null;
  readonly reasons: readonly string[];
  /** Nodes that could become owner without losing an acknowledged write, if the owner were lost now. */
  readonly recoverableBy: readonly string[];
};

const reasonTexts: Readonly<Record<ActivationReason, string>> = {
  init: 'it is new',
  restart: 'its owner came back and has its state on its own disk',
  recover: 'its former owner was lost or restarted',
  migrate: 'it was moved there',
};

const causeTexts: Readonly<Record<ContainerMove['cause'], string>> = {
  admin: 'an operator requested it',
  drain: 'its owner is being drained',
  rebalance: 'the load is being balanced',
  spread: 'that node joined without containers and gets its share',
  stop: 'its owner is stopping',
};

export function containerExplanation(
  view: ClusterView,
  pool: PoolRecord,
  found: ContainerLookup | undefined,
): ContainerExplanation {
  const record = found?.record;
  if (record === undefined) return { owner: null, reasons: [missing(view, pool, found)], recoverableBy: [] };
  const candidates = recoveryCandidates(view, record);
  const reasons = [
    ...(pool.state === 'deleting' ? ['The pool is being deleted, and this container with it.'] : []),
    ...ownership(view, record),
    ...(record.note === '' ? [] : [`Note: ${record.note}.`]),
    ...moving(view, record),
    ...state(view, pool, record),
    recovery(view, record, candidates),
    ...version(pool, record),
  ];
  const owner = record.owner === undefined ? null : nodeNameIn(view, record.owner.node);
  return { owner, reasons, recoverableBy: candidates.map(({ node }) => nodeNameIn(view, node)) };
}

function missing(view: ClusterView, pool: PoolRecord, found: ContainerLookup | undefined): string {
  if (found !== undefined) return 'Its record in the registry cannot be read, so the leader leaves it alone.';
  if (pool.state === 'deleting') return 'The pool is being deleted, and this container is gone.';
  return view.activeNodes().length === 0
    ? 'The leader has not created it: no worker is active.'
    : 'The leader has not created it yet.';
}

function ownership(view: ClusterView, { owner, phase, opening, failures }: ContainerRecord): readonly string[] {
  if (owner === undefined) return ['It has no owner.'];
  const name = nodeNameIn(view, owner.node);
  const why = `because ${reasonTexts[opening]}`;
  const first =
    phase === 'serving'
      ? `${name} (generation ${owner.generation}) owns it and has opened it, ${why}.`
      : `${name} (generation ${owner.generation}) owns it and is opening it, ${why}; calls wait until it has.`;
  const mode = view.nodes.get(owner.node)?.state?.record?.mode;
  const node = view.nodes.get(owner.node);
  return [
    first,
    ...(failures > 0 ? [`${failures} ${failures === 1 ? 'owner' : 'owners'} in a row could not open it.`] : []),
    ...(node?.registered === undefined ? [`${name} is not registered: it is lost, leaving or cut off.`] : []),
    ...(mode === 'draining' ? [`${name} is being drained, so the container will move.`] : []),
    ...(mode === 'drained' ? [`${name} is drained, and the leader has not moved the container away yet.`] : []),
  ];
}

function moving(view: ClusterView, { move, owner }: ContainerRecord): readonly string[] {
  if (move === undefined) return [];
  const [to, from] = [nodeNameIn(view, move.to), owner === undefined ? 'its owner' : nodeNameIn(view, owner.node)];
  const steps = {
    copying: `${to} is getting its state first, and ${from} keeps serving it`,
    handing: `${from} is finishing its calls before it hands the container over; new calls wait`,
    handed: `${from} has handed it over, and the leader makes ${to} its owner; calls wait`,
  };
  return [`It moves to ${to}, because ${causeTexts[move.cause]}: ${steps[move.step]}.`];
}

function state(view: ClusterView, pool: PoolRecord, { copies, inSync }: ContainerRecord): readonly string[] {
  const names = (ids: readonly NodeInstance['node'][]): string => ids.map((id) => nodeNameIn(view, id)).join(', ');
  const synced = inSync.map(({ node }) => node);
  const behind = copies.filter((id) => !synced.includes(id));
  const free = view.activeNodes().filter(({ id }) => !copies.includes(id)).length;
  const missing = pool.copies - copies.length;
  const whyMissing = free === 0 ? 'no other worker is active' : 'the leader has not chosen another node yet';
  return [
    synced.length === 0
      ? 'No node has its state: no write was acknowledged yet.'
      : `${names(synced)} ${synced.length === 1 ? 'has' : 'have'} every acknowledged write.`,
    // The registry does not know whether a replica runs.
    ...(behind.length === 0
      ? []
      : [`${names(behind)} ${behind.length === 1 ? 'lacks' : 'lack'} some: catching up, or not running.`]),
    ...(missing > 0 ? [`The pool wants ${pool.copies} copies and has ${copies.length}: ${whyMissing}.`] : []),
  ];
}

function recovery(view: ClusterView, record: ContainerRecord, candidates: readonly NodeInstance[]): string {
  const { owner, inSync } = record;
  const names = candidates.map(({ node }) => nodeNameIn(view, node)).join(' or ');
  if (candidates.length > 0 && owner === undefined) return `It waits for the leader to assign it to ${names}.`;
  if (candidates.length > 0)
    return `If ${nodeNameIn(view, owner?.node as NodeInstance['node'])} were lost, ${names} could take over.`;
  const away = inSync.filter(({ node }) => node !== owner?.node).map(({ node }) => nodeNameIn(view, node));
  if (owner === undefined && inSync.length > 0)
    return `It waits for ${away.join(' or ')}: without them acknowledged writes would be lost.`;
  if (owner === undefined) return 'It waits for an active worker.';
  const name = nodeNameIn(view, owner.node);
  return away.length > 0
    ? `If ${name} were lost, it would wait for ${[name, ...away].join(' or ')} to come back.`
    : `No other node has all of its state: if ${name} were lost, it would wait for ${name} to come back.`;
}

function version({ moduleVersion: wanted }: PoolRecord, { moduleVersion }: ContainerRecord): readonly string[] {
  return moduleVersion === wanted
    ? []
    : [`It runs version ${moduleVersion} of the module, and the pool is being rolled to version ${wanted}.`];
}

/** In sync, registered and not the owner; active nodes first, because others own containers only as a last resort. */
function recoveryCandidates(view: ClusterView, { owner, inSync }: ContainerRecord): readonly NodeInstance[] {
  const registered = inSync.filter(({ node }) => {
    return node !== owner?.node && view.nodes.get(node)?.registered !== undefined;
  });
  const active = registered.filter(({ node: id }) => {
    const node = view.nodes.get(id);
    return node !== undefined && isActive(node);
  });
  return [...active, ...registered.filter((instance) => !active.includes(instance))];
}
