/**
 * The owner's side of a move: plug, drain, `workRemaining`, `migrate`, record `handed`. After `handed` the owner never
 * serves under this fence again. Before, it can cancel; while the record update is pending its outcome decides.
 *
 *   plugged -> drained -> no work remaining -> migrate -> recorded as handed -> ended
 *      +---------+---------------+----timeout-----+-> move cancelled -> resumed
 */
import type { Outcome } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import {
  type ContainerMove,
  type ContainerRecord,
  cancelledMoveNote,
} from '../../placement/state/container-records.ts';
import type { OwnedContainerChange } from '../contract.ts';
import type { Context, NodeInfo } from '../module.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { HostingPorts } from './hosting-ports.ts';
import type { Activation } from './activation.ts';
import { WorkDrain } from './work-drain.ts';

export type HandoverParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly change: OwnedContainerChange;
  readonly move: ContainerMove;
  readonly activation: Activation;
  readonly onHandedOver: () => void;
  readonly onCancelled: (reason: string) => void;
};

export class Handover {
  readonly move: ContainerMove;
  readonly #parts: HandoverParts;
  readonly #deadlineMs: number;
  #step: 'draining' | 'recording' | 'cancelling' | 'ended' = 'draining';
  #cancelDeadline: Cancel | undefined;
  #cancelWait: Cancel | undefined;
  readonly #drain: WorkDrain;

  constructor(parts: HandoverParts) {
    const { ports, limits, activation } = parts;
    this.#parts = parts;
    this.move = parts.move;
    this.#deadlineMs = ports.clock.nowMs() + limits.drainMs;
    this.#drain = new WorkDrain({
      ...{ clock: ports.clock, activation, workPollMs: limits.workPollMs, timeMsMax: () => this.#remainingMs() },
      drained: () => this.#migrate(),
      failed: (error) => this.#cancelMove(`workRemaining failed: ${error.message}`),
    });
  }

  start(): void {
    const { ports, limits, activation } = this.#parts;
    this.#cancelDeadline = ports.clock.schedule(limits.drainMs, () => {
      this.#cancelMove(`the container did not drain within ${limits.drainMs} ms`);
    });
    activation.plug();
    this.#drain.start();
  }

  /** The leader has cancelled the move. No effect once the record may have the step `handed`. */
  cancel(): void {
    if (this.#step === 'draining') this.#resume('the leader cancelled the move');
  }

  /** The activation has ended: stops all timers. */
  stop(): void {
    this.#step = 'ended';
    this.#drain.stop();
    this.#cancelDeadline?.();
    this.#cancelWait?.();
  }

  #migrate(): void {
    const { activation } = this.#parts;
    const { definition } = activation;
    if (this.#step !== 'draining') return;
    if (definition.migrate === undefined) return this.#record();
    const done = (outcome: Outcome<void>): void => {
      if (this.#step !== 'draining') return;
      if (outcome.ok) this.#record();
      else this.#cancelMove(`migrate failed: ${outcome.error.message}`);
    };
    const run = (ctx: Context): unknown => definition.migrate?.(ctx, this.#destination());
    activation.run({ name: 'migrate', timeMsMax: this.#remainingMs(), run, done });
  }

  #remainingMs(): number {
    return Math.max(1, this.#deadlineMs - this.#parts.ports.clock.nowMs());
  }

  #destination(): NodeInfo {
    const { to } = this.move;
    return this.#parts.ports.nodeInfo(to) ?? { id: to, name: to, containers: 0 };
  }

  #record(): void {
    const { ports, change, limits } = this.#parts;
    this.#cancelDeadline?.();
    this.#step = 'recording';
    ports.replication.updateRecord(
      change,
      change.record.fence,
      (record) => handedOver(record, this.move),
      (outcome) => {
        if (this.#step !== 'recording') return;
        if (outcome.ok && outcome.value.move?.step === 'handed') this.#onRecorded();
        else if (outcome.ok) this.#resume(outcome.value.note);
        // FENCED: there is another owner, and the table will report it. After any other error the outcome is unknown.
        else if (outcome.error.code !== 'FENCED') {
          this.#cancelWait = ports.clock.schedule(limits.retryMs, () => this.#record());
        }
      },
    );
  }

  #onRecorded(): void {
    this.stop();
    this.#parts.onHandedOver();
  }

  #cancelMove(reason: string): void {
    if (this.#step !== 'draining') return;
    const { ports, change } = this.#parts;
    this.#step = 'cancelling';
    this.#drain.stop();
    this.#cancelDeadline?.();
    this.#cancelWait?.();
    const note = cancelledMoveNote(this.#destination().name, reason);
    ports.replication.updateRecord(
      change,
      change.record.fence,
      (record) => withoutMove(record, this.move, note),
      () => {
        // Whatever the outcome: no other node may open the container before it is handed over.
        if (this.#step === 'cancelling') this.#resume(note);
      },
    );
  }

  #resume(reason: string): void {
    this.stop();
    this.#parts.onCancelled(reason);
  }
}

/** Only to a replica in the ISR, and only while the record still has the move. */
function handedOver(record: ContainerRecord, move: ContainerMove): ContainerRecord | undefined {
  if (!isSameMove(record, move)) return undefined;
  if (!record.inSync.some(({ node }) => node === move.to)) {
    return withoutMove(record, move, 'the move was cancelled: its destination is not in sync');
  }
  return { ...record, move: { ...move, step: 'handed' } };
}

function withoutMove(record: ContainerRecord, move: ContainerMove, note: string): ContainerRecord | undefined {
  return isSameMove(record, move) ? { ...record, move: undefined, note } : undefined;
}

function isSameMove(record: ContainerRecord, move: ContainerMove): boolean {
  return record.move?.step === 'handing' && record.move.to === move.to;
}
