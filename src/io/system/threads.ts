/**
 * The Threads port on worker threads. Thread and parent share no memory: they exchange messages, whose bodies are
 * copied once and transferred.
 */
import { Worker } from 'node:worker_threads';
import type { ProgramEvents, RunningProgram, Threads } from '../../base/ports.ts';
import { threadEnvironment } from './compile-cache.ts';
import { entryUrl } from './entry-url.ts';

export function openThreads(): Threads {
  return {
    start: ({ name, program, data }, events) => {
      const worker = new Worker(entryUrl(import.meta.url, 'thread-main'), {
        name,
        workerData: { moduleUrl: program.moduleUrl, data: data.slice() },
        env: threadEnvironment(),
        execArgv: [],
      });
      return follow(worker, events);
    },
  };
}

function follow(worker: Worker, events: ProgramEvents): RunningProgram {
  let reason: string | undefined;
  let hasExited = false;
  worker.on('message', (bodies: readonly Uint8Array[]) => {
    for (const body of bodies) events.message(body);
  });
  worker.on('messageerror', (error) => {
    reason ??= `a message could not be read: ${error.message}`;
    void worker.terminate();
  });
  worker.on('error', (error: unknown) => {
    reason ??= `error: ${error instanceof Error ? error.message : String(error)}`;
  });
  worker.once('exit', (code) => {
    hasExited = true;
    events.exited(reason ?? (code === 0 ? 'ended by itself' : `ended with exit code ${code}`));
  });
  return {
    send: (body) => {
      if (hasExited) return;
      const copy = body.slice();
      worker.postMessage(copy, [copy.buffer]);
    },
    kill: () => {
      if (hasExited) return;
      reason ??= 'killed';
      void worker.terminate();
    },
  };
}
