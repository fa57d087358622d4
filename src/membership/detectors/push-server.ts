/**
 * Manager side of the push detector: turns pings and missed deadlines into claims.
 *
 *   ping of a new generation or incarnation   -> claim join or alive
 *   ping of an incarnation that is dead or suspect -> verdict `accused`: the member must raise its incarnation
 *   no ping for the whole timeout             -> claim dead; or suspect, if other members can probe it
 *
 * All claims are votes; the order of claims (claim.ts) decides. So the old manager of a worker cannot declare it dead
 * after the worker has moved to another manager under a higher incarnation. `from` is authenticated by the transport.
 */
import { type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Identity, Log } from '../../base/ports.ts';
import type { MessageOf } from '../../messages/codec/message.ts';
import type { pushAck, pushPing } from '../../messages/membership.ts';
import { type Claim, type ClaimKind, type MemberStatus, supersedes } from '../state/claim.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';
import { type DetectedDeath, type MemberLife, PushDetector } from './push-detector.ts';

export type PushPing = MessageOf<typeof pushPing>;
export type PushAck = MessageOf<typeof pushAck>;

export type PushServerPorts = {
  /** The status of a member, or of its tombstone. */
  readonly lastKnown: (id: NodeId) => MemberStatus | undefined;
  /** Applies a vote before the call returns. `why` is the evidence, for operators. */
  readonly applyClaim: (claim: Claim, why: string) => void;
  /** What an ack carries: status of this node, claims for the member, and the version of its state that arrived. */
  readonly ackContent: (to: NodeId) => Pick<PushAck, 'incarnation' | 'claims' | 'viewHash' | 'stateVersion'>;
  /** Schedules a call of `expire`. An early or additional call does no harm. */
  readonly wake: (atMs: number) => void;
  readonly log: Log;
};

export class PushServer {
  readonly #self: NodeId;
  readonly #ports: PushServerPorts;
  readonly #detector: PushDetector;
  /** Watched members that other members can probe too. */
  readonly #probed = new Set<NodeId>();
  #wakeMs: number | undefined;

  constructor(self: NodeId, timing: HeartbeatTiming, workersMax: number, ports: PushServerPorts) {
    this.#self = self;
    this.#ports = ports;
    this.#detector = new PushDetector(timing, workersMax, {
      isMember: (id) => this.#isMember(id),
      voteDead: (death) => this.#vote(death),
      onDead: ({ id }) => this.#probed.delete(id),
      log: ports.log,
    });
  }

  /** `members` are those without datagrams and without a known watcher. */
  start(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }> = []): boolean {
    const started = this.#detector.start(nowMs, members);
    this.#arm();
    return started;
  }

  stop(): void {
    this.#detector.stop();
    this.#probed.clear();
  }

  /** The watcher of these members is gone: waits for their pings with grace. */
  adopt(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }>): void {
    this.#detector.adopt(nowMs, members);
    this.#arm();
  }

  /** The member has left, or membership declared it dead by other evidence. */
  removeWorker(id: NodeId): boolean {
    this.#probed.delete(id);
    return this.#detector.removeWorker(id);
  }

  /** The caller handles the claims and the embedded state that ride on the ping. */
  onPing(nowMs: number, from: Identity, ping: PushPing): Outcome<PushAck> {
    const { id, generation } = from;
    const life = { generation, incarnation: ping.incarnation };
    if (!this.#detector.running) return failure('NOT_LEADER', 'this node does not accept heartbeats now', 'no');
    if (this.#detector.isFull && !this.#detector.isMonitored(id)) {
      return failure('CAPACITY', 'this node already watches the maximum number of workers');
    }
    this.#claimAlive(from, life, ping.datagrams);
    const known = this.#ports.lastKnown(id);
    if (known === undefined) return failure('CAPACITY', 'the member table is full');
    if (known.generation > generation) return success(this.#ack(id, ping.seq, 'superseded', known));
    const result = this.#detector.ping(nowMs, id, life, ping.hearsYou);
    if (result === 'registered' || result === 'renewed') {
      if (ping.datagrams) this.#probed.add(id);
      else this.#probed.delete(id);
    }
    if (result === 'registered') this.#arm();
    const isBelieved = known.state === 'alive' && known.incarnation === life.incarnation && result !== 'dead';
    return success(this.#ack(id, ping.seq, isBelieved ? 'member' : 'accused', known));
  }

  expire(nowMs: number): void {
    // An earlier timer that was replaced: the current one is still to come.
    if (this.#wakeMs !== undefined && this.#wakeMs - nowMs > 0.5) return;
    this.#wakeMs = undefined;
    this.#detector.expire(nowMs);
    this.#arm();
  }

  /** This node did not run for this long: no member loses that time. */
  discountPause(nowMs: number, pauseMs: number): void {
    this.#detector.discountPause(nowMs, pauseMs);
  }

  /** True if messages arrive in both directions, so that work may be sent. */
  isDispatchable(nowMs: number, id: NodeId): boolean {
    const { heardByUs, hearsUs } = this.#detector.directions(nowMs, id);
    return heardByUs && hearsUs;
  }

  get detector(): Pick<
    PushDetector,
    'running' | 'monitoredCount' | 'isMonitored' | 'timeSinceLastHeartbeatMs' | 'directions' | 'callbackErrors'
  > {
    return this.#detector;
  }

  #isMember(id: NodeId): boolean {
    const state = this.#ports.lastKnown(id)?.state;
    return state === 'alive' || state === 'suspect';
  }

  /** Makes the alive claim for the member if it is newer than what is known. */
  #claimAlive(from: Identity, life: MemberLife, datagrams: boolean): void {
    const known = this.#ports.lastKnown(from.id);
    const { id, name, host, port, generation, roles, dc } = from;
    const watchedBy = datagrams ? undefined : this.#self;
    const entry = { id, name, host, port, generation, roles, dc, watchedBy };
    const claim = this.#claim(known === undefined ? 'join' : 'alive', id, life, entry);
    if (known === undefined || supersedes(claim, known)) this.#ports.applyClaim(claim, 'it pings this node');
  }

  #vote(death: DetectedDeath): void {
    const kind = this.#probed.has(death.id) ? 'suspect' : 'dead';
    const why = `no heartbeat for ${Math.round(death.silentMs)} ms`;
    // Only the watcher can judge a member that accepts no probes, so its verdict counts at once everywhere. That of a
    // node that only adopted the member does not: the member may ping another node that is unreachable from here.
    const refused = kind === 'dead' && death.hasPinged;
    this.#ports.applyClaim({ ...this.#claim(kind, death.id, death, undefined), refused }, why);
  }

  #claim(kind: ClaimKind, id: NodeId, { generation, incarnation }: MemberLife, entry: Claim['entry']): Claim {
    return { kind, id, generation, incarnation, by: this.#self, refused: false, entry };
  }

  #ack(id: NodeId, seq: number, verdict: PushAck['verdict'], known: MemberStatus): PushAck {
    return { kind: 'pushAck', seq, verdict, known: known.incarnation, ...this.#ports.ackContent(id) };
  }

  #arm(): void {
    const { nextMs } = this.#detector;
    if (nextMs === undefined || (this.#wakeMs !== undefined && this.#wakeMs <= nextMs)) return;
    this.#wakeMs = nextMs;
    this.#ports.wake(nextMs);
  }
}
