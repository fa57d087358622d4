/**
 * The program's end of its channel, the same in a thread and in a process. Keeps early messages, bounded, until the
 * program listens.
 */
import { RemusterError } from '../../base/errors.ts';
import type { ProgramEndpoint } from '../../base/ports.ts';
import { systemClock } from './clock.ts';

const keptMax = 100_000;

export type ProgramChannel = { readonly channel: ProgramEndpoint; readonly receive: (body: Uint8Array) => void };

export function programChannel(data: Uint8Array, send: ProgramEndpoint['send']): ProgramChannel {
  let handler: ((body: Uint8Array) => void) | undefined;
  let kept: Uint8Array[] = [];
  const channel: ProgramEndpoint = {
    data,
    clock: systemClock(),
    send,
    receive: (next) => {
      handler = next;
      const early = kept;
      kept = [];
      // Not within the call: a program may still be setting itself up.
      for (const body of early) queueMicrotask(() => next(body));
    },
  };
  const receive = (body: Uint8Array): void => {
    if (handler !== undefined) handler(body);
    else if (kept.length < keptMax) kept.push(body);
    else throw new RemusterError('CAPACITY', `the program does not listen; ${keptMax} messages wait`);
  };
  return { channel, receive };
}

export type ProgramModule = { readonly main: (channel: ProgramEndpoint) => void };

export async function importProgram(moduleUrl: string): Promise<ProgramModule> {
  const module: unknown = await import(moduleUrl);
  if (typeof module === 'object' && module !== null && 'main' in module && typeof module.main === 'function') {
    return module as ProgramModule;
  }
  throw new RemusterError('BAD_ARGUMENT', 'the module of the program has no export `main`');
}
