/**
 * Watches many workers by their pings, with a deadline each; a death is reported once per life. Only votes: membership
 * decides.
 *
 *                first ping of a member, or seeded         a ping moves the deadline
 *   unknown ------------------------------------> watched <-------------------------+
 *      ^                                           |   |                            |
 *      +------------- removeWorker, stop ----------+   +-- deadline --> buried -----+ only in a later life
 *
 * Each worker has a deadline of its own, so a death is noticed when it is due and not at the next look around. A death
 * is told once: membership hears of it first, then the callback, so whoever reassigns work no longer finds the dead
 * one. A buried life stays buried whatever pings of it still arrive. The detector only votes, it owns no membership:
 * whom it may watch, membership says; that the pings are authentic, the transport. Time enters by argument and never
 * goes back.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Log } from '../../base/ports.ts';
import { DeadlineQueue } from '../../base/deadline-queue.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';

/** A restart begins a new generation; within one, a worker that was given up returns with a higher incarnation. */
export type MemberLife = { readonly generation: number; readonly incarnation: number };

export type DetectedDeath = MemberLife & {
  readonly id: NodeId;
  readonly reason: 'silent' | 'restarted';
  /** Since its last ping, or since we began to wait for the first. */
  readonly silentMs: number;
  /** False when it was adopted and never pinged here. */
  readonly wasHeard: boolean;
};

export type PushDetectorPorts = {
  /** Only members are watched: an unknown id registers with membership, not here. */
  readonly isMember: (id: NodeId) => boolean;
  /** The vote, before the callback. Not for a restart, of which membership knows by the new life. */
  readonly voteDead: (death: DetectedDeath) => void;
  /** The callback: once per life. It may throw, and may call the detector. */
  readonly onDead: (death: DetectedDeath) => void;
  readonly log: Log;
};

export type PingResult = 'registered' | 'heard' | 'unknown' | 'stale' | 'buried' | 'full' | 'stopped';

type Worker = {
  life: MemberLife;
  readonly sinceMs: number;
  heardMs: number | undefined;
  hearsUsMs: number | undefined;
  deadlineMs: number;
};

const slotsPerTimeout = 32;

export class PushDetector {
  readonly #timing: HeartbeatTiming;
  readonly #workersMax: number;
  readonly #ports: PushDetectorPorts;
  readonly #workers = new Map<NodeId, Worker>();
  readonly #dead: BoundedLru<NodeId, MemberLife>;
  readonly #wheel: DeadlineQueue<NodeId>;
  #running = false;
  #callbackErrors = 0;

  constructor(timing: HeartbeatTiming, workersMax: number, ports: PushDetectorPorts) {
    this.#timing = timing;
    this.#workersMax = workersMax;
    this.#ports = ports;
    this.#dead = new BoundedLru(workersMax);
    this.#wheel = new DeadlineQueue(timing.timeoutMs / slotsPerTimeout);
  }

  /** Begins, with the members that membership already knows. False, and a warning, when it has begun before. */
  start(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }> = []): boolean {
    if (this.#running) {
      this.#ports.log('warn', 'the push detector is already running');
      return false;
    }
    this.#running = true;
    this.adopt(nowMs, members);
    return true;
  }

  /** Watches nobody any more. Who was buried stays buried for a later start. */
  stop(): void {
    this.#running = false;
    this.#workers.clear();
    this.#wheel.clear();
  }

  /** Waits for members that never pinged here, after a change of manager: who died meanwhile is missed all the same. */
  adopt(nowMs: number, members: Iterable<MemberLife & { readonly id: NodeId }>): void {
    if (!this.#running) return;
    for (const { id, generation, incarnation } of members) {
      if (this.#workers.has(id) || !this.#ports.isMember(id)) continue;
      const refused = this.#refusal(id, { generation, incarnation });
      if (refused !== undefined) this.#ports.log('warn', 'a member cannot be watched', { id, refused });
      else this.#watch(nowMs, id, { generation, incarnation }, this.#timing.graceMs);
    }
  }

  /** A sign of life. `hearsUs` says that our answers reach the worker too. */
  ping(nowMs: number, id: NodeId, life: MemberLife, hearsUs = false): PingResult {
    if (!this.#running) return 'stopped';
    if (!this.#ports.isMember(id)) return 'unknown';
    let worker = this.#workers.get(id);
    if (worker !== undefined && isBefore(life, worker.life)) return 'stale';
    if (worker !== undefined && life.generation > worker.life.generation) {
      this.#end(nowMs, id, worker, 'restarted');
      worker = this.#workers.get(id);
    }
    const isFirst = worker?.heardMs === undefined;
    if (worker === undefined) {
      const refused = this.#refusal(id, life);
      if (refused !== undefined) return refused;
      worker = this.#watch(nowMs, id, life, this.#timing.timeoutMs);
    }
    worker.life = life;
    worker.heardMs = nowMs;
    if (hearsUs) worker.hearsUsMs = nowMs;
    this.#await(nowMs, id, worker, nowMs + this.#timing.timeoutMs);
    if (isFirst) this.#ports.log('info', 'worker registered', { id, ...life });
    return isFirst ? 'registered' : 'heard';
  }

  /** It left in good order: no callback. */
  removeWorker(id: NodeId): boolean {
    this.#wheel.delete(id);
    return this.#workers.delete(id);
  }

  /** When `expire` should be called next. */
  get nextMs(): number | undefined {
    return this.#wheel.nextMs;
  }

  /** Buries those whose deadline has come. */
  expire(nowMs: number): void {
    for (const id of this.#wheel.due(nowMs)) {
      const worker = this.#workers.get(id);
      // A callback just before may have removed it, or heard from it.
      if (worker === undefined || worker.deadlineMs > nowMs) continue;
      this.#end(nowMs, id, worker, 'silent');
    }
  }

  /** We were not listening for this long: nobody is to be blamed for it. */
  discountPause(nowMs: number, pauseMs: number): void {
    for (const [id, worker] of this.#workers) this.#await(nowMs, id, worker, worker.deadlineMs + pauseMs);
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
    const heardMs = this.#workers.get(id)?.heardMs;
    return heardMs === undefined ? -1 : nowMs - heardMs;
  }

  /** Which directions of the line to a worker have proved to work of late. Work needs both. */
  directions(nowMs: number, id: NodeId): { readonly heardByUs: boolean; readonly hearsUs: boolean } {
    const worker = this.#workers.get(id);
    const isFresh = (atMs: number | undefined) => atMs !== undefined && nowMs - atMs < this.#timing.timeoutMs;
    return { heardByUs: isFresh(worker?.heardMs), hearsUs: isFresh(worker?.hearsUsMs) };
  }

  #refusal(id: NodeId, life: MemberLife): 'buried' | 'full' | undefined {
    const buried = this.#dead.peek(id);
    if (buried !== undefined && !isBefore(buried, life)) return 'buried';
    return this.isFull ? 'full' : undefined;
  }

  #watch(nowMs: number, id: NodeId, life: MemberLife, waitMs: number): Worker {
    const worker = { life, sinceMs: nowMs, heardMs: undefined, hearsUsMs: undefined, deadlineMs: 0 };
    this.#workers.set(id, worker);
    this.#await(nowMs, id, worker, nowMs + waitMs);
    return worker;
  }

  #await(nowMs: number, id: NodeId, worker: Worker, deadlineMs: number): void {
    worker.deadlineMs = deadlineMs;
    this.#wheel.set(nowMs, id, deadlineMs);
  }

  #end(nowMs: number, id: NodeId, worker: Worker, reason: DetectedDeath['reason']): void {
    this.removeWorker(id);
    this.#dead.set(id, worker.life);
    const wasHeard = worker.heardMs !== undefined;
    const death = { id, ...worker.life, reason, silentMs: nowMs - (worker.heardMs ?? worker.sinceMs), wasHeard };
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
