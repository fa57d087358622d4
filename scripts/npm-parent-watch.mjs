/** Ends an npm script when npm or its shell has exited, because npm does not forward SIGTERM. */
import { readFileSync } from 'node:fs';

const checkIntervalMs = 250;
const ancestorsMax = 4;

const lineage = [process.ppid];
while (!isNpm(lineage.at(-1)) && lineage.length < ancestorsMax) {
  const parent = parentOf(lineage.at(-1));
  if (parent === undefined || parent <= 1) break;
  lineage.push(parent);
}
// Without /proc, or if npm is not among the ancestors, only the parent is watched.
if (!isNpm(lineage.at(-1))) lineage.length = 1;

const timer = setInterval(() => {
  const isBroken = lineage.some((pid, i) => pid !== (i === 0 ? process.ppid : parentOf(lineage[i - 1])));
  if (!isBroken) return;
  clearInterval(timer);
  process.kill(process.pid, 'SIGTERM');
}, checkIntervalMs).unref();

function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

function isNpm(pid) {
  try {
    return /^npm\b|[\\/]npm(?:-cli\.js)?\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
  } catch {
    return false;
  }
}
