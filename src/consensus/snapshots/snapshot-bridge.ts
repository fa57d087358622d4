/**
 * Moves state between the state machine and the consensus machine, one part per turn, so that a large state delays
 * nothing else, at most one capture and one restore at a time. Decides nothing.
 */
import { type Done, failure, isRemusterError, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { StateMachine, SnapshotRestore } from '../state/state-machine.ts';
import type { ChunkedBytes } from '../state/snapshot.ts';

type SnapshotBridgeOptions = {
  readonly clock: Pick<Clock, 'schedule'>;
  readonly stateMachine: Pick<StateMachine<unknown>, 'snapshot' | 'beginRestore'>;
  /** Undefined after the last part. */
  readonly onPart: (number: number, part: Uint8Array | undefined) => void;
  /** The state machine threw while capturing or restoring. */
  readonly onFailed: (error: unknown) => void;
};

export class SnapshotBridge {
  readonly #options: SnapshotBridgeOptions;
  #capture: { readonly number: number; readonly parts: Iterator<Uint8Array> } | undefined;
  #restore: SnapshotRestore | undefined;
  #stopped = false;

  constructor(options: SnapshotBridgeOptions) {
    this.#options = options;
  }

  /** Captures the current state. */
  startCapture(number: number): void {
    this.#capture = { number, parts: this.#options.stateMachine.snapshot()[Symbol.iterator]() };
    this.captureNext();
  }

  captureNext(): void {
    const capture = this.#capture;
    if (capture === undefined) return;
    this.#inTurn(() => {
      if (this.#capture !== capture) return;
      const { done, value } = capture.parts.next();
      if (done === true) this.#capture = undefined;
      this.#options.onPart(capture.number, done === true ? undefined : value);
    });
  }

  dropCapture(): void {
    this.#capture = undefined;
  }

  restorePart(part: Uint8Array): void {
    this.#restore ??= this.#options.stateMachine.beginRestore();
    this.#restore.add(part);
  }

  finishRestore(): void {
    const restore = this.#restore ?? this.#options.stateMachine.beginRestore();
    this.#restore = undefined;
    restore.finish();
  }

  dropRestore(): void {
    this.#restore = undefined;
  }

  /** Restores the state from disk. The state machine may reject it with a coded error. */
  restoreAll({ chunks }: ChunkedBytes, done: Done<void>): void {
    const from = (at: number): void => {
      if (this.#stopped) return done(failure('CANCELLED', 'the group was stopped'));
      const chunk = chunks[at];
      const isLast = at + 1 >= chunks.length;
      try {
        if (chunk !== undefined) this.restorePart(chunk);
        if (isLast) this.finishRestore();
      } catch (error) {
        if (!isRemusterError(error)) throw error;
        return done({ ok: false, error });
      }
      if (isLast) done(success(undefined));
      else this.#inTurn(() => from(at + 1));
    };
    from(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#capture = undefined;
    this.#restore = undefined;
  }

  #inTurn(run: () => void): void {
    this.#options.clock.schedule(0, () => {
      try {
        run();
      } catch (error) {
        this.#options.onFailed(error);
      }
    });
  }
}
