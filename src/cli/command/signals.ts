/**
 * Signals of a long-running command: the first asks for an orderly stop, the second exits. Ctrl-C is 130, SIGTERM 0.
 */
import { exitFailed, exitInterrupted, exitOk } from './exit.ts';

export type StopRequest = { readonly reason: string; readonly exitCode: number };

const terminalSignals = ['SIGINT', 'SIGHUP'] as const;

const endInterrupted = (): never => process.exit(exitInterrupted);

/** For commands that have nothing to tidy up: Ctrl-C ends them with 130. Those that stay up replace this. */
export function exitOnInterrupt(): void {
  process.on('SIGINT', endInterrupted);
}

/** For commands that only watch what goes on by itself: Ctrl-C says so, and ends them with 130. */
export function printOnInterrupt(lastWords: () => void): void {
  process.off('SIGINT', endInterrupted);
  process.on('SIGINT', () => {
    lastWords();
    endInterrupted();
  });
}

/** Calls `first` once. A later signal exits at once, after `hurry` has had its say. */
export function onStopSignals(first: (stopping: StopRequest) => void, hurry: () => void): void {
  const heard = hearing(first, hurry);
  process.on('SIGTERM', () => heard('SIGTERM'));
  for (const signal of terminalSignals) process.on(signal, () => heard(signal));
}

/**
 * The same for a process that another one of ours started. Ctrl-C and a closing terminal reach the whole group at
 * once; they are left to the parent, which stops its children in order.
 */
export function onStopSignalsAsChild(first: (stopping: StopRequest) => void, hurry: () => void): void {
  const heard = hearing(first, hurry);
  process.on('SIGTERM', () => heard('SIGTERM'));
  for (const signal of terminalSignals) process.on(signal, () => undefined);
}

function hearing(first: (stopping: StopRequest) => void, hurry: () => void): (signal: NodeJS.Signals) => void {
  process.off('SIGINT', endInterrupted);
  let asked = false;
  return (signal) => {
    if (asked) {
      hurry();
      process.exit(signal === 'SIGINT' ? exitInterrupted : exitFailed);
    }
    asked = true;
    first({ reason: signal, exitCode: signal === 'SIGINT' ? exitInterrupted : exitOk });
  };
}
