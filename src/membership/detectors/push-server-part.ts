/**
 * Push server inside the membership machine: makes the claims about members without datagrams, and adopts those whose
 * watcher is gone.
 *
 * The entry of such a member names its watcher, and each change of watcher raises the incarnation, so all members agree
 * whose claims count. Other members leave it alone while its watcher is alive. When the watcher is dead or has
 * restarted, every possible watcher waits for the member with grace: it pings one of them, or is declared dead.
 *
 * Heartbeats arrive through the main loop of this process. While that is blocked no heartbeat arrives, and no member is
 * declared dead for it.
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
  readonly #context: MembershipContext;
  readonly #policy: SuspicionPolicy;
  readonly #gossiper: Gossiper;
  readonly #mainLoop: MainLoopMonitor;
  /** Ids of live members that have a watcher. */
  readonly #watched = new Set<NodeId>();
  /** Members that have changed since `reassign`. */
  readonly #changed = new Set<NodeId>();
  /** Created when the first such member appears: most groups have none. */
  #server: PushServer | undefined;
  /** A deadline has passed, and the main loop has not run since. */
  #awaitsBeat = false;

  constructor(context: MembershipContext, policy: SuspicionPolicy, gossiper: Gossiper, mainLoop: MainLoopMonitor) {
    this.#context = context;
    this.#policy = policy;
    this.#gossiper = gossiper;
    this.#mainLoop = mainLoop;
  }

  /** A heartbeat; it always gets a reply. */
  onPing(from: Identity, call: number, ping: PushPing): void {
    const { outbox, self, table } = this.#context;
    if (!self.hasDatagrams || self.leaving) return outbox.push({ kind: 'replyError', call, code: 'NOT_LEADER' });
    for (const claim of ping.claims) this.#policy.applyClaim(claim, from.id);
    const outcome = this.#startedServer().onPing(outbox.nowMs, from, ping);
    if (!outcome.ok) return outbox.push({ kind: 'replyError', call, code: outcome.error.code });
    this.#context.counters.increment('heartbeats');
    const member = table.get(from.id);
    const isCurrent = member?.generation === from.generation && member.incarnation === ping.incarnation;
    if (!isCurrent) return outbox.push({ kind: 'reply', call, message: outcome.value });
    member.lastMessageMs = outbox.nowMs;
    table.markChanged(member.id);
    applyMemberReport(this.#context, member, ping);
    outbox.push({ kind: 'reply', call, message: { ...outcome.value, stateVersion: member.stateVersion } });
  }

  /** The status of this member has changed; `reassign` decides at the end of the step. */
  onMemberChange(member: Member): void {
    const { self } = this.#context;
    const concernsUs = member.entry.watchedBy !== undefined || this.#watched.size > 0;
    if (concernsUs && self.hasDatagrams) this.#changed.add(member.id);
  }

  /** Adopts members whose watcher is gone, and releases those that another member watches. */
  reassign(): void {
    if (this.#changed.size === 0) return;
    const { table } = this.#context;
    const affected = new Set(this.#changed);
    for (const id of this.#watched) {
      const watchedBy = table.get(id)?.entry.watchedBy;
      if (watchedBy !== undefined && this.#changed.has(watchedBy)) affected.add(id);
    }
    this.#changed.clear();
    for (const id of affected) this.#reassignMember(id);
  }

  /** Waits until the main loop has forwarded the heartbeats that arrived before the deadline. */
  expire(dueMs: number): void {
    const { outbox } = this.#context;
    this.#awaitsBeat = !this.#mainLoop.hasRunSince(dueMs);
    if (this.#awaitsBeat) outbox.push({ kind: 'requestBeat' });
    else this.#server?.expire(outbox.nowMs);
  }

  /** The main loop runs; its beat was overdue by `silentMs`. */
  onBeat(silentMs: number): void {
    this.discountPause(silentMs);
    if (!this.#awaitsBeat) return;
    this.#awaitsBeat = false;
    this.#server?.expire(this.#context.outbox.nowMs);
  }

  /** This node did not run, or could not receive heartbeats, for this long. */
  discountPause(pauseMs: number): void {
    if (pauseMs > 0) this.#server?.discountPause(this.#context.outbox.nowMs, pauseMs);
  }

  #reassignMember(id: NodeId): void {
    const { outbox, table } = this.#context;
    const member = table.get(id);
    if (member === undefined || !isLiveMember(member)) {
      this.#watched.delete(id);
      this.#server?.removeWorker(id);
      return;
    }
    const { watchedBy } = member.entry;
    if (watchedBy === undefined) return void this.#watched.delete(id);
    this.#watched.add(id);
    const watcher = table.get(watchedBy);
    if (watcher !== undefined && isLiveMember(watcher)) this.#server?.removeWorker(id);
    else this.#startedServer().adopt(outbox.nowMs, [member]);
  }

  #startedServer(): PushServer {
    if (this.#server !== undefined) return this.#server;
    const { options, outbox, self, table } = this.#context;
    this.#server = new PushServer(self.id, heartbeatTiming(options.probeIntervalMs), options.membersMax, {
      lastKnown: (id) => table.lastKnown(id),
      applyClaim: (claim, why) => this.#applyClaim(claim, why),
      ackContent: (to) => this.#ackContent(to),
      wake: (atMs) => outbox.schedule(Math.max(0, atMs - outbox.nowMs), { kind: 'pushServer' }),
      log: () => {},
    });
    this.#server.start(outbox.nowMs);
    return this.#server;
  }

  #applyClaim(claim: Claim, why: string): void {
    if (claim.kind === 'suspect' || claim.kind === 'dead') this.#policy.applyVerdict(claim, why);
    else this.#policy.applyClaim(claim, this.#context.self.id);
  }

  #ackContent(to: NodeId) {
    const { self, table } = this.#context;
    const member = table.get(to);
    const claims = member === undefined ? [] : this.#gossiper.claimsFor(member);
    const { stateVersion } = member ?? {};
    return { incarnation: self.incarnation, claims, viewHash: this.#gossiper.viewHash, stateVersion };
  }
}
