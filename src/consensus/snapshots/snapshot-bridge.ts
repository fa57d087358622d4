/**
 * Moves state between the state machine and the consensus machine, one part per turn, so that a large state delays
 * nothing else, at most one capture and one restore at a time. Decides nothing.
 */
import { type Done, failure, isRemusterError, success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { StateMachine, SnapshotRestore } from '../state/state-machine.ts';
import type { ChunkedBytes } from '../state/state-bytes.ts';

type StateCarrierOptions = {
  readonly clock: Pick<Clock, 'schedule'>;
  readonly replica: Pick<StateMachine<unknown>, 'snapshot' | 'beginRestore'>;
  /** Undefined behind the last part. */
  readonly onPart: (number: number, part: Uint8Array | undefined) => void;
  /** The replica failed to give or take a part. */
  readonly failed: (error: unknown) => void;
};

export class SnapshotBridge {
  readonly #options: StateCarrierOptions;
  #leaving: { readonly number: number; readonly parts: Iterator<Uint8Array> } | undefined;
  #arriving: SnapshotRestore | undefined;
  #stopped = false;

  constructor(options: StateCarrierOptions) {
    this.#options = options;
  }

  /** The state as it is now. */
  startCapture(number: number): void {
    this.#leaving = { number, parts: this.#options.replica.snapshot()[Symbol.iterator]() };
    this.captureNext();
  }

  captureNext(): void {
    const leaving = this.#leaving;
    if (leaving === undefined) return;
    this.#inTurn(() => {
      if (this.#leaving !== leaving) return;
      const { done, value } = leaving.parts.next();
      if (done === true) this.#leaving = undefined;
      this.#options.onPart(leaving.number, done === true ? undefined : value);
    });
  }

  dropCapture(): void {
    this.#leaving = undefined;
  }

  restorePart(part: Uint8Array): void {
    this.#arriving ??= this.#options.replica.beginRestore();
    this.#arriving.add(part);
  }

  finishRestore(): void {
    const arriving = this.#arriving ?? this.#options.replica.beginRestore();
    this.#arriving = undefined;
    arriving.finish();
  }

  dropRestore(): void {
    this.#arriving = undefined;
  }

  /** What the disk had; the replica may find that it is none of its states, and say so by an error. */
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
    this.#leaving = undefined;
    this.#arriving = undefined;
  }

  #inTurn(run: () => void): void {
    this.#options.clock.schedule(0, () => {
      try {
        run();
      } catch (error) {
        this.#options.failed(error);
      }
    });
  }
}
