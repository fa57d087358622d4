/**
 * Properties of containers: one owner, durable writes, exactly-once calls, isolated states, equal address tables, and
 * every container serves after healing.
 */
import { errorTable } from '../../../../src/base/error-table.ts';
import type { Property } from '../../checking/workload.ts';
import type { ContainerLabel } from '../../../../src/simulation/cluster/registry-oracle.ts';
import type { CallExecution, TableSnapshot } from '../../checking/pool-observations.ts';
import { stateTagOf } from './cell-module.ts';

/** S8, S10: when a call runs, its node has a serving lease and no other node serves the container. */
const oneOwnerPerContainer: Property = () => ({
  observe(event) {
    if (event.kind !== 'executed') return undefined;
    const [other] = event.alsoServedBy;
    const what = `${event.node} runs ${event.call} in ${containerName(event)}`;
    if (other !== undefined) return `${what} while ${other.node} serves it too`;
    return event.hasLease ? undefined : `${what} although its lease has expired`;
  },
});

type AcknowledgedWrite = { readonly order: number; readonly fence: bigint; readonly call: string };
/** Of all writes acknowledged under one fence: the one that ran first and the one that ran last. */
type FirstAndLast = { readonly first: AcknowledgedWrite; readonly last: AcknowledgedWrite };

/** S6: in the order of execution, the fences of acknowledged writes never decrease. */
const fencesAreMonotonic: Property = () => {
  const last = new Map<string, AcknowledgedWrite>();
  const acknowledged = new Map<string, Map<bigint, FirstAndLast>>();
  let count = 0;
  return {
    observe(event) {
      if (event.kind === 'executed' && event.isWrite)
        last.set(`${containerName(event)}/${event.call}`, { order: ++count, fence: event.fence, call: event.call });
      if (event.kind !== 'acknowledged') return undefined;
      const done = last.get(`${containerName(event)}/${event.call}`);
      if (done === undefined) return `${event.call} was acknowledged by ${containerName(event)}, where it never ran`;
      const fences = acknowledged.get(containerName(event)) ?? new Map<bigint, FirstAndLast>();
      acknowledged.set(containerName(event), fences);
      const other = outOfOrder(fences, done);
      fences.set(done.fence, widened(fences.get(done.fence), done));
      if (other === undefined) return undefined;
      return `${containerName(event)}: ${done.call} ran under fence ${done.fence}, ${other.call} ${
        other.order < done.order ? 'before' : 'after'
      } it under ${other.fence}`;
    },
  };
};

/** A write that ran before this one under a higher fence, or after it under a lower one. */
function outOfOrder(
  fences: ReadonlyMap<bigint, FirstAndLast>,
  { order, fence }: AcknowledgedWrite,
): AcknowledgedWrite | undefined {
  for (const [other, { first, last }] of fences) {
    if (other > fence && first.order < order) return first;
    if (other < fence && last.order > order) return last;
  }
  return undefined;
}

function widened(ends: FirstAndLast | undefined, done: AcknowledgedWrite): FirstAndLast {
  if (ends === undefined) return { first: done, last: done };
  return {
    first: done.order < ends.first.order ? done : ends.first,
    last: done.order > ends.last.order ? done : ends.last,
  };
}

/** Every replica in the ISR of the registry has every acknowledged write on its disk, at any time. */
const isrHasAllWrites: Property = () => ({
  observe(event) {
    const [missing] = event.kind === 'replicasRead' ? event.missing : [];
    if (missing === undefined || event.kind !== 'replicasRead') return undefined;
    return `${missing.node} is in sync for ${containerName(event)}, but its disk lacks ${missing.call}`;
  },
});

/** S24: a call takes effect once in the state of a container, and a retry gets the same reply. */
const callsExecuteOnce: Property = () => ({
  observe(event) {
    if (event.kind === 'executed' && event.wasExecuted)
      return `${event.call} runs again in ${containerName(event)}, on ${event.node}`;
    if (event.kind === 'repliedAgain' && event.first !== event.second)
      return `the reply to ${event.call} is ${event.first}, and to its retry ${event.second}`;
    if (event.kind !== 'replied') return undefined;
    const values: readonly string[] = event.returned.match(/<[^<>]*>/g) ?? [];
    const double = values.find((value, at) => values.indexOf(value) !== at);
    return double === undefined ? undefined : `${double} was written twice`;
  },
});

/** S11: at the end the state of each container has every write that was acknowledged before the final read. */
const acknowledgedWritesAreDurable: Property = () => {
  const acknowledged = new Map<string, Set<string>>();
  const dumps = new Map<string, ReadonlySet<string>>();
  const deleted = new Set<string>();
  let isFinal = false;
  return {
    observe(event) {
      if (event.kind === 'dumpStarted') isFinal = true;
      if (event.kind === 'poolDeleted') deleted.add(event.pool);
      if (event.kind === 'dumped') dumps.set(containerName(event), new Set(event.done));
      if (event.kind === 'acknowledged' && !deleted.has(event.pool) && !isFinal) {
        const calls = acknowledged.get(containerName(event)) ?? new Set();
        acknowledged.set(containerName(event), calls.add(event.call));
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

/** A call that ended with `stateChanged: 'no'` is in no container at the end. */
const refusalsHaveNoEffect: Property = () => {
  const refused = new Set<string>();
  const found = new Map<string, string>();
  return {
    observe(event) {
      if (event.kind === 'callRefused') refused.add(event.call);
      if (event.kind === 'dumped') for (const call of event.done) found.set(call, containerName(event));
      return undefined;
    },
    atEnd() {
      const broken = [...refused].find((call) => found.has(call));
      return broken && `${broken} was refused, but ${found.get(broken)} has it`;
    },
  };
};

/** S16: a call runs on the state of its own container, and no other. */
const statesAreIsolated: Property = () => ({
  observe(event) {
    if (event.kind !== 'executed' && event.kind !== 'dumped') return undefined;
    const own = stateTagOf(event.pool, event.container);
    return event.tag === own ? undefined : `${own} has the state of ${event.tag ?? 'no container'}`;
  },
});

/** S19: in each activation the open callback of the module runs before any call, and once. */
const openedBeforeCalled: Property = () => {
  const opened = new Set<string>();
  const called = new Set<string>();
  const keyOf = (event: Pick<CallExecution, 'pool' | 'container' | 'node' | 'fence'>): string =>
    `${containerName(event)} on ${event.node} under ${event.fence}`;
  return {
    observe(event) {
      if (event.kind === 'executed') called.add(keyOf(event));
      if (event.kind !== 'opened') return undefined;
      const key = keyOf(event);
      if (called.has(key)) return `${key}: ${event.opening} after the first call`;
      opened.add(key);
      return undefined;
    },
    atEnd: () => (opened.size === 0 ? 'nothing was ever opened' : undefined),
  };
};

/** S14: what an address table knows is in its log. A deleted pool needs no log. */
const tablesAreLogged: Property = () => {
  const deleted = new Set<string>();
  return {
    observe(event) {
      if (event.kind === 'poolDeleted') deleted.add(event.pool);
      if (event.kind !== 'tableLogRead' || event.logged >= event.known || deleted.has(event.pool)) return undefined;
      return `${event.node} knew version ${event.known} of ${containerName(event)}, but its log has ${event.logged}`;
    },
  };
};

/** S13: after the quiet phase every node has the same address table. */
const tablesAgree: Property = () => {
  let tables: readonly TableSnapshot[] = [];
  return {
    observe(event) {
      if (event.kind === 'tables') tables = event.tables;
      return undefined;
    },
    atEnd() {
      const [first] = tables;
      if (first === undefined) return 'no node has a table';
      const other = tables.find(({ version, hash }) => version !== first.version || hash !== first.hash);
      return (
        other && `${first.node} is at ${first.version} ${first.hash}, ${other.node} at ${other.version} ${other.hash}`
      );
    },
  };
};

/** S21: at the end no node knows a deleted pool, also if it was down during the deletion. */
const deletedStaysDeleted: Property = () => {
  const deleted = new Set<string>();
  const poolsByNode = new Map<string, readonly string[]>();
  return {
    observe(event) {
      if (event.kind === 'poolDeleted') deleted.add(event.pool);
      if (event.kind === 'poolsRead') poolsByNode.set(event.node, event.pools);
      return undefined;
    },
    atEnd() {
      for (const [node, pools] of poolsByNode) {
        const back = pools.find((pool) => deleted.has(pool));
        if (back !== undefined) return `${node} still knows ${back}, which was deleted`;
      }
      return poolsByNode.size === 0 ? 'no pools were read' : undefined;
    },
  };
};

/** L3, L8, L9: after the quiet phase every container replies. */
const allContainersServe: Property = () => {
  let dumps = 0;
  return {
    observe(event) {
      if (event.kind === 'dumped') dumps += 1;
      if (event.kind !== 'containerUnreachable') return undefined;
      return `${containerName(event)} does not reply to ${event.by} after the quiet phase: ${event.reason}`;
    },
    atEnd: () => (dumps === 0 ? 'no container was read' : undefined),
  };
};

/**
 * Every error of a call is retryable. UNKNOWN_POOL counts as such: a node whose table lags may not know the pool yet.
 */
const failuresAreRetryable: Property = () => ({
  observe(event) {
    if (event.kind !== 'callFailed' || errorTable[event.code].retryable || event.code === 'UNKNOWN_POOL')
      return undefined;
    return `${event.call} failed permanently with ${event.code}: ${event.message}`;
  },
});

/** For scenarios without crashes and partitions: no call fails, not even while containers move. */
const everyCallSucceeds: Property = () => {
  let replies = 0;
  return {
    observe(event) {
      if (event.kind === 'replied') replies += 1;
      if (event.kind !== 'callFailed') return undefined;
      return `${event.call} failed with ${event.code}: ${event.message}`;
    },
    atEnd: () => (replies === 0 ? 'no call got a reply' : undefined),
  };
};

/** A node that stops in order hands its containers over before it says goodbye. */
const stopsHandOver: Property = () => {
  let owned = 0;
  return {
    observe(event) {
      if (event.kind !== 'nodeStopped') return undefined;
      owned += event.owned;
      const [kept] = event.kept;
      return kept && `${event.node} stopped in order and did not hand ${containerName(kept)} over`;
    },
    atEnd: () => (owned === 0 ? 'no node that stopped owned a container' : undefined),
  };
};

function containerName({ pool, container }: ContainerLabel): string {
  return `${pool}/${container}`;
}

export const poolProperties = {
  acknowledgedWritesAreDurable,
  callsExecuteOnce,
  deletedStaysDeleted,
  everyCallSucceeds,
  allContainersServe,
  failuresAreRetryable,
  fencesAreMonotonic,
  isrHasAllWrites,
  oneOwnerPerContainer,
  openedBeforeCalled,
  refusalsHaveNoEffect,
  statesAreIsolated,
  stopsHandOver,
  tablesAgree,
  tablesAreLogged,
} as const satisfies Readonly<Record<string, Property>>;
