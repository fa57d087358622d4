/** Sends SIGCONT to the other nodes of a dev cluster whose parent has ended, so that paused nodes detect it and end. */
import { readFileSync } from 'node:fs';
import { readDevState } from '../command/dev-state.ts';

export function resumePausedSiblings(root: string): void {
  for (const { pid } of readDevState(root)?.nodes ?? []) {
    if (pid !== process.pid && belongsTo(pid, root)) resume(pid);
  }
}

/** False on a system without /proc: a paused process is left behind rather than a foreign process signalled. */
function belongsTo(pid: number, root: string): boolean {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return args[args.indexOf('--dev-root') + 1] === root;
  } catch {
    return false;
  }
}

function resume(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // The process has ended meanwhile.
  }
}
