/**
 * Thread in a runner that ends the process when its parent is gone or stalled, even when user code loops. Imports
 * nothing of ours, because every runner waits for it.
 */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';

const lookEveryMs = 250;
const { parentPid, silenceMsMax, beatFd } = workerData as Readonly<
  Record<'parentPid' | 'silenceMsMax' | 'beatFd', number>
>;
let heardMs = performance.now();
let lookedMs = heardMs;

function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

const beats = new Socket({ fd: beatFd, readable: true, writable: false });
beats.on('data', () => {
  heardMs = performance.now();
});
beats.on('end', end);
beats.on('error', end);

setInterval(() => {
  const nowMs = performance.now();
  // Who did not run itself has no right to complain: the parent may have been stopped together with it.
  heardMs += Math.max(0, nowMs - lookedMs - 4 * lookEveryMs);
  lookedMs = nowMs;
  if (process.ppid !== parentPid || nowMs - heardMs > silenceMsMax) end();
}, lookEveryMs);
