/**
 * Properties of pools that are deleted and recreated under the same name. What was written into one is never seen in
 * another, because each lifecycle has its own histories and states.
 */
import type { Property } from '../../checking/workload.ts';

/**
 * Whoever has been told by a node that a pool is there can call it at once through that node, as long as that life of it
 * lasts and nobody deletes the pool, and can delete it through any node: neither is ever refused with UNKNOWN_POOL.
 */
const createdPoolsAreCallable: Property = () => {
  let created = 0;
  return {
    observe(seen) {
      if (seen.kind === 'poolCreated') created += 1;
      if (seen.kind === 'deletionRefused' && seen.code === 'UNKNOWN_POOL')
        return `${seen.pool} cannot be deleted although it was created: ${seen.code}`;
      if (seen.kind !== 'creatorRefused' || seen.code !== 'UNKNOWN_POOL' || seen.isDeleting) return undefined;
      return `${seen.node} refuses ${seen.call} with ${seen.code}, and has told of ${seen.pool}`;
    },
    atEnd: () => (created === 0 ? 'no pool was ever created' : undefined),
  };
};

/** An owner that no longer hears of anything stops with its serving lease of 5 s, whatever its clock. */
const goneMsMax = 5_000;

/**
 * Nobody is told that a write is done which ran in a pool that was gone for longer than a serving lease lasts. Reads are
 * not in it: an owner that hears its leader and cannot write to its disk does not hear that the pool is gone either.
 */
const deletedPoolsAcceptNothing: Property = () => {
  const goneMs = new Map<string, number>();
  return {
    observe(seen) {
      if (seen.kind === 'executed' && seen.isWrite) goneMs.set(seen.call, seen.goneMs);
      const lateMs = seen.kind === 'acknowledged' ? (goneMs.get(seen.call) ?? 0) : 0;
      if (seen.kind !== 'acknowledged' || lateMs <= goneMsMax) return undefined;
      return `${seen.call} is done in ${seen.pool}, which was gone for ${lateMs.toFixed(0)} ms`;
    },
  };
};

/** When all has been well for a while, pools were made again, and each name has one that is to stay. */
const poolsAreRecreated: Property = () => {
  let made = 0;
  let missing: readonly string[] | undefined;
  return {
    observe(seen) {
      if (seen.kind === 'healed') made = 0;
      if (seen.kind === 'poolCreated') made += 1;
      if (seen.kind === 'poolsMissing') missing = seen.names;
      return undefined;
    },
    atEnd() {
      if (missing === undefined) return 'nobody was asked for pools';
      const [name] = missing;
      if (name !== undefined) return `there is no pool ${name} although all is well`;
      return made === 0 ? 'no pool was made since all is well' : undefined;
    },
  };
};

export const recreationProperties = {
  createdIsKnown: createdPoolsAreCallable,
  poolsComeAgain: poolsAreRecreated,
  theGoneTakeNothing: deletedPoolsAcceptNothing,
} as const satisfies Readonly<Record<string, Property>>;
