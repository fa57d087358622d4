/**
 * Owns the ends of units until a leader acknowledges them: resends each with backoff, and at once to a new leader.
 * Sends only the latest progress, at most every 100 ms, and never resends it.
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
  request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  /** The leader reports these attempts as superseded. */
  stop(ids: readonly AttemptId[]): void;
  /** Every end is acknowledged. */
  allAcknowledged(): void;
};

type PendingEnd = { readonly report: UnitReport; readonly bytes: number; isAcknowledged: boolean };

const progressEveryMs = 100;
/** While a message is in flight, ends are batched for this time, or until the batch is large enough. */
const batchDelayMs = 4;
const batchUnits = 64;
const batchBytes = 65_536;
const timeoutMs = 5_000;
const inFlightMax = 8;
const backoffMsMin = 100;
const backoffMsMax = 2_000;
/** Below the limit of a message. */
const messageBytesMax = 10_300_000;
/** Encoded size of a report without summary, output, failures and message. */
const overheadBytes = 320;

export class UnitReporter {
  readonly #ports: UnitReporterPorts;
  /** All ends that are not acknowledged. */
  readonly #ends = new CompactingSet<PendingEnd>();
  /** Those of `#ends` that are not in flight. */
  readonly #unsent = new CompactingSet<PendingEnd>();
  #bytes = 0;
  readonly #progressed = new CompactingSet<UnitAttempt>();
  #progressSentMs = -Infinity;
  #isProgressInFlight = false;
  #inFlight = 0;
  /** Grows with each leader: replies to messages for an earlier leader free no capacity. */
  #epoch = 0;
  #failures = 0;
  #cancelFlush: Cancel | undefined;
  #flushAtMs = Infinity;
  #isOpen = true;

  constructor(ports: UnitReporterPorts) {
    this.#ports = ports;
  }

  /** Size of the ends that are not acknowledged. */
  get unacknowledgedBytes(): number {
    return this.#bytes;
  }

  get unacknowledgedCount(): number {
    return this.#ends.size;
  }

  *unacknowledgedIds(): Iterable<AttemptId> {
    for (const { report } of this.#ends) yield report;
  }

  reportEnd(report: UnitReport): void {
    const bytes = sizeOf(report);
    const end: PendingEnd = { report, bytes, isAcknowledged: false };
    this.#ends.add(end);
    this.#unsent.add(end);
    this.#bytes += bytes;
    const isBatchFull = this.#unsent.size >= batchUnits || this.#bytes >= batchBytes;
    this.#flushAfter(this.#inFlight === 0 || isBatchFull ? 0 : batchDelayMs);
  }

  reportProgress(unit: UnitAttempt): void {
    this.#progressed.add(unit);
    const waitMs = this.#progressSentMs + progressEveryMs - this.#ports.clock.nowMs();
    this.#flushAfter(Math.max(0, waitMs));
  }

  /** Resends every end: the new leader may know none of them. */
  leaderChanged(): void {
    this.#epoch += 1;
    this.#inFlight = 0;
    this.#failures = 0;
    this.#isProgressInFlight = false;
    for (const end of this.#ends) this.#unsent.add(end);
    this.#flushAfter(0);
  }

  close(): void {
    this.#isOpen = false;
    this.#cancelFlush?.();
  }

  #flushAfter(delayMs: number): void {
    if (!this.#isOpen) return;
    const atMs = this.#ports.clock.nowMs() + delayMs;
    if (atMs >= this.#flushAtMs) return;
    this.#cancelFlush?.();
    this.#flushAtMs = atMs;
    this.#cancelFlush = this.#ports.clock.schedule(delayMs, () => {
      this.#flushAtMs = Infinity;
      this.#flush();
    });
  }

  #flush(): void {
    const leader = this.#ports.leader();
    if (leader === undefined) return this.#backOff();
    while (this.#inFlight < inFlightMax) {
      const ends = this.#takeEnds();
      const reports = this.#withProgress(ends);
      if (reports.length === 0) return;
      this.#send(leader, ends, reports);
    }
  }

  #takeEnds(): readonly PendingEnd[] {
    const ends: PendingEnd[] = [];
    let bytes = 0;
    for (const end of this.#unsent) {
      if (ends.length >= jobLimits.unitsInMessageMax || (ends.length > 0 && bytes + end.bytes > messageBytesMax)) break;
      bytes += end.bytes;
      ends.push(end);
      this.#unsent.delete(end);
    }
    return ends;
  }

  /** The ends, and if progress is due as much of it as fits into the message. */
  #withProgress(ends: readonly PendingEnd[]): readonly UnitReport[] {
    const reports = ends.map(({ report }) => report);
    const nowMs = this.#ports.clock.nowMs();
    if (this.#progressed.size === 0 || this.#isProgressInFlight) return reports;
    const waitMs = this.#progressSentMs + progressEveryMs - nowMs;
    if (waitMs > 0) {
      this.#flushAfter(waitMs);
      return reports;
    }
    let bytes = ends.reduce((total, end) => total + end.bytes, 0);
    for (const unit of this.#progressed) {
      const progress = unit.state === 'ended' ? undefined : unit.progressReport(nowMs);
      bytes += progress === undefined ? 0 : sizeOf(progress);
      if (reports.length >= jobLimits.unitsInMessageMax || bytes > messageBytesMax) break;
      this.#progressed.delete(unit);
      if (progress !== undefined) reports.push(progress);
    }
    if (reports.length > ends.length) {
      this.#progressSentMs = nowMs;
      this.#isProgressInFlight = true;
    }
    return reports;
  }

  #send(leader: Peer, ends: readonly PendingEnd[], reports: readonly UnitReport[]): void {
    const { generation } = this.#ports;
    const epoch = this.#epoch;
    const hasProgress = reports.length > ends.length;
    this.#inFlight += 1;
    const message: JobMessage = { kind: 'reportUnits', generation, reports };
    this.#ports.request(leader, message, timeoutMs, (outcome) => {
      if (epoch === this.#epoch) {
        this.#inFlight -= 1;
        if (hasProgress) this.#isProgressInFlight = false;
      }
      this.#onReply(ends, outcome, epoch === this.#epoch);
    });
  }

  #onReply(ends: readonly PendingEnd[], outcome: Outcome<JobMessage>, isCurrentLeader: boolean): void {
    const ack = outcome.ok && outcome.value.kind === 'reportUnitsAck' ? outcome.value : undefined;
    for (const [index, id] of (ack?.acknowledged ?? []).entries()) this.#acknowledge(id, ends[index]);
    if (ack !== undefined && ack.stop.length > 0) this.#ports.stop(ack.stop);
    const left = ends.filter(({ isAcknowledged }) => !isAcknowledged);
    if (isCurrentLeader && left.length > 0) {
      for (const end of left) this.#unsent.add(end);
      this.#backOff();
    } else {
      this.#failures = 0;
      if (this.#unsent.size > 0 || this.#progressed.size > 0) this.#flushAfter(0);
    }
  }

  /** `likely` is the end at the same index of the message: acknowledgements usually come in that order. */
  #acknowledge(id: AttemptId, likely: PendingEnd | undefined): void {
    const end = likely !== undefined && isOf(likely, id) ? likely : this.#find(id);
    if (end === undefined || !this.#ends.delete(end)) return;
    end.isAcknowledged = true;
    this.#unsent.delete(end);
    this.#bytes -= end.bytes;
    if (this.#ends.size === 0) this.#ports.allAcknowledged();
  }

  #find(id: AttemptId): PendingEnd | undefined {
    for (const end of this.#ends) if (isOf(end, id)) return end;
    return undefined;
  }

  #backOff(): void {
    if (this.#unsent.size === 0) return;
    const backoffMs = Math.min(backoffMsMax, backoffMsMin * 2 ** Math.min(8, this.#failures));
    this.#failures += 1;
    this.#flushAfter(backoffMs * this.#ports.random.between(0.5, 1));
  }
}

function isOf({ report }: PendingEnd, { job, workflow, unit, attempt, fence }: AttemptId): boolean {
  return (
    report.unit === unit &&
    report.job === job &&
    report.workflow === workflow &&
    report.attempt === attempt &&
    report.fence === fence
  );
}

function sizeOf({ summary, output, failures, message }: UnitReport): number {
  const bytes = (summary?.length ?? 0) + (output?.length ?? 0) + (failures?.length ?? 0);
  return overheadBytes + bytes + 3 * (message?.length ?? 0);
}
