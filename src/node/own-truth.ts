/**
 * What a node says about itself and the others, in the shapes of the public contract. What this version does not know
 * yet is null or empty: a field is never filled with a guess.
 */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import type { MemberView } from '../membership/member.ts';

/** One row of `members`. */
export type MemberRow = {
  readonly name: string;
  readonly id: NodeId;
  readonly host: string;
  readonly port: number;
  readonly roles: readonly string[];
  readonly dc: string;
  readonly state: MemberView['state'];
  readonly incarnation: number | null;
  readonly health: number | null;
  readonly registration: string | null;
  readonly generation: number;
  readonly loadLevel: string | null;
  readonly silentMs: number;
};

export function memberRow({ entry, state, silentMs }: MemberView): MemberRow {
  const { name, id, host, port, roles, dc, generation } = entry;
  const unknown = { incarnation: null, health: null, registration: null, loadLevel: null };
  return { name, id, host, port, roles, dc, state, generation, silentMs, ...unknown };
}

/** The body of GET /v1/node. */
export type OwnTruth = ReturnType<typeof ownTruth>;

export type OwnFacts = {
  readonly self: Identity;
  readonly members: readonly MemberRow[];
  readonly joined: boolean;
  readonly stopping: boolean;
  readonly queues: Readonly<Record<string, number>>;
  readonly rejected: Readonly<Record<string, number>>;
  readonly uptimeMs: number;
};

export function ownTruth({ self, members, joined, stopping, queues, rejected, uptimeMs }: OwnFacts) {
  const { id, name, generation, roles, dc, host, port } = self;
  return {
    ...{ id, name, generation, incarnation: null, roles, dc, host, port, joined, stopping },
    ...{ registration: null, leader: null, term: null, fence: null, tableVersion: null, tableHash: null },
    ...{ members, containers: [], cores: null, runners: [], queues, rejected },
    ...{ health: null, loadLevel: null, stuck: null, isolation: null, uptimeMs },
  };
}
