/**
 * Runs named background tasks that can be listed, cancelled and awaited at shutdown. A task that throws is reported
 * once and ends; it affects neither the process nor other tasks. Never restarts a task: a loop that must continue
 * catches its own errors.
 */
import { RemusterError } from '../errors.ts';
import type { Clock } from '../ports.ts';

export type TaskToken = { readonly id: number; readonly name: string };

type Task = { readonly token: TaskToken; readonly controller: AbortController; readonly ended: Promise<void> };

export type TaskRunnerOptions = {
  readonly clock: Clock;
  readonly onTaskFailed: (name: string, error: unknown) => void;
  readonly tasksMax?: number;
};

export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #tasksMax: number;
  readonly #tasks = new Map<number, Task>();
  #nextId = 1;
  #open = true;

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    this.#tasksMax = options.tasksMax ?? 10_000;
  }

  /** Starts a task. It must end when the signal aborts, in each of its waits. If cancelled before its turn, it never starts. */
  run(name: string, body: (signal: AbortSignal) => Promise<void>): TaskToken {
    if (!this.#open) throw new RemusterError('CANCELLED', `cannot start ${name}: shutting down`);
    if (this.#tasks.size >= this.#tasksMax)
      throw new RemusterError('CAPACITY', `cannot start ${name}: ${this.#tasksMax} tasks run already`);
    const token = { id: this.#nextId++, name };
    const controller = new AbortController();
    const ended = this.#lifetime(token, controller.signal, body);
    this.#tasks.set(token.id, { token, controller, ended });
    return token;
  }

  /** Aborts the task and waits for its end. Idempotent. */
  async cancel(token: TaskToken): Promise<void> {
    const task = this.#tasks.get(token.id);
    task?.controller.abort();
    await task?.ended;
  }

  get running(): readonly TaskToken[] {
    return [...this.#tasks.values()].map((task) => task.token);
  }

  /** Aborts all tasks. Returns the names of those that did not end within the deadline. */
  async stop(deadlineMs: number): Promise<{ readonly stuck: readonly string[] }> {
    this.#open = false;
    const tasks = [...this.#tasks.values()];
    for (const task of tasks) task.controller.abort();
    await Promise.race([Promise.all(tasks.map((task) => task.ended)), this.#afterMs(deadlineMs)]);
    return { stuck: this.running.map((token) => token.name) };
  }

  async #lifetime(token: TaskToken, signal: AbortSignal, body: (signal: AbortSignal) => Promise<void>): Promise<void> {
    // `run` returns and registers the task before its body starts.
    await Promise.resolve();
    try {
      if (!signal.aborted) await body(signal);
    } catch (error) {
      if (!signal.aborted) this.#options.onTaskFailed(token.name, error);
    } finally {
      this.#tasks.delete(token.id);
    }
  }

  #afterMs(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#options.clock.schedule(delayMs, resolve);
    });
  }
}
