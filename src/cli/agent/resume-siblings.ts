/**
 * When a dev process is killed while one of its nodes is paused, that node cannot see that its parent is gone. The
 * other nodes wake it, after making sure from its command line that the process really belongs to the same dev
 * cluster. A wake-up does nothing to a process that is not paused.
 */
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
