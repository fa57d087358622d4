/**
 * What a member reports of itself with an ack or heartbeat: health, lag, view hash, embedded state. Applied without
 * question; never decides whether the member is alive.
 */
import type { EmbeddedPart } from '../../messages/membership.ts';
import type { MembershipContext } from './context.ts';
import type { Member } from './member-table.ts';
import { noEvidence } from './membership-event.ts';

export type MemberReport = {
  readonly health: number;
  readonly stuck: boolean;
  readonly lagMs: number;
  readonly viewHash: number;
  readonly stateVersion: number | undefined;
  readonly state: readonly EmbeddedPart[];
};

export function applyMemberReport({ outbox }: MembershipContext, member: Member, report: MemberReport): void {
  if (report.stuck !== member.stuck) emitStuck(outbox, member, report.stuck);
  member.stuck = report.stuck;
  member.lagMs = report.lagMs;
  member.health = report.health;
  member.viewHash = report.viewHash;
  const { stateVersion: version, state: parts } = report;
  if (version === undefined || version <= (member.stateVersion ?? 0)) return;
  member.stateVersion = version;
  outbox.push({ kind: 'embedded', id: member.id, generation: member.generation, version, parts });
}

function emitStuck(
  outbox: MembershipContext['outbox'],
  { id, generation, incarnation, entry }: Member,
  stuck: boolean,
): void {
  const type = stuck ? 'member.stuck' : 'member.unstuck';
  const why = stuck ? 'its main loop is blocked' : 'its main loop runs again';
  const event = { type, id, name: entry.name, generation, incarnation, why, ...noEvidence } as const;
  outbox.push({ kind: 'event', event });
}
