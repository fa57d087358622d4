/**
 * Properties of pools that are deleted and recreated under the same name. Each lifecycle has its own histories and
 * states, so a write into one that is read in another is a violation.
 */
import type { Property } from '../../checking/workload.ts';

/**
 * A pool is callable through the node that created it as soon as create returns, until that node restarts or the pool
 * is deleted, and any node can delete it: neither is ever refused with UNKNOWN_POOL.
 */
const createdPoolsAreCallable: Property = () => {
  let created = 0;
  return {
    observe(event) {
      if (event.kind === 'poolCreated') created += 1;
      if (event.kind === 'deletionRefused' && event.code === 'UNKNOWN_POOL')
        return `${event.pool} cannot be deleted although it was created: ${event.code}`;
      if (event.kind !== 'creatorRefused' || event.code !== 'UNKNOWN_POOL' || event.isDeleting) return undefined;
      return `${event.node} refuses ${event.call} with ${event.code}, but it created ${event.pool}`;
    },
    atEnd: () => (created === 0 ? 'no pool was ever created' : undefined),
  };
};

/** An isolated owner stops with its serving lease, at most 5 s later with any drift of its clock. */
const goneMsMax = 5_000;

/**
 * No write is acknowledged that ran in a pool deleted longer ago than a serving lease lasts. Reads do not count: an
 * owner with a lease whose disk is full does not learn of the deletion.
 */
const deletedPoolsAcceptNothing: Property = () => {
  const goneMs = new Map<string, number>();
  return {
    observe(event) {
      if (event.kind === 'executed' && event.isWrite) goneMs.set(event.call, event.goneMs);
      const lateMs = event.kind === 'acknowledged' ? (goneMs.get(event.call) ?? 0) : 0;
      if (event.kind !== 'acknowledged' || lateMs <= goneMsMax) return undefined;
      return `${event.call} ran in ${event.pool}, which had been deleted for ${lateMs.toFixed(0)} ms`;
    },
  };
};

/** After healing pools are recreated, and at the end each name has one. */
const poolsAreRecreated: Property = () => {
  let created = 0;
  let missing: readonly string[] | undefined;
  return {
    observe(event) {
      if (event.kind === 'healed') created = 0;
      if (event.kind === 'poolCreated') created += 1;
      if (event.kind === 'poolsMissing') missing = event.names;
      return undefined;
    },
    atEnd() {
      if (missing === undefined) return 'no pool was read at the end';
      const [name] = missing;
      if (name !== undefined) return `there is no pool ${name} after the quiet phase`;
      return created === 0 ? 'no pool was created since healing' : undefined;
    },
  };
};

export const recreationProperties = {
  createdPoolsAreCallable,
  poolsAreRecreated,
  deletedPoolsAcceptNothing,
} as const satisfies Readonly<Record<string, Property>>;
