/**
 * Properties of node workloads: requests end once, views agree, generations are unique, announced values are durable.
 * Safety is checked in `observe`, liveness in `atEnd`.
 */
import type { PropertyChecker, Observation, Property } from './workload.ts';

/** A timer and its request may be rounded to different ticks of a drifting clock. */
const lateMsMax = 5;

/** Each request ends exactly once, within its deadline. Requests of a process end with the process. */
export const everyRequestEndsOnce: Property = (run): PropertyChecker => {
  const open = new Map<number, string>();
  const latestMs = new Map<number, number>();
  const ended = new Set<number>();
  return {
    observe(event) {
      if (event.kind === 'requestStarted') {
        open.set(event.request, event.node);
        latestMs.set(event.request, run.world.timeline.nowMs + event.timeoutMs + lateMsMax);
      }
      if (event.kind === 'stopped') removeAllOf(open, event.node);
      if (event.kind !== 'requestEnded') return undefined;
      if (ended.has(event.request)) return `request ${event.request} of ${event.node} ended again, with ${event.code}`;
      if (!open.delete(event.request)) return `request ${event.request} of ${event.node} ended after its process did`;
      ended.add(event.request);
      if (event.lateMs <= lateMsMax) return undefined;
      return `request ${event.request} of ${event.node} ended ${event.lateMs.toFixed(1)} ms after its deadline`;
    },
    // Nodes never stop sending requests: one that was sent just now may still be in flight.
    atEnd: () => {
      const { nowMs } = run.world.timeline;
      for (const [request, atMs] of latestMs) if (atMs >= nowMs) open.delete(request);
      return firstOpen(open, 'request');
    },
  };
};

/** No node processes a message of another cluster or one that is addressed to another node. */
export const noForeignMessages: Property = (run): PropertyChecker => ({
  observe(event) {
    if (event.kind !== 'messageReceived') return undefined;
    const { node, from, claims } = event;
    if (run.clusterOf(node) !== run.clusterOf(from)) return `${node} processed a message of ${from} of another cluster`;
    if (claims !== undefined && claims.from !== from)
      return `${node} processed a message of ${from} that names ${claims.from} as its sender`;
    if (claims !== undefined && claims.to !== node) return `${node} processed a message of ${from} to ${claims.to}`;
    return undefined;
  },
});

/** The generation of a node grows with each start, whatever its disk lost between two starts. */
export const generationsAreUnique: Property = (): PropertyChecker => {
  const highest = new Map<string, number>();
  return {
    observe(event) {
      if (event.kind !== 'listening') return undefined;
      const before = highest.get(event.node) ?? 0;
      highest.set(event.node, Math.max(before, event.generation));
      return event.generation > before
        ? undefined
        : `${event.node} starts generation ${event.generation} after ${before}`;
    },
  };
};

/** A value that a peer received from a node is on the disk of that node after any crash. */
export const durableStaysDurable: Property = (run): PropertyChecker => {
  const announced = new Map<string, number>();
  const lost = (node: string): string | undefined => {
    const [value, durable] = [announced.get(node) ?? 0, run.durableValue(node)];
    return value > durable ? `${node} announced ${value}, but its disk holds ${durable}` : undefined;
  };
  return {
    observe(event) {
      if (event.kind === 'stopped') return lost(event.node);
      if (event.kind !== 'announced') return undefined;
      announced.set(event.node, Math.max(announced.get(event.node) ?? 0, event.value));
      return run.world.isUp(event.node) ? undefined : lost(event.node);
    },
    atEnd: () => [...announced.keys()].map(lost).find((text) => text !== undefined),
  };
};

/** After the quiet phase, the alive members in the view of each node are exactly the running nodes of its cluster. */
export const viewsAgree: Property = (run): PropertyChecker => ({
  atEnd() {
    const up = run.world.up();
    const views = run.aliveViews();
    for (const node of up) {
      const expected = up.filter((other) => run.clusterOf(other) === run.clusterOf(node)).toSorted();
      const alive = [...(views.get(node) ?? [])].toSorted();
      if (alive.join() !== expected.join()) {
        return `in the view of ${node}, ${alive.join(' ') || 'no node'} is alive, but ${expected.join(' ')} are up`;
      }
    }
    return up.length > 0 ? undefined : 'no node is up';
  },
});

/** A member that a node declared dead returns with a higher incarnation or generation, or not at all. */
export const deadStaysDead: Property = (): PropertyChecker => {
  const dead = new Map<string, readonly [generation: number, incarnation: number]>();
  return {
    observe(event) {
      if (event.kind === 'stopped')
        for (const key of [...dead.keys()]) if (key.startsWith(`${event.node}>`)) dead.delete(key);
      if (event.kind !== 'memberStateChanged') return undefined;
      const { node, about, state, generation, incarnation } = event;
      const key = `${node}>${about}`;
      const [lastGeneration, lastIncarnation] = dead.get(key) ?? [-1, -1];
      if (state === 'dead' || state === 'left') {
        if (generation > lastGeneration || (generation === lastGeneration && incarnation > lastIncarnation))
          dead.set(key, [generation, incarnation]);
        return undefined;
      }
      if (generation > lastGeneration || (generation === lastGeneration && incarnation > lastIncarnation))
        return undefined;
      return `${node} sees ${about} as ${state} in ${generation}/${incarnation} after it declared that dead`;
    },
  };
};

/** No node declares a running node dead: for scenarios without crashes and partitions. */
export const noFalseDeaths: Property = (run): PropertyChecker => ({
  observe(event) {
    if (event.kind !== 'memberStateChanged' || event.state !== 'dead' || !run.world.isUp(event.about)) return undefined;
    return `${event.node} declares ${event.about} dead, but it runs`;
  },
});

/**
 * A stream that ended with success was received completely, and each stream ends once. Streams of a process end with
 * it.
 */
export const transfersArriveComplete: Property = (): PropertyChecker => {
  const open = new Map<number, string>();
  return {
    observe(event) {
      if (event.kind === 'transferStarted') open.set(event.transfer, event.node);
      if (event.kind === 'stopped') removeAllOf(open, event.node);
      if (event.kind !== 'transferEnded') return undefined;
      if (!open.delete(event.transfer)) return `transfer ${event.transfer} of ${event.node} ended twice`;
      return event.ok && !event.confirmed
        ? `transfer ${event.transfer} of ${event.node} ended with success, but is incomplete`
        : undefined;
    },
    atEnd: () => firstOpen(open, 'transfer'),
  };
};

function removeAllOf(open: Map<number, string>, node: string): void {
  for (const [number, owner] of open) if (owner === node) open.delete(number);
}

function firstOpen(open: ReadonlyMap<number, string>, what: string): string | undefined {
  const [first] = open;
  return first && `${what} ${first[0]} of ${first[1]} has not ended, and ${open.size - 1} more`;
}

/** Work resumes: after healing, requests or transfers succeed, or announcements are received. */
export const workResumes: Property = (): PropertyChecker => {
  let successes = 0;
  return {
    observe(event) {
      if (event.kind === 'healed') successes = 0;
      if (isSuccess(event)) successes += 1;
      return undefined;
    },
    atEnd: () => (successes > 0 ? undefined : 'nothing has succeeded since healing'),
  };
};

function isSuccess(event: Observation): boolean {
  if (event.kind === 'requestEnded') return event.code === 'OK';
  return event.kind === 'announced' || (event.kind === 'transferEnded' && event.ok);
}
