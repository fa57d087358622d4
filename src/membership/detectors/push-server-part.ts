/**
 * Push server inside the membership machine: vouches for members without datagrams, and takes over those whose manager
 * is gone, with grace.
 *
 * The entry of such a member names who watches it, and each change of watcher comes with a higher incarnation, so all
 * agree on whose word counts. Everybody who is not the watcher leaves the member alone as long as the watcher lives.
 * When the watcher is gone, or has started again and forgotten, all who could take its place wait for the member with
 * grace: it turns up at one of them, or dies for all.
 *
 * Heartbeats come in over the main loop of our process. While that does not move nothing can be heard, and nobody is to
 * be blamed for it.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import type { Claim } from '../state/claim.ts';
import type { MembershipContext } from '../state/context.ts';
import { heartbeatTiming } from './heartbeat-timing.ts';
import type { SuspicionPolicy } from '../suspicion/suspicion-policy.ts';
import type { MainLoopMonitor } from './main-loop-monitor.ts';
import { type Member, isLiveMember } from '../state/member-table.ts';
import { applyMemberReport } from '../state/member-report.ts';
import { PushServer, type PushPing } from './push-server.ts';
import type { Gossiper } from '../probe/gossiper.ts';

export class PushServerPart {
  readonly #group: MembershipContext;
  readonly #judge: SuspicionPolicy;
  readonly #spreader: Gossiper;
  readonly #mainLoop: MainLoopMonitor;
  /** Living members that somebody watches, by their own id. */
  readonly #watched = new Set<NodeId>();
  readonly #settled = new Set<NodeId>();
  /** Made when the first such member appears: most groups have none. */
  #push: PushServer | undefined;
  /** Somebody's time is over, and the main loop has not run since. */
  #awaitsBeat = false;

  constructor(group: MembershipContext, judge: SuspicionPolicy, spreader: Gossiper, mainLoop: MainLoopMonitor) {
    this.#group = group;
    this.#judge = judge;
    this.#spreader = spreader;
    this.#mainLoop = mainLoop;
  }

  /** A heartbeat; answered in any case. */
  onPing(from: Identity, call: number, ping: PushPing): void {
    const { outbox, self, table } = this.#group;
    if (!self.hasDatagrams || self.leaving) return outbox.put({ kind: 'noReply', call, code: 'NOT_LEADER' });
    for (const claim of ping.claims) this.#judge.applyClaim(claim, from.id);
    const outcome = this.#started().onPing(outbox.nowMs, from, ping);
    if (!outcome.ok) return outbox.put({ kind: 'noReply', call, code: outcome.error.code });
    this.#group.counters.increment('heartbeats');
    const member = table.get(from.id);
    const isPresent = member?.generation === from.generation && member.incarnation === ping.incarnation;
    if (!isPresent) return outbox.put({ kind: 'reply', call, message: outcome.value });
    member.heardMs = outbox.nowMs;
    table.markChanged(member.id);
    applyMemberReport(this.#group, member, ping);
    outbox.put({ kind: 'reply', call, message: { ...outcome.value, stateVersion: member.stateVersion } });
  }

  /** Something has changed about this member: at the end of the step it is seen who has to watch whom. */
  onMemberChange(member: Member): void {
    const { self } = this.#group;
    const concernsUs = member.entry.watchedBy !== undefined || this.#watched.size > 0;
    if (concernsUs && self.hasDatagrams) this.#settled.add(member.id);
  }

  /** Watches those whose watcher is gone, and lets go of those that another one watches. */
  reassign(): void {
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
    const { outbox } = this.#group;
    this.#awaitsBeat = !this.#mainLoop.hasRunSince(dueMs);
    if (this.#awaitsBeat) outbox.put({ kind: 'wantBeat' });
    else this.#push?.expire(outbox.nowMs);
  }

  /** The main loop runs. */
  onBeat(silentMs: number): void {
    this.discountPause(silentMs);
    if (!this.#awaitsBeat) return;
    this.#awaitsBeat = false;
    this.#push?.expire(this.#group.outbox.nowMs);
  }

  /** We were not listening for this long. */
  discountPause(pauseMs: number): void {
    if (pauseMs > 0) this.#push?.discountPause(this.#group.outbox.nowMs, pauseMs);
  }

  #decide(id: NodeId): void {
    const { outbox, table } = this.#group;
    const member = table.get(id);
    if (member === undefined || !isLiveMember(member)) {
      this.#watched.delete(id);
      this.#push?.removeWorker(id);
      return;
    }
    const { watchedBy } = member.entry;
    if (watchedBy === undefined) return void this.#watched.delete(id);
    this.#watched.add(id);
    const watcher = table.get(watchedBy);
    if (watcher !== undefined && isLiveMember(watcher)) this.#push?.removeWorker(id);
    else this.#started().adopt(outbox.nowMs, [member]);
  }

  #started(): PushServer {
    if (this.#push !== undefined) return this.#push;
    const { options, outbox, self, table } = this.#group;
    this.#push = new PushServer(self.id, heartbeatTiming(options.probeIntervalMs), options.membersMax, {
      lastKnown: (id) => table.lastKnown(id),
      applyClaim: (claim, why) => this.#hear(claim, why),
      ackContent: (to) => this.#own(to),
      wake: (atMs) => outbox.after(Math.max(0, atMs - outbox.nowMs), { kind: 'heartbeats' }),
      log: () => {},
    });
    this.#push.start(outbox.nowMs);
    return this.#push;
  }

  #hear(claim: Claim, why: string): void {
    if (claim.kind === 'suspect' || claim.kind === 'dead') this.#judge.applyVerdict(claim, why);
    else this.#judge.applyClaim(claim, this.#group.self.id);
  }

  #own(to: NodeId) {
    const { self, table } = this.#group;
    const member = table.get(to);
    const claims = member === undefined ? [] : this.#spreader.claimsFor(member);
    const { stateVersion } = member ?? {};
    return { incarnation: self.incarnation, claims, viewHash: this.#spreader.viewHash, stateVersion };
  }
}
