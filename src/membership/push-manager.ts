/**
 * Heartbeats of members without datagrams, where they are heard: push-membership.ts inside the membership machine.
 *
 * The entry of such a member names who watches it, and each change of watcher comes with a higher incarnation, so all
 * agree on whose word counts. Everybody who is not the watcher leaves the member alone as long as the watcher lives.
 * When the watcher is gone, or has started again and forgotten, all who could take its place wait for the member with
 * grace: it turns up at one of them, or dies for all.
 *
 * Heartbeats come in over the main loop of our process. While that does not move nothing can be heard, and nobody is
 * to be blamed for it.
 */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import type { Claim } from './claim.ts';
import type { Group } from './group.ts';
import { heartbeatTiming } from './heartbeat-timing.ts';
import type { Judge } from './judge.ts';
import type { MainLoop } from './main-loop.ts';
import { type Member, isLiving } from './member-table.ts';
import { takeReport } from './member-report.ts';
import { PushMembership, type PushPing } from './push-membership.ts';
import type { Spreader } from './spreader.ts';

export class PushManager {
  readonly #group: Group;
  readonly #judge: Judge;
  readonly #spreader: Spreader;
  readonly #mainLoop: MainLoop;
  /** Living members that somebody watches, by their own id. */
  readonly #watched = new Set<NodeId>();
  readonly #settled = new Set<NodeId>();
  /** Made when the first such member appears: most groups have none. */
  #push: PushMembership | undefined;
  /** Somebody's time is over, and the main loop has not run since. */
  #awaitsBeat = false;

  constructor(group: Group, judge: Judge, spreader: Spreader, mainLoop: MainLoop) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.#mainLoop = mainLoop;
  }

  /** A heartbeat; answered in any case. */
  pinged(from: Identity, call: number, ping: PushPing): void {
    const { out, self, table } = this.#group;
    if (!self.hasDatagrams || self.leaving) return out.put({ kind: 'noReply', call, code: 'NOT_LEADER' });
    for (const claim of ping.claims) this.#judge.hear(claim, from.id);
    const outcome = this.#started().pinged(out.nowMs, from, ping);
    if (!outcome.ok) return out.put({ kind: 'noReply', call, code: outcome.error.code });
    this.#group.tally.note('heartbeats');
    const member = table.get(from.id);
    const isPresent = member?.generation === from.generation && member.incarnation === ping.incarnation;
    if (!isPresent) return out.put({ kind: 'reply', call, message: outcome.value });
    member.heardMs = out.nowMs;
    table.touch(member.id);
    takeReport(this.#group, member, ping);
    out.put({ kind: 'reply', call, message: { ...outcome.value, stateVersion: member.stateVersion } });
  }

  /** Something has changed about this member: at the end of the step it is seen who has to watch whom. */
  settled(member: Member): void {
    const { self } = this.#group;
    const concernsUs = member.entry.watchedBy !== undefined || this.#watched.size > 0;
    if (concernsUs && self.hasDatagrams) this.#settled.add(member.id);
  }

  /** Watches those whose watcher is gone, and lets go of those that another one watches. */
  divide(): void {
    if (this.#settled.size === 0) return;
    const { table } = this.#group;
    const concerned = new Set(this.#settled);
    for (const id of this.#watched) {
      const watchedBy = table.get(id)?.entry.watchedBy;
      if (watchedBy !== undefined && this.#settled.has(watchedBy)) concerned.add(id);
    }
    this.#settled.clear();
    for (const id of concerned) this.#decide(id);
  }

  /** Nobody is judged before the main loop has had a chance to pass on a heartbeat that came in time. */
  expire(dueMs: number): void {
    const { out } = this.#group;
    this.#awaitsBeat = !this.#mainLoop.hasRunSince(dueMs);
    if (this.#awaitsBeat) out.put({ kind: 'wantBeat' });
    else this.#push?.expire(out.nowMs);
  }

  /** The main loop runs. */
  beaten(silentMs: number): void {
    this.excuse(silentMs);
    if (!this.#awaitsBeat) return;
    this.#awaitsBeat = false;
    this.#push?.expire(this.#group.out.nowMs);
  }

  /** We were not listening for this long. */
  excuse(pauseMs: number): void {
    if (pauseMs > 0) this.#push?.excuse(this.#group.out.nowMs, pauseMs);
  }

  #decide(id: NodeId): void {
    const { out, table } = this.#group;
    const member = table.get(id);
    if (member === undefined || !isLiving(member)) {
      this.#watched.delete(id);
      this.#push?.removeWorker(id);
      return;
    }
    const { watchedBy } = member.entry;
    if (watchedBy === undefined) return void this.#watched.delete(id);
    this.#watched.add(id);
    const watcher = table.get(watchedBy);
    if (watcher !== undefined && isLiving(watcher)) this.#push?.removeWorker(id);
    else this.#started().adopt(out.nowMs, [member]);
  }

  #started(): PushMembership {
    if (this.#push !== undefined) return this.#push;
    const { options, out, self, table } = this.#group;
    this.#push = new PushMembership(self.id, heartbeatTiming(options.probeIntervalMs), options.membersMax, {
      standing: (id) => table.standing(id),
      hear: (claim, why) => this.#hear(claim, why),
      own: (to) => this.#own(to),
      wake: (atMs) => out.after(Math.max(0, atMs - out.nowMs), { kind: 'heartbeats' }),
      log: () => {},
    });
    this.#push.start(out.nowMs);
    return this.#push;
  }

  #hear(claim: Claim, why: string): void {
    if (claim.kind === 'suspect' || claim.kind === 'dead') this.#judge.vote(claim, why);
    else this.#judge.hear(claim, this.#group.self.id);
  }

  #own(to: NodeId) {
    const { self, table } = this.#group;
    const member = table.get(to);
    const claims = member === undefined ? [] : this.#spreader.claimsFor(member);
    const { stateVersion } = member ?? {};
    return { incarnation: self.incarnation, claims, viewHash: this.#spreader.viewHash, stateVersion };
  }
}
