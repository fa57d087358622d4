/**
 * Owner's side of a move: plug, drain, `workRemaining`, `migrate`, record `handed`. After `handed` it never serves
 * under this fence; before, it can cancel.
 *
 *   plugged -> drained -> no work remaining -> migrate -> recorded as handed -> over
 *      +---------+---------------+----too late----+-> move withdrawn -> resumed
 *
 * Once it has asked for the record to be changed there is no way back but the answer: it may have happened.
 */
import type { Outcome } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import type { ContainerMove, ContainerRecord } from '../../placement/state/container-records.ts';
import type { ContainerChange } from '../contract.ts';
import type { NodeInfo } from '../module.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { HostingPorts } from './hosting-ports.ts';
import type { Activation } from './activation.ts';

export type HandoverParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly change: ContainerChange & { readonly record: ContainerRecord };
  readonly move: ContainerMove;
  readonly tenure: Activation;
  readonly onHandedOver: () => void;
  readonly onCancelled: (reason: string) => void;
};

export class Handover {
  readonly move: ContainerMove;
  readonly #parts: HandoverParts;
  readonly #deadlineMs: number;
  #step: 'draining' | 'recording' | 'withdrawing' | 'over' = 'draining';
  #cancelDeadline: Cancel | undefined;
  #cancelWait: Cancel | undefined;

  constructor(parts: HandoverParts) {
    this.#parts = parts;
    this.move = parts.move;
    this.#deadlineMs = parts.ports.clock.nowMs() + parts.limits.drainMs;
  }

  begin(): void {
    const { ports, limits, tenure } = this.#parts;
    this.#cancelDeadline = ports.clock.schedule(limits.drainMs, () => {
      this.#withdraw(`calls have not ended within ${limits.drainMs} ms`);
    });
    tenure.plug();
    tenure.whenIdle(() => this.#drained());
  }

  /** The leader no longer wants it. Too late when the record may already say that it is handed over. */
  cancel(): void {
    if (this.#step === 'draining') this.#resume('the move was called off');
  }

  /** The tenure has ended. */
  stop(): void {
    this.#step = 'over';
    this.#cancelDeadline?.();
    this.#cancelWait?.();
  }

  #drained(): void {
    const { tenure, limits, ports } = this.#parts;
    if (this.#step !== 'draining') return;
    const { definition } = tenure;
    if (definition.workRemaining === undefined) return this.#migrate();
    let remaining = 0;
    this.#run(
      'workRemaining',
      (ctx) => {
        remaining = definition.workRemaining?.(ctx) ?? 0;
      },
      () => {
        if (!(remaining > 0)) return this.#migrate();
        this.#cancelWait = ports.clock.schedule(limits.workPollMs, () => tenure.whenIdle(() => this.#drained()));
      },
    );
  }

  #migrate(): void {
    const { tenure } = this.#parts;
    const { definition } = tenure;
    if (definition.migrate === undefined) return this.#record();
    this.#run(
      'migrate',
      (ctx) => definition.migrate?.(ctx, this.#destination()),
      () => this.#record(),
    );
  }

  #run(name: string, run: Parameters<Activation['run']>[0]['run'], then: () => void): void {
    const { tenure, ports } = this.#parts;
    const timeMsMax = Math.max(1, this.#deadlineMs - ports.clock.nowMs());
    const done = (outcome: Outcome<void>): void => {
      if (this.#step !== 'draining') return;
      if (outcome.ok) then();
      else this.#withdraw(`${name} failed: ${outcome.error.message}`);
    };
    tenure.run({ name, timeMsMax, run, done });
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
        if (outcome.ok && outcome.value.move?.step === 'handed') this.#handed();
        else if (outcome.ok) this.#resume(outcome.value.note);
        // Somebody else has it: the table will say so. All else leaves open whether it has happened.
        else if (outcome.error.code !== 'FENCED') {
          this.#cancelWait = ports.clock.schedule(limits.retryMs, () => this.#record());
        }
      },
    );
  }

  #handed(): void {
    this.stop();
    this.#parts.onHandedOver();
  }

  #withdraw(reason: string): void {
    if (this.#step !== 'draining') return;
    const { ports, change } = this.#parts;
    this.#step = 'withdrawing';
    this.#cancelDeadline?.();
    this.#cancelWait?.();
    const note = `the move to ${this.#destination().name} was given up: ${reason}`;
    ports.replication.updateRecord(
      change,
      change.record.fence,
      (record) => withdrawn(record, this.move, note),
      () => {
        // Whatever came of it: nobody may take the container while it is not handed over.
        if (this.#step === 'withdrawing') this.#resume(note);
      },
    );
  }

  #resume(reason: string): void {
    this.stop();
    this.#parts.onCancelled(reason);
  }
}

/** Only to who has the whole state, and only while the leader still wants it. */
function handedOver(record: ContainerRecord, move: ContainerMove): ContainerRecord | undefined {
  if (!isSameMove(record, move)) return undefined;
  if (!record.inSync.some(({ node }) => node === move.to)) {
    return withdrawn(record, move, 'the move was given up: its destination is not in sync');
  }
  return { ...record, move: { ...move, step: 'handed' } };
}

function withdrawn(record: ContainerRecord, move: ContainerMove, note: string): ContainerRecord | undefined {
  return isSameMove(record, move) ? { ...record, move: undefined, note } : undefined;
}

function isSameMove(record: ContainerRecord, move: ContainerMove): boolean {
  return record.move?.step === 'handing' && record.move.to === move.to;
}
