/** Ready once, ended once, for one reason. All callers of `stop` await the same shutdown. Closes nothing itself. */
import { RemusterError } from '../../base/errors.ts';

export type NodeExit = { readonly reason: string; readonly error?: unknown };

export class NodeLifecycle {
  /** Rejects when the node ends before it was ready. */
  readonly ready: Promise<void>;
  readonly ended: Promise<NodeExit>;
  readonly #close: (ending: NodeExit) => Promise<void>;
  readonly #readiness = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<NodeExit>();
  #ending: NodeExit | undefined;

  constructor(close: (ending: NodeExit) => Promise<void>) {
    this.#close = close;
    this.ready = this.#readiness.promise;
    this.ended = this.#end.promise;
    // An owner that does not wait for readiness must not be punished for its absence.
    this.ready.catch(() => {});
  }

  /** Why it ends, once it does. */
  get reason(): string {
    return this.#ending?.reason ?? 'stopped';
  }

  joined(): void {
    this.#readiness.resolve();
  }

  async stop(reason: string, error?: unknown): Promise<void> {
    if (this.#ending === undefined) {
      this.#ending = error === undefined ? { reason } : { reason, error };
      this.#readiness.reject(new RemusterError('CANCELLED', `the node ended before it was ready: ${reason}`));
      await this.#close(this.#ending);
      this.#end.resolve(this.#ending);
    }
    await this.ended;
  }
}
