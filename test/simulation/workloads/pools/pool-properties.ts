/**
 * Properties of containers: one owner, durable writes, exactly-once calls, no mixed state, agreeing tables, everything
 * serves again.
 */
import { errorTable } from '../../../../src/base/error-table.ts';
import type { Property } from '../../checking/workload.ts';
import type { ContainerLabel } from '../../../../src/simulation/cluster/registry-oracle.ts';
import type { CallExecution, TableSnapshot } from '../../checking/pool-observations.ts';
import { stateTagOf } from './cell-module.ts';

/** S8, S10: when a call runs, its node may serve, and nobody else would have run it. */
const oneOwnerEach: Property = () => ({
  observe(seen) {
    if (seen.kind !== 'executed') return undefined;
    const [other] = seen.alsoServedBy;
    const what = `${seen.node} runs ${seen.call} in ${print(seen)}`;
    if (other !== undefined) return `${what} while ${other.node} serves it too`;
    return seen.hasLease ? undefined : `${what} although its lease is over`;
  },
});

type Done = { readonly order: number; readonly fence: bigint; readonly call: string };
/** Of all that were acknowledged under one fence: who ran first, and who ran last. */
type Ends = { readonly first: Done; readonly last: Done };

/** S6: in the order in which they ran, the fences of calls that were acknowledged never fall. */
const fencesAreMonotonic: Property = () => {
  const last = new Map<string, Done>();
  const acknowledged = new Map<string, Map<bigint, Ends>>();
  let count = 0;
  return {
    observe(seen) {
      if (seen.kind === 'executed' && seen.isWrite)
        last.set(`${print(seen)}/${seen.call}`, { order: ++count, fence: seen.fence, call: seen.call });
      if (seen.kind !== 'acknowledged') return undefined;
      const done = last.get(`${print(seen)}/${seen.call}`);
      if (done === undefined) return `${seen.call} was acknowledged by ${print(seen)}, where it never ran`;
      const fences = acknowledged.get(print(seen)) ?? new Map<bigint, Ends>();
      acknowledged.set(print(seen), fences);
      const other = outOfOrder(fences, done);
      fences.set(done.fence, widened(fences.get(done.fence), done));
      if (other === undefined) return undefined;
      return `${print(seen)}: ${done.call} ran under fence ${done.fence}, ${other.call} ${
        other.order < done.order ? 'before' : 'after'
      } it under ${other.fence}`;
    },
  };
};

/** One that ran before it under a higher fence, or after it under a lower one. */
function outOfOrder(fences: ReadonlyMap<bigint, Ends>, { order, fence }: Done): Done | undefined {
  for (const [other, { first, last }] of fences) {
    if (other > fence && first.order < order) return first;
    if (other < fence && last.order > order) return last;
  }
  return undefined;
}

function widened(ends: Ends | undefined, done: Done): Ends {
  if (ends === undefined) return { first: done, last: done };
  return {
    first: done.order < ends.first.order ? done : ends.first,
    last: done.order > ends.last.order ? done : ends.last,
  };
}

/** Whoever is in sync by the registry has every acknowledged write on its disk, at any time. */
const isrHasAllWrites: Property = () => ({
  observe(seen) {
    const [lack] = seen.kind === 'copiesLooked' ? seen.lacks : [];
    if (lack === undefined || seen.kind !== 'copiesLooked') return undefined;
    return `${lack.node} is in sync for ${print(seen)}, but its disk lacks ${lack.call}`;
  },
});

/** S24: a call is done once in the state of a container, and what it wrote is there once. */
const callsExecuteOnce: Property = () => ({
  observe(seen) {
    if (seen.kind === 'executed' && seen.wasExecuted)
      return `${seen.call} runs again in ${print(seen)}, on ${seen.node}`;
    if (seen.kind === 'answeredAgain' && seen.first !== seen.again)
      return `${seen.call} was answered with ${seen.first}, and when it was sent again with ${seen.again}`;
    if (seen.kind !== 'answered') return undefined;
    const values: readonly string[] = seen.saw.match(/<[^<>]*>/g) ?? [];
    const double = values.find((value, at) => values.indexOf(value) !== at);
    return double === undefined ? undefined : `${double} was written twice`;
  },
});

/** S11: in the end each container's state has seen every write that was acknowledged before it was asked. */
const acknowledgedWritesAreDurable: Property = () => {
  const acknowledged = new Map<string, Set<string>>();
  const dumps = new Map<string, ReadonlySet<string>>();
  const deleted = new Set<string>();
  let isOver = false;
  return {
    observe(seen) {
      if (seen.kind === 'dumping') isOver = true;
      if (seen.kind === 'poolDeleted') deleted.add(seen.pool);
      if (seen.kind === 'dumped') dumps.set(print(seen), new Set(seen.done));
      if (seen.kind === 'acknowledged' && !deleted.has(seen.pool) && !isOver) {
        const calls = acknowledged.get(print(seen)) ?? new Set();
        acknowledged.set(print(seen), calls.add(seen.call));
      }
      return undefined;
    },
    atEnd() {
      if (acknowledged.size === 0) return 'nothing was ever acknowledged';
      for (const [container, calls] of acknowledged) {
        if (deleted.has(container.slice(0, container.lastIndexOf('/')))) continue;
        const done = dumps.get(container);
        const lost = [...calls].find((call) => done?.has(call) !== true);
        if (lost !== undefined) return `${lost} was acknowledged by ${container} and is gone`;
      }
      return undefined;
    },
  };
};

/** What was answered with the promise that nothing happened is in no container in the end. */
const refusalsHaveNoEffect: Property = () => {
  const refused = new Set<string>();
  const found = new Map<string, string>();
  return {
    observe(seen) {
      if (seen.kind === 'refused') refused.add(seen.call);
      if (seen.kind === 'dumped') for (const call of seen.done) found.set(call, print(seen));
      return undefined;
    },
    atEnd() {
      const broken = [...refused].find((call) => found.has(call));
      return broken && `nothing was to happen of ${broken}, and ${found.get(broken)} has it`;
    },
  };
};

/** S16: a call meets the state of its own container, and no other. */
const statesAreNotMixed: Property = () => ({
  observe(seen) {
    if (seen.kind !== 'executed' && seen.kind !== 'dumped') return undefined;
    const own = stateTagOf(seen.pool, seen.container);
    return seen.tag === own ? undefined : `${own} has the state of ${seen.tag ?? 'nobody'}`;
  },
});

/** S19: in each opening the module's callback runs before any call, and once. */
const openedBeforeCalled: Property = () => {
  const opened = new Set<string>();
  const called = new Set<string>();
  const keyOf = (seen: Pick<CallExecution, 'pool' | 'container' | 'node' | 'fence'>): string =>
    `${print(seen)} on ${seen.node} under ${seen.fence}`;
  return {
    observe(seen) {
      if (seen.kind === 'executed') called.add(keyOf(seen));
      if (seen.kind !== 'opened') return undefined;
      const key = keyOf(seen);
      if (called.has(key)) return `${key}: ${seen.how} after the first call`;
      opened.add(key);
      return undefined;
    },
    atEnd: () => (opened.size === 0 ? 'nothing was ever opened' : undefined),
  };
};

/** S14: what a table says was in its log before. A pool that is gone needs no log. */
const tablesAreLogged: Property = () => {
  const deleted = new Set<string>();
  return {
    observe(seen) {
      if (seen.kind === 'poolDeleted') deleted.add(seen.pool);
      if (seen.kind !== 'logLooked' || seen.logged >= seen.known || deleted.has(seen.pool)) return undefined;
      return `${seen.node} knew version ${seen.known} of ${print(seen)}, but its log has ${seen.logged}`;
    },
  };
};

/** S13: when all is well, every node has the same table. */
const tablesAgree: Property = () => {
  let tables: readonly TableSnapshot[] = [];
  return {
    observe(seen) {
      if (seen.kind === 'tables') tables = seen.tables;
      return undefined;
    },
    atEnd() {
      const [first] = tables;
      if (first === undefined) return 'nobody has a table';
      const other = tables.find(({ version, hash }) => version !== first.version || hash !== first.hash);
      return (
        other && `${first.node} is at ${first.version} ${first.hash}, ${other.node} at ${other.version} ${other.hash}`
      );
    },
  };
};

/** S21: a pool that was deleted is unknown to everybody in the end, whoever was down meanwhile. */
const deletedStaysDeleted: Property = () => {
  const deleted = new Set<string>();
  const seenIn = new Map<string, readonly string[]>();
  return {
    observe(seen) {
      if (seen.kind === 'poolDeleted') deleted.add(seen.pool);
      if (seen.kind === 'poolsSeen') seenIn.set(seen.node, seen.pools);
      return undefined;
    },
    atEnd() {
      for (const [node, pools] of seenIn) {
        const back = pools.find((pool) => deleted.has(pool));
        if (back !== undefined) return `${node} still knows ${back}, which was deleted`;
      }
      return seenIn.size === 0 ? 'nobody was asked' : undefined;
    },
  };
};

/** L3, L8, L9: when all has been well for a while, every container answers. */
const allContainersServe: Property = () => {
  let dumps = 0;
  return {
    observe(seen) {
      if (seen.kind === 'dumped') dumps += 1;
      if (seen.kind !== 'silent') return undefined;
      return `${print(seen)} does not answer ${seen.by} although all is well: ${seen.why}`;
    },
    atEnd: () => (dumps === 0 ? 'no container was asked' : undefined),
  };
};

/** A call fails only in ways in which sending it again can help. A node that is behind may not know the pool yet. */
const failuresAreTemporary: Property = () => ({
  observe(seen) {
    if (seen.kind !== 'callFailed' || errorTable[seen.code].retryable || seen.code === 'UNKNOWN_POOL') return undefined;
    return `${seen.call} failed for good with ${seen.code}: ${seen.message}`;
  },
});

/** For scenarios in which no node is hurt: no call fails, also not while containers move. */
const everyCallSucceeds: Property = () => {
  let answers = 0;
  return {
    observe(seen) {
      if (seen.kind === 'answered') answers += 1;
      if (seen.kind !== 'callFailed') return undefined;
      return `${seen.call} failed with ${seen.code}: ${seen.message}`;
    },
    atEnd: () => (answers === 0 ? 'no call was answered' : undefined),
  };
};

function print({ pool, container }: ContainerLabel): string {
  return `${pool}/${container}`;
}

export const poolProperties = {
  acknowledgedStays: acknowledgedWritesAreDurable,
  callsAreDoneOnce: callsExecuteOnce,
  deletedStaysDeleted,
  everyCallSucceeds,
  everyContainerServes: allContainersServe,
  failuresAreTemporary,
  fencesNeverFall: fencesAreMonotonic,
  inSyncHasAll: isrHasAllWrites,
  oneOwnerEach,
  openedBeforeCalled,
  refusalsHaveNoEffect,
  statesAreNotMixed,
  tablesAgree,
  tablesAreLogged,
} as const satisfies Readonly<Record<string, Property>>;
