/** Ready once, ended once, for one reason. All callers of `stop` await the same shutdown. Closes nothing itself. */
import { RemusterError } from '../../base/errors.ts';

export type NodeExit = { readonly reason: string; readonly error?: unknown };

export class NodeLifecycle {
  /** Rejects if the node ends before it is ready. */
  readonly ready: Promise<void>;
  readonly ended: Promise<NodeExit>;
  readonly #close: (exit: NodeExit) => Promise<void>;
  readonly #becameReady = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<NodeExit>();
  #exit: NodeExit | undefined;

  constructor(close: (exit: NodeExit) => Promise<void>) {
    this.#close = close;
    this.ready = this.#becameReady.promise;
    this.ended = this.#end.promise;
    // An owner that does not await readiness must not get an unhandled rejection.
    this.ready.catch(() => {});
  }

  /** The reason of the stop; 'stopped' before. */
  get reason(): string {
    return this.#exit?.reason ?? 'stopped';
  }

  joined(): void {
    this.#becameReady.resolve();
  }

  async stop(reason: string, error?: unknown): Promise<void> {
    if (this.#exit === undefined) {
      this.#exit = error === undefined ? { reason } : { reason, error };
      this.#becameReady.reject(new RemusterError('CANCELLED', `the node ended before it was ready: ${reason}`));
      await this.#close(this.#exit);
      this.#end.resolve(this.#exit);
    }
    await this.ended;
  }
}
