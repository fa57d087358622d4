/**
 * Properties of node workloads: requests end once, views agree, generations are unique, durable data stays. Safety in
 * observe, liveness in atEnd.
 */
import type { PropertyChecker, Observation, Property } from './workload.ts';

/** A timer and the call that it ends may fall into different grains of a drifting clock. */
const lateMsMax = 5;

/** Each request has exactly one ending, inside its deadline. Requests of a process that died died with it. */
export const everyRequestEndsOnce: Property = (stage): PropertyChecker => {
  const open = new Map<number, string>();
  const latestMs = new Map<number, number>();
  const ended = new Set<number>();
  return {
    observe(seen) {
      if (seen.kind === 'requestStarted') {
        open.set(seen.request, seen.node);
        latestMs.set(seen.request, stage.world.timeline.nowMs + seen.timeoutMs + lateMsMax);
      }
      if (seen.kind === 'stopped') forgetAll(open, seen.node);
      if (seen.kind !== 'requestEnded') return undefined;
      if (ended.has(seen.request)) return `request ${seen.request} of ${seen.node} ended again, with ${seen.code}`;
      if (!open.delete(seen.request)) return `request ${seen.request} of ${seen.node} ended after its process did`;
      ended.add(seen.request);
      if (seen.lateMs <= lateMsMax) return undefined;
      return `request ${seen.request} of ${seen.node} ended ${seen.lateMs.toFixed(1)} ms after its deadline`;
    },
    // Nodes ask each other as long as they live: one that was asked just now may be under way.
    atEnd: () => {
      const { nowMs } = stage.world.timeline;
      for (const [request, atMs] of latestMs) if (atMs >= nowMs) open.delete(request);
      return leftover(open, 'request');
    },
  };
};

/** Nobody takes in what another cluster says, or what was meant for somebody else. */
export const noForeignMessages: Property = (stage): PropertyChecker => ({
  observe(seen) {
    if (seen.kind !== 'heard') return undefined;
    const { node, from, claims } = seen;
    if (stage.clusterOf(node) !== stage.clusterOf(from)) return `${node} heard ${from} of another cluster`;
    if (claims !== undefined && claims.from !== from) return `${node} heard ${from}, who says to be ${claims.from}`;
    if (claims !== undefined && claims.to !== node) return `${node} heard what ${from} said to ${claims.to}`;
    return undefined;
  },
});

/** No two lives of a node look alike, whatever was lost between them. */
export const generationsAreUnique: Property = (): PropertyChecker => {
  const highest = new Map<string, number>();
  return {
    observe(seen) {
      if (seen.kind !== 'listens') return undefined;
      const before = highest.get(seen.node) ?? 0;
      highest.set(seen.node, Math.max(before, seen.generation));
      return seen.generation > before ? undefined : `${seen.node} is in generation ${seen.generation} after ${before}`;
    },
  };
};

/** Whatever a peer has heard of a node is on that node's disk when the node is down, whatever took it down. */
export const durableStaysDurable: Property = (stage): PropertyChecker => {
  const announced = new Map<string, number>();
  const lost = (node: string): string | undefined => {
    const [heard, durable] = [announced.get(node) ?? 0, stage.durableValue(node)];
    return heard > durable ? `${node} announced ${heard}, but its disk holds ${durable}` : undefined;
  };
  return {
    observe(seen) {
      if (seen.kind === 'stopped') return lost(seen.node);
      if (seen.kind !== 'announced') return undefined;
      announced.set(seen.node, Math.max(announced.get(seen.node) ?? 0, seen.value));
      return stage.world.isUp(seen.node) ? undefined : lost(seen.node);
    },
    atEnd: () => [...announced.keys()].map(lost).find((text) => text !== undefined),
  };
};

/** When all is well again, each node believes exactly the running nodes of its cluster to be alive. */
export const viewsAgree: Property = (stage): PropertyChecker => ({
  atEnd() {
    const up = stage.world.up();
    const views = stage.aliveViews();
    for (const node of up) {
      const expected = up.filter((other) => stage.clusterOf(other) === stage.clusterOf(node)).toSorted();
      const believed = [...(views.get(node) ?? [])].toSorted();
      if (believed.join() !== expected.join()) {
        return `${node} believes in ${believed.join(' ') || 'nobody'}, but ${expected.join(' ')} are up`;
      }
    }
    return up.length > 0 ? undefined : 'nobody is up';
  },
});

/** What a node has buried stays buried: it comes back under a higher incarnation or in a new life, or not at all. */
export const deadStaysDead: Property = (): PropertyChecker => {
  const buried = new Map<string, readonly [generation: number, incarnation: number]>();
  return {
    observe(seen) {
      if (seen.kind === 'stopped')
        for (const key of [...buried.keys()]) if (key.startsWith(`${seen.node}>`)) buried.delete(key);
      if (seen.kind !== 'believes') return undefined;
      const { node, about, state, generation, incarnation } = seen;
      const key = `${node}>${about}`;
      const [life, last] = buried.get(key) ?? [-1, -1];
      if (state === 'dead' || state === 'left') {
        if (generation > life || (generation === life && incarnation > last))
          buried.set(key, [generation, incarnation]);
        return undefined;
      }
      if (generation > life || (generation === life && incarnation > last)) return undefined;
      return `${node} believes ${about} to be ${state} in ${generation}/${incarnation}, which it had buried`;
    },
  };
};

/** Nobody believes that a running node is dead: for scenarios whose faults kill and part nobody. */
export const noFalseDeaths: Property = (stage): PropertyChecker => ({
  observe(seen) {
    if (seen.kind !== 'believes' || seen.state !== 'dead' || !stage.world.isUp(seen.about)) return undefined;
    return `${seen.node} believes ${seen.about} to be dead, but it runs`;
  },
});

/** A stream that ended well was received whole, and each stream ends once. Those of a dead process died with it. */
export const transfersArriveWhole: Property = (): PropertyChecker => {
  const open = new Map<number, string>();
  return {
    observe(seen) {
      if (seen.kind === 'transferStarted') open.set(seen.transfer, seen.node);
      if (seen.kind === 'stopped') forgetAll(open, seen.node);
      if (seen.kind !== 'transferEnded') return undefined;
      if (!open.delete(seen.transfer)) return `transfer ${seen.transfer} of ${seen.node} ended twice`;
      return seen.ok && !seen.confirmed
        ? `transfer ${seen.transfer} of ${seen.node} ended well, but not whole`
        : undefined;
    },
    atEnd: () => leftover(open, 'transfer'),
  };
};

function forgetAll(open: Map<number, string>, node: string): void {
  for (const [number, owner] of open) if (owner === node) open.delete(number);
}

function leftover(open: ReadonlyMap<number, string>, what: string): string | undefined {
  const [first] = open;
  return first && `${what} ${first[0]} of ${first[1]} has not ended, and ${open.size - 1} more`;
}

/** Work goes on: after healing requests or transfers succeed, or announcements are heard. */
export const workResumes: Property = (): PropertyChecker => {
  let successes = 0;
  return {
    observe(seen) {
      if (seen.kind === 'healed') successes = 0;
      if (isSuccess(seen)) successes += 1;
      return undefined;
    },
    atEnd: () => (successes > 0 ? undefined : 'nothing has succeeded since all is well'),
  };
};

function isSuccess(seen: Observation): boolean {
  if (seen.kind === 'requestEnded') return seen.code === 'OK';
  return seen.kind === 'announced' || (seen.kind === 'transferEnded' && seen.ok);
}
