/**
 * The endpoint of a program in a thread or process. Queues messages, bounded, until the program sets its receiver.
 */
import { RemusterError } from '../../base/errors.ts';
import type { ProgramEndpoint } from '../../base/ports.ts';
import { systemClock } from './clock.ts';

const earlyMessagesMax = 100_000;

export type ProgramChannel = { readonly channel: ProgramEndpoint; readonly receive: (body: Uint8Array) => void };

export function programChannel(data: Uint8Array, send: ProgramEndpoint['send']): ProgramChannel {
  let handler: ((body: Uint8Array) => void) | undefined;
  let queued: Uint8Array[] = [];
  const channel: ProgramEndpoint = {
    data,
    clock: systemClock(),
    send,
    receive: (next) => {
      handler = next;
      const early = queued;
      queued = [];
      // In a microtask: the program that calls this may not be initialized yet.
      for (const body of early) queueMicrotask(() => next(body));
    },
  };
  const receive = (body: Uint8Array): void => {
    if (handler !== undefined) handler(body);
    else if (queued.length < earlyMessagesMax) queued.push(body);
    else throw new RemusterError('CAPACITY', `the program does not receive: ${earlyMessagesMax} messages wait for it`);
  };
  return { channel, receive };
}

export type ProgramModule = { readonly main: (channel: ProgramEndpoint) => void };

export async function importProgram(moduleUrl: string): Promise<ProgramModule> {
  const module: unknown = await import(moduleUrl);
  if (typeof module === 'object' && module !== null && 'main' in module && typeof module.main === 'function') {
    return module as ProgramModule;
  }
  throw new RemusterError('BAD_ARGUMENT', `the program ${moduleUrl.slice(0, 200)} has no export \`main\``);
}
