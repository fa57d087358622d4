/**
 * Raft safety and liveness properties: one leader per term, one vote, majority commits, disjoint leases, growing
 * fences, convergence.
 */
import { fenceParts } from '../../../../src/base/fence.ts';
import type { Property } from '../../checking/workload.ts';
import type { GroupNodeStatus } from '../../checking/group-observations.ts';

/** S1: a term has at most one leader. */
const oneLeaderPerTerm: Property = () => {
  const leaders = new Map<number, string>();
  return {
    observe(event) {
      if (event.kind !== 'leads') return undefined;
      const first = leaders.get(event.term) ?? event.node;
      leaders.set(event.term, first);
      return first === event.node ? undefined : `${first} and ${event.node} lead in term ${event.term}`;
    },
  };
};

/** S2: the term that a node sends never decreases, across restarts too. */
const termsAreMonotonic: Property = () => {
  const highest = new Map<string, number>();
  return {
    observe(event) {
      if (event.kind !== 'termSent') return undefined;
      const before = highest.get(event.node) ?? 0;
      highest.set(event.node, event.term);
      return event.term >= before ? undefined : `${event.node} is in term ${event.term} after ${before}`;
    },
  };
};

/** S3: a voter grants one vote per term, across restarts too. A leader has voted for itself. */
const oneVotePerTerm: Property = () => {
  const votes = new Map<string, string>();
  const vote = (voter: string, term: number, candidate: string): string | undefined => {
    const key = `${voter}/${term}`;
    const first = votes.get(key) ?? candidate;
    votes.set(key, first);
    return first === candidate ? undefined : `${voter} votes for ${first} and for ${candidate} in term ${term}`;
  };
  return {
    observe(event) {
      if (event.kind === 'voted') return vote(event.node, event.term, event.candidate);
      return event.kind === 'leads' ? vote(event.node, event.term, event.node) : undefined;
    },
  };
};

/** S4: a leader has the votes of a majority of the configured voters, its own included. */
const leadersHaveAMajority: Property = () => {
  const votes = new Map<string, Set<string>>();
  return {
    observe(event) {
      if (event.kind === 'voted') {
        const key = `${event.candidate}/${event.term}`;
        votes.set(key, (votes.get(key) ?? new Set()).add(event.node));
      }
      if (event.kind !== 'leads') return undefined;
      const { node, term, voters } = event;
      const given = votes.get(`${node}/${term}`) ?? new Set<string>();
      const count = voters.filter((voter) => voter === node || given.has(voter)).length;
      if (isMajority(count, voters)) return undefined;
      return `${node} leads in term ${term} with ${count} votes of ${voters.length} voters`;
    },
  };
};

/**
 * S4: a leader commits an entry only if a majority of the configured voters has acknowledged it. It counts itself only
 * for entries on its disk, and only entries of its own term: an older entry can still be replaced by a later leader.
 */
const commitsHaveAMajority: Property = () => {
  const held = new Map<string, number>();
  const terms = new Map<number, number>();
  return {
    observe(event) {
      if (event.kind === 'applied') terms.set(event.index, event.term);
      if (event.kind === 'logAcknowledged') {
        const key = `${event.node}/${event.term}`;
        held.set(key, Math.max(held.get(key) ?? 0, event.index));
      }
      if (event.kind !== 'commitAdvanced') return undefined;
      const { node, term, index, voters, isDurable } = event;
      const holds = (voter: string): boolean =>
        voter === node ? isDurable : (held.get(`${voter}/${term}`) ?? 0) >= index;
      const count = voters.filter(holds).length;
      const text = `${node} commits ${index} in term ${term}`;
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

/** At no instant do two nodes rely on a leader lease. */
const leasesNeverOverlap: Property = () => ({
  observe(event) {
    if (event.kind !== 'leasesHeld' || event.nodes.length < 2) return undefined;
    return `${event.nodes.join(' and ')} rely on their leases at the same time`;
  },
});

/** Each leader has a higher fence than all before it; the fence of a committed entry is its own term and index. */
const fencesGrow: Property = () => {
  let highest = 0n;
  const terms = new Map<number, number>();
  return {
    observe(event) {
      if (event.kind === 'applied') terms.set(event.index, event.term);
      if (event.kind === 'elected') {
        const [before, after] = [highest, event.fence];
        highest = after;
        return after > before ? undefined : `${event.node} became leader under the fence ${after} after ${before}`;
      }
      if (event.kind !== 'committed') return undefined;
      const { term, index } = fenceParts(event.fence);
      if (index === event.index && term === terms.get(index)) return undefined;
      return `entry ${event.index} of term ${terms.get(event.index)} was committed under the fence ${term}/${index}`;
    },
  };
};

/**
 * All nodes apply the same entry at an index, after restarts and snapshots too; the hash chain covers all entries
 * before. No node applies an index twice between two restarts.
 */
const committedStaysCommitted: Property = () => {
  const chains = new Map<number, number>();
  const last = new Map<string, number>();
  let highest = 0;
  return {
    observe(event) {
      if (event.kind === 'stopped') last.delete(event.node);
      if (event.kind !== 'applied' && event.kind !== 'restored') return undefined;
      const { node, index, chain } = event;
      const before = last.get(node) ?? 0;
      last.set(node, index);
      if (event.kind === 'applied' && index <= before) return `${node} applies ${index} after ${before}`;
      if (event.kind === 'restored' && index < before) return `${node} goes back to ${index} from ${before}`;
      if (index === 0) return undefined;
      const known = chains.get(index);
      if (known === undefined && index < highest) return `${node} has ${index}, where other nodes have nothing`;
      chains.set(index, known ?? chain);
      highest = Math.max(highest, index);
      return known === undefined || known === chain ? undefined : `${node} has another history up to ${index}`;
    },
  };
};

type Change = { readonly openAtStart: readonly number[]; open: boolean; succeeded: boolean };

/** S37: of two configuration changes that are open at a node at the same time, at most one succeeds. */
const oneChangeAtATime: Property = () => {
  /** For each node its changes: the changes that were open when it started, and whether it succeeded. */
  const changes = new Map<string, Map<number, Change>>();
  return {
    observe(event) {
      if (event.kind === 'stopped') changes.delete(event.node);
      if (event.kind !== 'changeStarted' && event.kind !== 'changeEnded') return undefined;
      const ofNode = changes.get(event.node) ?? new Map<number, Change>();
      changes.set(event.node, ofNode);
      if (event.kind === 'changeStarted') {
        const openAtStart = [...ofNode].filter(([, { open }]) => open).map(([number]) => number);
        ofNode.set(event.change, { openAtStart, open: true, succeeded: false });
        return undefined;
      }
      const ended = ofNode.get(event.change);
      if (ended !== undefined) Object.assign(ended, { open: false, succeeded: event.ok });
      const areConcurrent = [...ofNode.values()].some(
        ({ succeeded, openAtStart }) => succeeded && openAtStart.some((one) => ofNode.get(one)?.succeeded),
      );
      return areConcurrent ? `${event.node} makes a change while another is open` : undefined;
    },
  };
};

/** A command takes effect at most once, and never after an error with `stateChanged: 'no'`. */
const commandsApplyOnce: Property = () => {
  const effectiveAt = new Map<string, number>();
  const refused = new Map<string, string>();
  const appliedAt = new Set<string>();
  return {
    observe(event) {
      if (event.kind === 'attemptFailed' && event.stateChanged === 'no') {
        const attempt = nameOf(event.command, true);
        refused.set(attempt, event.code);
        return appliedAt.has(attempt) ? `${attempt} ended with ${event.code}, but was committed` : undefined;
      }
      if (event.kind !== 'applied') return undefined;
      const attempt = nameOf(event.command, true);
      appliedAt.add(attempt);
      const code = refused.get(attempt);
      if (code !== undefined) return `${attempt} ended with ${code}, but is committed at ${event.index}`;
      if (!event.effective) return undefined;
      const command = nameOf(event.command, false);
      const first = effectiveAt.get(command) ?? event.index;
      effectiveAt.set(command, first);
      return first === event.index ? undefined : `command ${command} takes effect at ${first} and at ${event.index}`;
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

/** Within ten seconds after healing there is one leader; all members follow it, and it stays the leader. */
const oneLeaderAfterHealing: Property = (run) => {
  let healedMs = Infinity;
  let stable: string | undefined;
  return {
    observe(event) {
      const { nowMs } = run.world.timeline;
      if (event.kind === 'healed') healedMs = nowMs;
      if (event.kind !== 'groupStatus' || nowMs < healedMs + leaderWithinMs) return undefined;
      const members = event.nodes.filter(({ isMember }) => isMember);
      const leading = members.filter(({ isLeading }) => isLeading);
      const [leader] = leading;
      if (leader === undefined) return `no node leads, ${since(nowMs - healedMs)}`;
      if (leading.length > 1) return `${names(leading)} lead, ${since(nowMs - healedMs)}`;
      const lost = members.find((status) => status.leader !== leader.node || status.term !== leader.term);
      if (lost !== undefined) return `${lost.node} does not follow ${leader.node}, ${since(nowMs - healedMs)}`;
      const now = `${leader.node} in term ${leader.term}`;
      stable ??= now;
      return stable === now ? undefined : `${stable} has lost leadership to ${now}, ${since(nowMs - healedMs)}`;
    },
    atEnd: () => (stable === undefined ? 'no status was read after healing' : undefined),
  };
};

function names(nodes: readonly GroupNodeStatus[]): string {
  return nodes.map(({ node }) => node).join(' and ');
}

function since(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s after healing`;
}

/** At the end every member has the same state, and it contains every acknowledged command. */
const membersConverge: Property = () => {
  let [nodes, acknowledged]: [readonly GroupNodeStatus[], number] = [[], 0];
  return {
    observe(event) {
      if (event.kind === 'groupStatus') nodes = event.nodes;
      if (event.kind === 'committed') acknowledged = Math.max(acknowledged, event.index);
      return undefined;
    },
    atEnd() {
      const members = nodes.filter(({ isMember }) => isMember);
      const [first] = members;
      if (first === undefined) return 'the group has no members';
      const other = members.find(({ index, chain }) => index !== first.index || chain !== first.chain);
      if (other !== undefined) return `${first.node} is at ${first.index}, ${other.node} at ${other.index}`;
      return first.index >= acknowledged ? undefined : `${acknowledged} was acknowledged, all are at ${first.index}`;
    },
  };
};

/** For scenarios that leave the leader and a majority intact: once all follow it, it stays the leader, in its term. */
const leaderIsStable: Property = () => {
  let first: { readonly node: string; readonly term: number } | undefined;
  return {
    observe(event) {
      if (event.kind === 'groupStatus' && first === undefined) first = followedByAll(event.nodes);
      if (first === undefined) return undefined;
      if (event.kind === 'termSent' && event.term > first.term)
        return `${event.node} raises the term from ${first.term} to ${event.term}, though ${first.node} leads`;
      if (event.kind !== 'leads' || event.term === first.term) return undefined;
      return `${event.node} deposes ${first.node}`;
    },
    atEnd: () => (first === undefined ? 'no leader was ever followed by all nodes' : undefined),
  };
};

function followedByAll(nodes: readonly GroupNodeStatus[]): GroupNodeStatus | undefined {
  const leader = nodes.find(({ isLeading }) => isLeading);
  const follows = (status: GroupNodeStatus): boolean => status.leader === leader?.node && status.term === leader?.term;
  return nodes.length > 1 && nodes.every(follows) ? leader : undefined;
}

export const groupProperties = {
  commandsApplyOnce,
  commitsHaveAMajority,
  committedStaysCommitted,
  fencesGrow,
  leaderIsStable,
  leadersHaveAMajority,
  leasesNeverOverlap,
  membersConverge,
  oneChangeAtATime,
  oneLeaderAfterHealing,
  oneLeaderPerTerm,
  oneVotePerTerm,
  termsAreMonotonic,
} as const satisfies Readonly<Record<string, Property>>;
