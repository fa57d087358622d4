/**
 * Signals of a long-running command: the first requests an orderly stop, the second exits. The exit code is 130 after
 * Ctrl-C and 0 after SIGTERM.
 */
import { exitFailed, exitInterrupted, exitOk } from './exit.ts';

export type StopRequest = { readonly reason: string; readonly exitCode: number };

const terminalSignals = ['SIGINT', 'SIGHUP'] as const;

const exitInterruptedNow = (): never => process.exit(exitInterrupted);

/** For commands without clean-up: Ctrl-C exits with 130. Long-running commands replace this handler. */
export function exitOnInterrupt(): void {
  process.on('SIGINT', exitInterruptedNow);
}

/** For commands that only follow an operation of the cluster: Ctrl-C prints that it continues, and exits with 130. */
export function printOnInterrupt(notice: () => void): void {
  process.off('SIGINT', exitInterruptedNow);
  process.on('SIGINT', () => {
    notice();
    exitInterruptedNow();
  });
}

/** Calls `onFirst` on the first signal. The second calls `onSecondSignal` and exits immediately. */
export function onStopSignals(onFirst: (stopping: StopRequest) => void, onSecondSignal: () => void): void {
  const handle = signalHandler(onFirst, onSecondSignal);
  process.on('SIGTERM', () => handle('SIGTERM'));
  for (const signal of terminalSignals) process.on(signal, () => handle(signal));
}

/**
 * The same for a child process of Remuster. Ctrl-C and a closing terminal reach the whole process group: the child
 * ignores both, and the parent stops its children in order.
 */
export function onStopSignalsAsChild(onFirst: (stopping: StopRequest) => void, onSecondSignal: () => void): void {
  const handle = signalHandler(onFirst, onSecondSignal);
  process.on('SIGTERM', () => handle('SIGTERM'));
  for (const signal of terminalSignals) process.on(signal, () => undefined);
}

function signalHandler(
  onFirst: (stopping: StopRequest) => void,
  onSecondSignal: () => void,
): (signal: NodeJS.Signals) => void {
  process.off('SIGINT', exitInterruptedNow);
  let stopping = false;
  return (signal) => {
    if (stopping) {
      onSecondSignal();
      process.exit(signal === 'SIGINT' ? exitInterrupted : exitFailed);
    }
    stopping = true;
    onFirst({ reason: signal, exitCode: signal === 'SIGINT' ? exitInterrupted : exitOk });
  };
}
