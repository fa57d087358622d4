/**
 * An application outside a simulated cluster: calls pools through some node and retries through another under the same
 * call id until the deadline.
 */
import { type Outcome, RemusterError } from '../../base/errors.ts';
import type { CallId } from '../../base/ids.ts';
import { callIdOf } from '../../containers/calls/caller-session.ts';
import type { CallResult, RoutedCall } from '../../containers/contract.ts';
import type { CallOptions } from '../../containers/module.ts';
import type { HandleCall } from '../../containers/pool-handle.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import type { SimulatedNode } from './simulated-node.ts';
import type { TimeDriver } from './time-driver.ts';
import type { SimulatedWorld } from '../world/simulated-world.ts';

const timeoutMsDefault = 30_000;
const retryMs = 50;

export class SimulatedCaller {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #driver: TimeDriver;
  readonly #open = new Set<number>();
  readonly #onNodeStopped = new Set<(node: string) => void>();
  #counter = 0;

  constructor(world: SimulatedWorld<SimulatedNode>, driver: TimeDriver) {
    this.#world = world;
    this.#driver = driver;
    world.watch((event) => {
      if (event.kind === 'stopped') for (const notify of [...this.#onNodeStopped]) notify(event.node);
    });
  }

  /** Only through the node `through` if it is given. */
  call(call: HandleCall, options: CallOptions, through?: string): Promise<unknown> {
    return this.#driver.runDuring(async () => {
      const counter = ++this.#counter;
      this.#open.add(counter);
      try {
        return this.#valueOf(await this.#callUntilDone(call, options, counter, through));
      } finally {
        this.#open.delete(counter);
      }
    });
  }

  #callUntilDone(
    handleCall: HandleCall,
    { callId, signal, timeoutMs = timeoutMsDefault, retryTimeoutMs }: CallOptions,
    counter: number,
    through: string | undefined,
  ): Promise<CallResult> {
    signal?.throwIfAborted();
    const { pool, method, route } = handleCall;
    const id: CallId = callId === undefined ? { session: 'test', generation: 1, counter } : callIdOf(callId);
    const lowestPending = callId === undefined ? Math.min(...this.#open) : 0;
    const routed = {
      pool,
      method,
      route,
      id,
      lowestPending,
      retryTimeoutMs,
      args: encodeValue(handleCall.args).slice(),
    };
    return new Promise((resolve, reject) => {
      const call = new RetryingCall(this.#world, routed, timeoutMs, through, (outcome) => {
        this.#onNodeStopped.delete(stopped);
        signal?.removeEventListener('abort', abort);
        if (outcome.ok) resolve(outcome.value);
        else reject(outcome.error);
      });
      const stopped = (node: string): void => call.onNodeStopped(node);
      const abort = (): void => call.end({ ok: false, error: new RemusterError('CANCELLED') });
      this.#onNodeStopped.add(stopped);
      signal?.addEventListener('abort', abort, { once: true });
      call.send();
    });
  }

  #valueOf(result: CallResult): unknown {
    if ('stream' in result) return this.#itemsOf(result.stream);
    if ('value' in result) return decodeValue(result.value);
    return result.parts.map((part) => (part.ok ? decodeValue(part.value) : undefined));
  }

  /** Virtual time also passes while the application waits for the next item. */
  async *#itemsOf(stream: AsyncIterable<Uint8Array>): AsyncGenerator {
    const items = stream[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await this.#driver.runDuring(() => items.next());
      if (done === true) return;
      yield decodeValue(value);
    }
  }
}

class RetryingCall {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #call: Omit<RoutedCall, 'timeoutMs'>;
  readonly #through: string | undefined;
  readonly #done: (outcome: Outcome<CallResult>) => void;
  readonly #deadlineMs: number;
  #node: string | undefined;
  #isOpen = true;

  constructor(
    world: SimulatedWorld<SimulatedNode>,
    call: Omit<RoutedCall, 'timeoutMs'>,
    timeoutMs: number,
    through: string | undefined,
    done: (outcome: Outcome<CallResult>) => void,
  ) {
    this.#world = world;
    this.#call = call;
    this.#through = through;
    this.#done = done;
    this.#deadlineMs = world.timeline.nowMs + timeoutMs;
    world.timeline.after(timeoutMs, () => this.end({ ok: false, error: new RemusterError('DEADLINE') }));
  }

  send(): void {
    if (!this.#isOpen) return;
    const names = this.#through === undefined ? this.#world.names : [this.#through];
    const node = names.find((name) => this.#world.program(name)?.core?.containers !== undefined);
    this.#node = node;
    const process = node === undefined ? undefined : this.#world.host(node).process;
    if (node === undefined || process === undefined) return this.#retry();
    process.run(() => {
      const timeoutMs = Math.max(0, this.#deadlineMs - this.#world.timeline.nowMs);
      this.#world
        .program(node)
        ?.core?.containers?.calls.call({ ...this.#call, timeoutMs }, (outcome) => this.end(outcome));
    });
  }

  /** The node that got the call may have stopped before it replied. */
  onNodeStopped(node: string): void {
    if (node === this.#node) this.#retry();
  }

  end(outcome: Outcome<CallResult>): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#done(outcome);
  }

  #retry(): void {
    this.#world.timeline.after(retryMs, () => this.send());
  }
}
