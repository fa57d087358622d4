/**
 * Watches many workers by their pings, with a deadline per worker. Reports each death once per generation and
 * incarnation, first as a vote to membership, then to the callback, which therefore no longer finds the dead worker. A
 * dead incarnation stays dead whatever pings of it still arrive. Only votes: membership decides which ids are members. Owns no clock.
 *
 *                first ping of a member, or adopted        a ping moves the deadline
 *   unknown ------------------------------------> watched <-------------------------+
 *      ^                                           |   |                            |
 *      +------------- removeWorker, stop ----------+   +-- deadline --> dead -------+ only with a higher one
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Log } from '../../base/ports.ts';
import { DeadlineQueue } from '../../base/deadline-queue.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';

/** A restart has a new generation; within one, a worker that was declared dead returns with a higher incarnation. */
export type MemberLife = { readonly generation: number; readonly incarnation: number };

export type DetectedDeath = MemberLife & {
  readonly id: NodeId;
  readonly reason: 'silent' | 'restarted';
  /** Since its last ping, or since the detector began to wait for the first. */
  readonly silentMs: number;
  /** False if it was adopted and never pinged this node. */
  readonly hasPinged: boolean;
};

export type PushDetectorPorts = {
  /** Only members are watched: an unknown id must join membership first. */
  readonly isMember: (id: NodeId) => boolean;
  /** The vote, before the callback. Not for a restart, which membership knows by the new generation. */
  readonly voteDead: (death: DetectedDeath) => void;
  /** The callback: once per generation and incarnation. It may throw, and may call the detector. */
  readonly onDead: (death: DetectedDeath) => void;
  readonly log: Log;
};

export type PingResult = 'registered' | 'renewed' | 'unknown' | 'stale' | 'dead' | 'full' | 'stopped';

type Worker = {
  life: MemberLife;
  readonly sinceMs: number;
  lastPingMs: number | undefined;
  lastConfirmedMs: number | undefined;
  deadlineMs: number;
};

const slotsPerTimeout = 32;

export class PushDetector {
  readonly #timing: HeartbeatTiming;
  readonly #workersMax: number;
  readonly #ports: PushDetectorPorts;
  readonly #workers = new Map<NodeId, Worker>();
  readonly #dead: BoundedLru<NodeId, MemberLife>;
  readonly #deadlines: DeadlineQueue<NodeId>;
  #running = false;
  #callbackErrors = 0;

  constructor(timing: HeartbeatTiming, workersMax: number, ports: PushDetectorPorts) {
    this.#timing = timing;
    this.#workersMax = workersMax;
    this.#ports = ports;
    this.#dead = new BoundedLru(workersMax);
    this.#deadlines = new DeadlineQueue(timing.timeoutMs / slotsPerTimeout);
  }

  /** Starts with the members that membership already knows. False, with a warning, if it is running. */
  start(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }> = []): boolean {
    if (this.#running) {
      this.#ports.log('warn', 'the push detector is already running');
      return false;
    }
    this.#running = true;
    this.adopt(nowMs, members);
    return true;
  }

  /** Watches no worker from here on. Dead incarnations stay dead for a later start. */
  stop(): void {
    this.#running = false;
    this.#workers.clear();
    this.#deadlines.clear();
  }

  /**
   * Watches members that never pinged this node, with grace: one that died during a change of manager is detected too.
   */
  adopt(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }>): void {
    if (!this.#running) return;
    for (const { id, generation, incarnation } of members) {
      if (this.#workers.has(id) || !this.#ports.isMember(id)) continue;
      const refused = this.#refusal(id, { generation, incarnation });
      if (refused !== undefined) this.#ports.log('warn', 'a member cannot be watched', { id, refused });
      else this.#watch(nowMs, id, { generation, incarnation }, this.#timing.graceMs);
    }
  }

  /** A ping of a worker. `hearsUs`: the replies of this node reach the worker. */
  ping(nowMs: number, id: NodeId, life: MemberLife, hearsUs = false): PingResult {
    if (!this.#running) return 'stopped';
    if (!this.#ports.isMember(id)) return 'unknown';
    let worker = this.#workers.get(id);
    if (worker !== undefined && isBefore(life, worker.life)) return 'stale';
    if (worker !== undefined && life.generation > worker.life.generation) {
      this.#end(nowMs, id, worker, 'restarted');
      worker = this.#workers.get(id);
    }
    const isFirst = worker?.lastPingMs === undefined;
    if (worker === undefined) {
      const refused = this.#refusal(id, life);
      if (refused !== undefined) return refused;
      worker = this.#watch(nowMs, id, life, this.#timing.timeoutMs);
    }
    worker.life = life;
    worker.lastPingMs = nowMs;
    if (hearsUs) worker.lastConfirmedMs = nowMs;
    this.#setDeadline(nowMs, id, worker, nowMs + this.#timing.timeoutMs);
    if (isFirst) this.#ports.log('info', 'worker registered', { id, ...life });
    return isFirst ? 'registered' : 'renewed';
  }

  /** The worker has left: no callback. */
  removeWorker(id: NodeId): boolean {
    this.#deadlines.delete(id);
    return this.#workers.delete(id);
  }

  /** When `expire` should be called next. */
  get nextMs(): number | undefined {
    return this.#deadlines.nextMs;
  }

  /** Declares workers dead whose deadline has passed. */
  expire(nowMs: number): void {
    for (const id of this.#deadlines.due(nowMs)) {
      const worker = this.#workers.get(id);
      // An earlier callback of this loop may have removed the worker, or moved its deadline by a ping.
      if (worker === undefined || worker.deadlineMs > nowMs) continue;
      this.#end(nowMs, id, worker, 'silent');
    }
  }

  /** This node did not run for this long: every deadline moves by it. */
  discountPause(nowMs: number, pauseMs: number): void {
    for (const [id, worker] of this.#workers) this.#setDeadline(nowMs, id, worker, worker.deadlineMs + pauseMs);
  }

  get running(): boolean {
    return this.#running;
  }

  get monitoredCount(): number {
    return this.#workers.size;
  }

  get isFull(): boolean {
    return this.#workers.size >= this.#workersMax;
  }

  /** How often the callback threw. */
  get callbackErrors(): number {
    return this.#callbackErrors;
  }

  isMonitored(id: NodeId): boolean {
    return this.#workers.has(id);
  }

  /** -1 for a worker that is not watched or never pinged. */
  timeSinceLastHeartbeatMs(nowMs: number, id: NodeId): number {
    const lastPingMs = this.#workers.get(id)?.lastPingMs;
    return lastPingMs === undefined ? -1 : nowMs - lastPingMs;
  }

  /** Which directions between this node and a worker have worked within the timeout. A dispatch needs both. */
  directions(nowMs: number, id: NodeId): { readonly heardByUs: boolean; readonly hearsUs: boolean } {
    const worker = this.#workers.get(id);
    const isFresh = (atMs: number | undefined) => atMs !== undefined && nowMs - atMs < this.#timing.timeoutMs;
    return { heardByUs: isFresh(worker?.lastPingMs), hearsUs: isFresh(worker?.lastConfirmedMs) };
  }

  #refusal(id: NodeId, life: MemberLife): 'dead' | 'full' | undefined {
    const dead = this.#dead.peek(id);
    if (dead !== undefined && !isBefore(dead, life)) return 'dead';
    return this.isFull ? 'full' : undefined;
  }

  #watch(nowMs: number, id: NodeId, life: MemberLife, waitMs: number): Worker {
    const worker = { life, sinceMs: nowMs, lastPingMs: undefined, lastConfirmedMs: undefined, deadlineMs: 0 };
    this.#workers.set(id, worker);
    this.#setDeadline(nowMs, id, worker, nowMs + waitMs);
    return worker;
  }

  #setDeadline(nowMs: number, id: NodeId, worker: Worker, deadlineMs: number): void {
    worker.deadlineMs = deadlineMs;
    this.#deadlines.set(nowMs, id, deadlineMs);
  }

  #end(nowMs: number, id: NodeId, worker: Worker, reason: DetectedDeath['reason']): void {
    this.removeWorker(id);
    this.#dead.set(id, worker.life);
    const hasPinged = worker.lastPingMs !== undefined;
    const death = { id, ...worker.life, reason, silentMs: nowMs - (worker.lastPingMs ?? worker.sinceMs), hasPinged };
    this.#ports.log('warn', 'worker failed', death);
    if (reason === 'silent') this.#ports.voteDead(death);
    try {
      this.#ports.onDead(death);
    } catch (error) {
      this.#callbackErrors += 1;
      this.#ports.log('error', 'the callback of the push detector threw', { id, error: String(error) });
    }
  }
}

function isBefore(a: MemberLife, b: MemberLife): boolean {
  return a.generation === b.generation ? a.incarnation < b.incarnation : a.generation < b.generation;
}
