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
const againMs = 50;

export class SimulatedCaller {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #driver: TimeDriver;
  readonly #open = new Set<number>();
  readonly #stopped = new Set<(node: string) => void>();
  #counter = 0;

  constructor(world: SimulatedWorld<SimulatedNode>, driver: TimeDriver) {
    this.#world = world;
    this.#driver = driver;
    world.watch((event) => {
      if (event.kind === 'stopped') for (const tell of [...this.#stopped]) tell(event.node);
    });
  }

  /** Through that node only, if one is named. */
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
    call: HandleCall,
    { callId, signal, timeoutMs = timeoutMsDefault, retryTimeoutMs }: CallOptions,
    counter: number,
    through: string | undefined,
  ): Promise<CallResult> {
    signal?.throwIfAborted();
    const { pool, method, route } = call;
    const id: CallId = callId === undefined ? { session: 'test', generation: 1, counter } : callIdOf(callId);
    const lowestPending = callId === undefined ? Math.min(...this.#open) : 0;
    const wanted = { pool, method, route, id, lowestPending, retryTimeoutMs, args: encodeValue(call.args).slice() };
    return new Promise((resolve, reject) => {
      const errand = new RetryingCall(this.#world, wanted, timeoutMs, through, (outcome) => {
        this.#stopped.delete(stopped);
        signal?.removeEventListener('abort', abort);
        if (outcome.ok) resolve(outcome.value);
        else reject(outcome.error);
      });
      const stopped = (node: string): void => errand.stopped(node);
      const abort = (): void => errand.end({ ok: false, error: new RemusterError('CANCELLED') });
      this.#stopped.add(stopped);
      signal?.addEventListener('abort', abort, { once: true });
      errand.send();
    });
  }

  #valueOf(result: CallResult): unknown {
    if ('stream' in result) return this.#itemsOf(result.stream);
    if ('value' in result) return decodeValue(result.value);
    return result.parts.map((part) => (part.ok ? decodeValue(part.value) : undefined));
  }

  /** Time passes also while the next item is waited for. */
  async *#itemsOf(flow: AsyncIterable<Uint8Array>): AsyncGenerator {
    const items = flow[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await this.#driver.runDuring(() => items.next());
      if (done === true) return;
      yield decodeValue(value);
    }
  }
}

class RetryingCall {
  readonly #world: SimulatedWorld<SimulatedNode>;
  readonly #wanted: Omit<RoutedCall, 'timeoutMs'>;
  readonly #through: string | undefined;
  readonly #done: (outcome: Outcome<CallResult>) => void;
  readonly #deadlineMs: number;
  #node: string | undefined;
  #isOpen = true;

  constructor(
    world: SimulatedWorld<SimulatedNode>,
    wanted: Omit<RoutedCall, 'timeoutMs'>,
    timeoutMs: number,
    through: string | undefined,
    done: (outcome: Outcome<CallResult>) => void,
  ) {
    this.#world = world;
    this.#wanted = wanted;
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
    const life = node === undefined ? undefined : this.#world.host(node).process;
    if (node === undefined || life === undefined) return this.#again();
    life.run(() => {
      const timeoutMs = Math.max(0, this.#deadlineMs - this.#world.timeline.nowMs);
      this.#world
        .program(node)
        ?.core?.containers?.calls.call({ ...this.#wanted, timeoutMs }, (outcome) => this.end(outcome));
    });
  }

  /** Whoever was asked may be gone without an answer. */
  stopped(node: string): void {
    if (node === this.#node) this.#again();
  }

  end(outcome: Outcome<CallResult>): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#done(outcome);
  }

  #again(): void {
    this.#world.timeline.after(againMs, () => this.send());
  }
}
