/** Sends SIGCONT to paused nodes of the same dev cluster after their parent died, so that they notice it. */
import { readFileSync } from 'node:fs';
import { readDevState } from '../command/dev-state.ts';

export function resumePausedSiblings(root: string): void {
  for (const { pid } of readDevState(root)?.nodes ?? []) {
    if (pid !== process.pid && belongsTo(pid, root)) wake(pid);
  }
}

/** Where the system has no /proc nobody is woken: better a paused process left than a foreign one touched. */
function belongsTo(pid: number, root: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return words[words.indexOf('--dev-root') + 1] === root;
  } catch {
    return false;
  }
}

function wake(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // It has ended meanwhile.
  }
}
