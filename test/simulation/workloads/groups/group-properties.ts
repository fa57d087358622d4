/**
 * Raft safety and liveness properties: one leader per term, one vote, majority commits, disjoint leases, growing
 * fences, convergence.
 */
import { fenceParts } from '../../../../src/base/fence.ts';
import type { Property } from '../../checking/workload.ts';
import type { GroupNodeStatus } from '../../checking/group-observations.ts';

/** S1: a term has one leader at most. */
const oneLeaderPerTerm: Property = () => {
  const leaders = new Map<number, string>();
  return {
    observe(seen) {
      if (seen.kind !== 'leads') return undefined;
      const first = leaders.get(seen.term) ?? seen.node;
      leaders.set(seen.term, first);
      return first === seen.node ? undefined : `${first} and ${seen.node} lead in term ${seen.term}`;
    },
  };
};

/** S2: what a node has told of its term holds for all its lives. */
const termsNeverGoBack: Property = () => {
  const highest = new Map<string, number>();
  return {
    observe(seen) {
      if (seen.kind !== 'toldTerm') return undefined;
      const before = highest.get(seen.node) ?? 0;
      highest.set(seen.node, seen.term);
      return seen.term >= before ? undefined : `${seen.node} is in term ${seen.term} after ${before}`;
    },
  };
};

/** S3: a voter gives one vote in a term, whatever befalls it between. Who leads has voted for itself. */
const oneVotePerTerm: Property = () => {
  const votes = new Map<string, string>();
  const vote = (voter: string, term: number, candidate: string): string | undefined => {
    const key = `${voter}/${term}`;
    const first = votes.get(key) ?? candidate;
    votes.set(key, first);
    return first === candidate ? undefined : `${voter} votes for ${first} and for ${candidate} in term ${term}`;
  };
  return {
    observe(seen) {
      if (seen.kind === 'voted') return vote(seen.node, seen.term, seen.candidate);
      return seen.kind === 'leads' ? vote(seen.node, seen.term, seen.node) : undefined;
    },
  };
};

/** S4: nobody leads without the votes of a majority of the configured voters, its own included. */
const leadersHaveAMajority: Property = () => {
  const votes = new Map<string, Set<string>>();
  return {
    observe(seen) {
      if (seen.kind === 'voted') {
        const key = `${seen.candidate}/${seen.term}`;
        votes.set(key, (votes.get(key) ?? new Set()).add(seen.node));
      }
      if (seen.kind !== 'leads') return undefined;
      const { node, term, voters } = seen;
      const given = votes.get(`${node}/${term}`) ?? new Set<string>();
      const count = voters.filter((voter) => voter === node || given.has(voter)).length;
      if (isMajority(count, voters)) return undefined;
      return `${node} leads in term ${term} with ${count} votes of ${voters.length} voters`;
    },
  };
};

/**
 * S4: a leader regards nothing as agreed that a majority of the configured voters has not said to hold, counts itself
 * only with what is on its disk, and counts only entries of its own term: an older one may still be replaced, however many hold it.
 */
const commitsHaveAMajority: Property = () => {
  const held = new Map<string, number>();
  const terms = new Map<number, number>();
  return {
    observe(seen) {
      if (seen.kind === 'applied') terms.set(seen.index, seen.term);
      if (seen.kind === 'holds') {
        const key = `${seen.node}/${seen.term}`;
        held.set(key, Math.max(held.get(key) ?? 0, seen.index));
      }
      if (seen.kind !== 'commits') return undefined;
      const { node, term, index, voters, isDurable } = seen;
      const holds = (voter: string): boolean =>
        voter === node ? isDurable : (held.get(`${voter}/${term}`) ?? 0) >= index;
      const count = voters.filter(holds).length;
      const text = `${node} regards ${index} as agreed in term ${term}`;
      if (!isMajority(count, voters)) return `${text}, but ${count} of ${voters.length} voters hold it`;
      return (terms.get(index) ?? term) === term
        ? undefined
        : `${text}, but it is an entry of term ${terms.get(index)}`;
    },
  };
};

function isMajority(count: number, voters: readonly string[]): boolean {
  return count > voters.length / 2;
}

/** At no instant of the world do two nodes rely on a lease. */
const leasesNeverOverlap: Property = () => ({
  observe(seen) {
    if (seen.kind !== 'leases' || seen.nodes.length < 2) return undefined;
    return `${seen.nodes.join(' and ')} rely on their leases at the same time`;
  },
});

/** Each leader has a higher fence than all before it, and an agreed entry carries its own place. */
const fencesGrow: Property = () => {
  let highest = 0n;
  const terms = new Map<number, number>();
  return {
    observe(seen) {
      if (seen.kind === 'applied') terms.set(seen.index, seen.term);
      if (seen.kind === 'became') {
        const [before, after] = [highest, seen.fence];
        highest = after;
        return after > before ? undefined : `${seen.node} became leader under the fence ${after} after ${before}`;
      }
      if (seen.kind !== 'agreed') return undefined;
      const { term, index } = fenceParts(seen.fence);
      if (index === seen.index && term === terms.get(index)) return undefined;
      return `entry ${seen.index} of term ${terms.get(seen.index)} was agreed under the fence ${term}/${index}`;
    },
  };
};

/**
 * What one node has applied at an index is what every node applies there, in every life and behind every snapshot; the
 * chain says the same of everything before. No node applies an index twice in a life.
 */
const committedStaysCommitted: Property = () => {
  const agreed = new Map<number, number>();
  const last = new Map<string, number>();
  let highest = 0;
  return {
    observe(seen) {
      if (seen.kind === 'stopped') last.delete(seen.node);
      if (seen.kind !== 'applied' && seen.kind !== 'restored') return undefined;
      const { node, index, chain } = seen;
      const before = last.get(node) ?? 0;
      last.set(node, index);
      if (seen.kind === 'applied' && index <= before) return `${node} applies ${index} after ${before}`;
      if (seen.kind === 'restored' && index < before) return `${node} goes back to ${index} from ${before}`;
      if (index === 0) return undefined;
      const known = agreed.get(index);
      if (known === undefined && index < highest) return `${node} has ${index}, where others have nothing`;
      agreed.set(index, known ?? chain);
      highest = Math.max(highest, index);
      return known === undefined || known === chain ? undefined : `${node} has another history up to ${index}`;
    },
  };
};

type Change = { readonly rivals: readonly number[]; open: boolean; made: boolean };

/** S37: of two changes that are open at a node at the same time one is not made. */
const oneChangeAtATime: Property = () => {
  /** For each node its changes: those that were open when they began, and whether they were made. */
  const changes = new Map<string, Map<number, Change>>();
  return {
    observe(seen) {
      if (seen.kind === 'stopped') changes.delete(seen.node);
      if (seen.kind !== 'changeStarted' && seen.kind !== 'changeEnded') return undefined;
      const ofNode = changes.get(seen.node) ?? new Map<number, Change>();
      changes.set(seen.node, ofNode);
      if (seen.kind === 'changeStarted') {
        const rivals = [...ofNode].filter(([, { open }]) => open).map(([number]) => number);
        ofNode.set(seen.change, { rivals, open: true, made: false });
        return undefined;
      }
      const ended = ofNode.get(seen.change);
      if (ended !== undefined) Object.assign(ended, { open: false, made: seen.ok });
      const isTwo = [...ofNode.values()].some(
        ({ made, rivals }) => made && rivals.some((one) => ofNode.get(one)?.made),
      );
      return isTwo ? `${seen.node} makes a change while another is open` : undefined;
    },
  };
};

/** An order is done once, and one that was answered with a promise that it will not be done never is. */
const commandsApplyOnce: Property = () => {
  const doneAt = new Map<string, number>();
  const refused = new Map<string, string>();
  const appliedAt = new Set<string>();
  return {
    observe(seen) {
      if (seen.kind === 'attemptFailed' && seen.stateChanged === 'no') {
        const attempt = nameOf(seen.order, true);
        refused.set(attempt, seen.code);
        return appliedAt.has(attempt) ? `${attempt} ended with ${seen.code}, but was agreed` : undefined;
      }
      if (seen.kind !== 'applied') return undefined;
      const attempt = nameOf(seen.order, true);
      appliedAt.add(attempt);
      const code = refused.get(attempt);
      if (code !== undefined) return `${attempt} ended with ${code}, but is agreed at ${seen.index}`;
      if (!seen.effective) return undefined;
      const order = nameOf(seen.order, false);
      const first = doneAt.get(order) ?? seen.index;
      doneAt.set(order, first);
      return first === seen.index ? undefined : `order ${order} is done at ${first} and at ${seen.index}`;
    },
  };
};

function nameOf(
  { client, number, attempt }: { client: string; number: number; attempt: number },
  whole: boolean,
): string {
  return whole ? `${client}/${number}/${attempt}` : `${client}/${number}`;
}

const leaderWithinMs = 10_000;

/** When all is well, one leads within ten seconds and goes on to lead, and everybody knows it. */
const oneLeaderAfterHealing: Property = (stage) => {
  let healedMs = Infinity;
  let stable: string | undefined;
  return {
    observe(seen) {
      const { nowMs } = stage.world.timeline;
      if (seen.kind === 'healed') healedMs = nowMs;
      if (seen.kind !== 'standing' || nowMs < healedMs + leaderWithinMs) return undefined;
      const members = seen.seats.filter(({ isMember }) => isMember);
      const leading = members.filter(({ isLeading }) => isLeading);
      const [leader] = leading;
      if (leader === undefined || leading.length > 1) return `${names(leading)} lead, ${since(nowMs - healedMs)}`;
      const lost = members.find((seat) => seat.leader !== leader.node || seat.term !== leader.term);
      if (lost !== undefined) return `${lost.node} does not follow ${leader.node}, ${since(nowMs - healedMs)}`;
      const now = `${leader.node} in term ${leader.term}`;
      stable ??= now;
      return stable === now ? undefined : `${stable} has lost the lead to ${now}, ${since(nowMs - healedMs)}`;
    },
    atEnd: () => (stable === undefined ? 'nobody looked who leads' : undefined),
  };
};

function names(seats: readonly GroupNodeStatus[]): string {
  return seats.map(({ node }) => node).join(' and ') || 'nobody';
}

function since(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s after all is well`;
}

/** In the end every member holds the same state, and whatever a client was told is done is in it. */
const membersConverge: Property = () => {
  let [seats, acknowledged]: [readonly GroupNodeStatus[], number] = [[], 0];
  return {
    observe(seen) {
      if (seen.kind === 'standing') seats = seen.seats;
      if (seen.kind === 'agreed') acknowledged = Math.max(acknowledged, seen.index);
      return undefined;
    },
    atEnd() {
      const members = seats.filter(({ isMember }) => isMember);
      const [first] = members;
      if (first === undefined) return 'the group has no members';
      const other = members.find(({ index, chain }) => index !== first.index || chain !== first.chain);
      if (other !== undefined) return `${first.node} is at ${first.index}, ${other.node} at ${other.index}`;
      return first.index >= acknowledged ? undefined : `${acknowledged} was acknowledged, all are at ${first.index}`;
    },
  };
};

/** For scenarios that leave the leader and its majority alone: once all follow it, nobody else leads, and the term stays. */
const leaderIsStable: Property = () => {
  let first: { readonly node: string; readonly term: number } | undefined;
  return {
    observe(seen) {
      if (seen.kind === 'standing' && first === undefined) first = followedByAll(seen.seats);
      if (first === undefined) return undefined;
      if (seen.kind === 'toldTerm' && seen.term > first.term)
        return `${seen.node} raises the term from ${first.term} to ${seen.term}, though ${first.node} leads`;
      if (seen.kind !== 'leads' || seen.term === first.term) return undefined;
      return `${seen.node} deposes ${first.node}`;
    },
    atEnd: () => (first === undefined ? 'nobody was ever followed by all' : undefined),
  };
};

function followedByAll(seats: readonly GroupNodeStatus[]): GroupNodeStatus | undefined {
  const leader = seats.find(({ isLeading }) => isLeading);
  const follows = (seat: GroupNodeStatus): boolean => seat.leader === leader?.node && seat.term === leader?.term;
  return seats.length > 1 && seats.every(follows) ? leader : undefined;
}

export const groupProperties = {
  agreedStaysAgreed: committedStaysCommitted,
  agreementsHaveAMajority: commitsHaveAMajority,
  fencesGrow,
  leadersHaveAMajority,
  leasesNeverOverlap,
  membersConverge,
  oneChangeAtATime,
  oneLeaderAfterHealing,
  oneLeaderPerTerm,
  oneVotePerTerm,
  ordersAreDoneOnce: commandsApplyOnce,
  termsNeverGoBack,
  theLeaderStays: leaderIsStable,
} as const satisfies Readonly<Record<string, Property>>;
