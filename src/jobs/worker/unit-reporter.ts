/**
 * Reports unit ends to the leader and retries until each is acknowledged, also to the next leader. Sends only the
 * latest progress, at most every 100 ms.
 */
import { CompactingSet } from '../../base/collections/compacting-map.ts';
import type { Done, Outcome } from '../../base/errors.ts';
import type { Address, Cancel, Clock, Peer } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { AttemptId, JobMessage, UnitReport } from '../../messages/jobs.ts';
import { jobLimits } from '../limits.ts';
import type { UnitAttempt } from './unit-attempt.ts';

export type UnitReporterPorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly generation: number;
  leader(): Peer | undefined;
  ask(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  /** The leader says that these are superseded. */
  stop(names: readonly AttemptId[]): void;
  /** Every end was heard. */
  allAcknowledged(): void;
};

type End = { readonly news: UnitReport; readonly bytes: number; isHeard: boolean };

const progressEveryMs = 100;
/** While the leader is busy with earlier ones, ends wait so long for others, or until they are so many. */
const gatherMs = 4;
const gatheredMax = 64;
const gatheredBytesMax = 65_536;
const timeoutMs = 5_000;
const messagesMax = 8;
const pauseMsMin = 100;
const pauseMsMax = 2_000;
/** Of one message, below what it may have. */
const bytesMax = 10_300_000;
/** What one of the news takes beside its bytes. */
const overheadBytes = 320;

export class UnitReporter {
  readonly #ports: UnitReporterPorts;
  /** All that were not heard. */
  readonly #ends = new CompactingSet<End>();
  /** Those of them that are to be told now. */
  readonly #untold = new CompactingSet<End>();
  #bytes = 0;
  readonly #progressed = new CompactingSet<UnitAttempt>();
  #progressToldMs = -Infinity;
  #isProgressOut = false;
  #messages = 0;
  /** What was sent to an earlier leader is not waited for any more. */
  #epoch = 0;
  #failures = 0;
  #flush: Cancel | undefined;
  #flushAtMs = Infinity;
  #isOpen = true;

  constructor(ports: UnitReporterPorts) {
    this.#ports = ports;
  }

  /** Of ends that nobody has heard. */
  get unacknowledgedBytes(): number {
    return this.#bytes;
  }

  get unacknowledgedCount(): number {
    return this.#ends.size;
  }

  *unacknowledgedIds(): Iterable<AttemptId> {
    for (const { news } of this.#ends) yield news;
  }

  reportEnd(news: UnitReport): void {
    const bytes = sizeOf(news);
    const end: End = { news, bytes, isHeard: false };
    this.#ends.add(end);
    this.#untold.add(end);
    this.#bytes += bytes;
    const isMany = this.#untold.size >= gatheredMax || this.#bytes >= gatheredBytesMax;
    this.#flushAfter(this.#messages === 0 || isMany ? 0 : gatherMs);
  }

  reportProgress(unit: UnitAttempt): void {
    this.#progressed.add(unit);
    const waitMs = this.#progressToldMs + progressEveryMs - this.#ports.clock.nowMs();
    this.#flushAfter(Math.max(0, waitMs));
  }

  /** Everything is told anew: the next one may know nothing of it. */
  leaderChanged(): void {
    this.#epoch += 1;
    this.#messages = 0;
    this.#failures = 0;
    this.#isProgressOut = false;
    for (const end of this.#ends) this.#untold.add(end);
    this.#flushAfter(0);
  }

  close(): void {
    this.#isOpen = false;
    this.#flush?.();
  }

  #flushAfter(delayMs: number): void {
    if (!this.#isOpen) return;
    const atMs = this.#ports.clock.nowMs() + delayMs;
    if (atMs >= this.#flushAtMs) return;
    this.#flush?.();
    this.#flushAtMs = atMs;
    this.#flush = this.#ports.clock.schedule(delayMs, () => {
      this.#flushAtMs = Infinity;
      this.#tell();
    });
  }

  #tell(): void {
    const leader = this.#ports.leader();
    if (leader === undefined) return this.#pause();
    while (this.#messages < messagesMax) {
      const ends = this.#takeEnds();
      const news = this.#takeProgress(ends);
      if (news.length === 0) return;
      this.#send(leader, ends, news);
    }
  }

  #takeEnds(): readonly End[] {
    const ends: End[] = [];
    let bytes = 0;
    for (const end of this.#untold) {
      if (ends.length >= jobLimits.unitsInMessageMax || (ends.length > 0 && bytes + end.bytes > bytesMax)) break;
      bytes += end.bytes;
      ends.push(end);
      this.#untold.delete(end);
    }
    return ends;
  }

  /** Ends, and as much progress as fits beside them, if it is time for that. */
  #takeProgress(ends: readonly End[]): readonly UnitReport[] {
    const news = ends.map((end) => end.news);
    const nowMs = this.#ports.clock.nowMs();
    if (this.#progressed.size === 0 || this.#isProgressOut) return news;
    const waitMs = this.#progressToldMs + progressEveryMs - nowMs;
    if (waitMs > 0) {
      this.#flushAfter(waitMs);
      return news;
    }
    let bytes = ends.reduce((total, end) => total + end.bytes, 0);
    for (const unit of this.#progressed) {
      const progress = unit.state === 'over' ? undefined : unit.progress(nowMs);
      bytes += progress === undefined ? 0 : sizeOf(progress);
      if (news.length >= jobLimits.unitsInMessageMax || bytes > bytesMax) break;
      this.#progressed.delete(unit);
      if (progress !== undefined) news.push(progress);
    }
    if (news.length > ends.length) {
      this.#progressToldMs = nowMs;
      this.#isProgressOut = true;
    }
    return news;
  }

  #send(leader: Peer, ends: readonly End[], reports: readonly UnitReport[]): void {
    const { generation } = this.#ports;
    const epoch = this.#epoch;
    const hasProgress = reports.length > ends.length;
    this.#messages += 1;
    const message: JobMessage = { kind: 'reportUnits', generation, reports };
    this.#ports.ask(leader, message, timeoutMs, (outcome) => {
      if (epoch === this.#epoch) {
        this.#messages -= 1;
        if (hasProgress) this.#isProgressOut = false;
      }
      this.#answered(ends, outcome, epoch === this.#epoch);
    });
  }

  #answered(ends: readonly End[], outcome: Outcome<JobMessage>, isPresent: boolean): void {
    const answer = outcome.ok && outcome.value.kind === 'reportUnitsAck' ? outcome.value : undefined;
    for (const [at, name] of (answer?.acknowledged ?? []).entries()) this.#heard(name, ends[at]);
    if (answer !== undefined && answer.stop.length > 0) this.#ports.stop(answer.stop);
    const left = ends.filter(({ isHeard }) => !isHeard);
    if (isPresent && left.length > 0) {
      for (const end of left) this.#untold.add(end);
      this.#pause();
    } else {
      this.#failures = 0;
      if (this.#untold.size > 0 || this.#progressed.size > 0) this.#flushAfter(0);
    }
  }

  /** `likely`: what was told in its place. */
  #heard(name: AttemptId, likely: End | undefined): void {
    const end = likely !== undefined && isOf(likely, name) ? likely : this.#find(name);
    if (end === undefined || !this.#ends.delete(end)) return;
    end.isHeard = true;
    this.#untold.delete(end);
    this.#bytes -= end.bytes;
    if (this.#ends.size === 0) this.#ports.allAcknowledged();
  }

  #find(name: AttemptId): End | undefined {
    for (const end of this.#ends) if (isOf(end, name)) return end;
    return undefined;
  }

  #pause(): void {
    if (this.#untold.size === 0) return;
    const pauseMs = Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(8, this.#failures));
    this.#failures += 1;
    this.#flushAfter(pauseMs * this.#ports.random.between(0.5, 1));
  }
}

function isOf({ news }: End, { job, workflow, unit, attempt, fence }: AttemptId): boolean {
  return (
    news.unit === unit &&
    news.job === job &&
    news.workflow === workflow &&
    news.attempt === attempt &&
    news.fence === fence
  );
}

function sizeOf({ summary, output, failures, message: why }: UnitReport): number {
  const bytes = (summary?.length ?? 0) + (output?.length ?? 0) + (failures?.length ?? 0);
  return overheadBytes + bytes + 3 * (why?.length ?? 0);
}
