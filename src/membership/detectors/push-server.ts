/**
 * Manager side of the push detector: turns pings into claims alive, and silence into claims dead or suspect. All are
 * votes; the claim order decides.
 *
 *   pushPing of a new life or incarnation   -> claim join or alive, said by us
 *   pushPing of a life that was given up    -> answered "accused": it must come back with a higher incarnation
 *   silence for the whole timeout           -> claim dead, said by us; or suspect, when others can probe it as well
 *
 * All of these are votes: they go to membership as claims, and the order of claims (claim.ts) decides. So a worker that
 * found another manager meanwhile, under a higher incarnation, is not buried by the one that lost it. Who must act on a
 * death listens to membership. The pings are authentic because `from` is who the transport proved it to be.
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
  /** What membership believes of a member, or believed when it forgot it. */
  readonly lastKnown: (id: NodeId) => MemberStatus | undefined;
  /** A vote. It is judged before the call returns. `why` is the evidence, for people. */
  readonly applyClaim: (claim: Claim, why: string) => void;
  /** What we say of ourselves in an answer, what we have of the member, and the news for it. */
  readonly ackContent: (to: NodeId) => Pick<PushAck, 'incarnation' | 'claims' | 'viewHash' | 'stateVersion'>;
  /** Call `expire` then. A call that comes too early or once too often is harmless. */
  readonly wake: (atMs: number) => void;
  readonly log: Log;
};

export class PushServer {
  readonly #self: NodeId;
  readonly #ports: PushServerPorts;
  readonly #detector: PushDetector;
  /** Of those that are watched: the ones that others can probe, too. */
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

  /** `members` are those without datagrams whom nobody else is known to watch. */
  start(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }> = []): boolean {
    const started = this.#detector.start(nowMs, members);
    this.#arm();
    return started;
  }

  stop(): void {
    this.#detector.stop();
    this.#probed.clear();
  }

  /** The manager that watched these is gone: wait for them here. */
  adopt(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }>): void {
    this.#detector.adopt(nowMs, members);
    this.#arm();
  }

  /** It left, or membership found its death in another way. */
  removeWorker(id: NodeId): boolean {
    this.#probed.delete(id);
    return this.#detector.removeWorker(id);
  }

  /** The news that rides on the ping, and the embedded state, are for the owner. */
  onPing(nowMs: number, from: Identity, ping: PushPing): Outcome<PushAck> {
    const { id, generation } = from;
    const life = { generation, incarnation: ping.incarnation };
    if (!this.#detector.running) return failure('NOT_LEADER', 'this node does not take heartbeats now', 'no');
    if (this.#detector.isFull && !this.#detector.isMonitored(id)) {
      return failure('CAPACITY', 'this node watches as many workers as it may');
    }
    this.#vouch(from, life, ping.datagrams);
    const known = this.#ports.lastKnown(id);
    if (known === undefined) return failure('CAPACITY', 'membership has no room for another member');
    if (known.generation > generation) return success(this.#answer(id, ping.seq, 'superseded', known));
    const heard = this.#detector.ping(nowMs, id, life, ping.hearsYou);
    if (heard === 'registered' || heard === 'heard') {
      if (ping.datagrams) this.#probed.add(id);
      else this.#probed.delete(id);
    }
    if (heard === 'registered') this.#arm();
    const isBelieved = known.state === 'alive' && known.incarnation === life.incarnation && heard !== 'buried';
    return success(this.#answer(id, ping.seq, isBelieved ? 'member' : 'accused', known));
  }

  expire(nowMs: number): void {
    // Not the timer that was asked for last: that one is still to come.
    if (this.#wakeMs !== undefined && this.#wakeMs - nowMs > 0.5) return;
    this.#wakeMs = undefined;
    this.#detector.expire(nowMs);
    this.#arm();
  }

  /** We were not listening for this long: nobody is to be blamed for it. */
  discountPause(nowMs: number, pauseMs: number): void {
    this.#detector.discountPause(nowMs, pauseMs);
  }

  /** Work may be sent: the worker is heard here, and says that it hears us. */
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

  /** Says of a member what it says of itself, if that is news. */
  #vouch(from: Identity, life: MemberLife, datagrams: boolean): void {
    const known = this.#ports.lastKnown(from.id);
    const { id, name, host, port, generation, roles, dc } = from;
    const watchedBy = datagrams ? undefined : this.#self;
    const entry = { id, name, host, port, generation, roles, dc, watchedBy };
    const claim = this.#claim(known === undefined ? 'join' : 'alive', id, life, entry);
    if (known === undefined || supersedes(claim, known)) this.#ports.applyClaim(claim, 'it pings us');
  }

  #vote(death: DetectedDeath): void {
    const kind = this.#probed.has(death.id) ? 'suspect' : 'dead';
    const why = `no heartbeat for ${Math.round(death.silentMs)} ms`;
    // Nobody else can judge a member that is not probed: the verdict of the one it pings counts for all at once. That
    // of one who only waited for it does not: it may still ping somebody whom we cannot hear.
    const refused = kind === 'dead' && death.wasHeard;
    this.#ports.applyClaim({ ...this.#claim(kind, death.id, death, undefined), refused }, why);
  }

  #claim(kind: ClaimKind, id: NodeId, { generation, incarnation }: MemberLife, entry: Claim['entry']): Claim {
    return { kind, id, generation, incarnation, by: this.#self, refused: false, entry };
  }

  #answer(id: NodeId, seq: number, verdict: PushAck['verdict'], known: MemberStatus): PushAck {
    return { kind: 'pushAck', seq, verdict, known: known.incarnation, ...this.#ports.ackContent(id) };
  }

  #arm(): void {
    const { nextMs } = this.#detector;
    if (nextMs === undefined || (this.#wakeMs !== undefined && this.#wakeMs <= nextMs)) return;
    this.#wakeMs = nextMs;
    this.#ports.wake(nextMs);
  }
}
