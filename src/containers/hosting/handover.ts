/**
 * The owner's side of a move: plug, drain, `workRemaining`, `migrate`, record `handed`. After `handed` the owner never
 * serves under this fence again. Before, it can cancel; while the record update is pending its outcome decides.
 *
 *   plugged -> drained -> no work remaining -> migrate -> recorded as handed -> ended
 *      +---------+---------------+----timeout-----+-> move cancelled -> resumed
 */
import type { Outcome } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import type { ContainerMove, ContainerRecord } from '../../placement/state/container-records.ts';
import type { OwnedContainerChange } from '../contract.ts';
import type { NodeInfo } from '../module.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { HostingPorts } from './hosting-ports.ts';
import type { Activation } from './activation.ts';

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

  constructor(parts: HandoverParts) {
    this.#parts = parts;
    this.move = parts.move;
    this.#deadlineMs = parts.ports.clock.nowMs() + parts.limits.drainMs;
  }

  start(): void {
    const { ports, limits, activation } = this.#parts;
    this.#cancelDeadline = ports.clock.schedule(limits.drainMs, () => {
      this.#cancelMove(`the container did not drain within ${limits.drainMs} ms`);
    });
    activation.plug();
    activation.whenIdle(() => this.#onDrained());
  }

  /** The leader has cancelled the move. No effect once the record may have the step `handed`. */
  cancel(): void {
    if (this.#step === 'draining') this.#resume('the leader cancelled the move');
  }

  /** The activation has ended: stops all timers. */
  stop(): void {
    this.#step = 'ended';
    this.#cancelDeadline?.();
    this.#cancelWait?.();
  }

  #onDrained(): void {
    const { activation, limits, ports } = this.#parts;
    if (this.#step !== 'draining') return;
    const { definition } = activation;
    if (definition.workRemaining === undefined) return this.#migrate();
    let remaining = 0;
    this.#run(
      'workRemaining',
      (ctx) => {
        remaining = definition.workRemaining?.(ctx) ?? 0;
      },
      () => {
        if (!(remaining > 0)) return this.#migrate();
        this.#cancelWait = ports.clock.schedule(limits.workPollMs, () => activation.whenIdle(() => this.#onDrained()));
      },
    );
  }

  #migrate(): void {
    const { activation } = this.#parts;
    const { definition } = activation;
    if (definition.migrate === undefined) return this.#record();
    this.#run(
      'migrate',
      (ctx) => definition.migrate?.(ctx, this.#destination()),
      () => this.#record(),
    );
  }

  #run(name: string, run: Parameters<Activation['run']>[0]['run'], then: () => void): void {
    const { activation, ports } = this.#parts;
    const timeMsMax = Math.max(1, this.#deadlineMs - ports.clock.nowMs());
    const done = (outcome: Outcome<void>): void => {
      if (this.#step !== 'draining') return;
      if (outcome.ok) then();
      else this.#cancelMove(`${name} failed: ${outcome.error.message}`);
    };
    activation.run({ name, timeMsMax, run, done });
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
    this.#cancelDeadline?.();
    this.#cancelWait?.();
    const note = `the move to ${this.#destination().name} was cancelled: ${reason}`;
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
