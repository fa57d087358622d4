/**
 * A small thread inside each runner's process that ends the process when its parent is gone, or has shown no sign of life
 * for too long (it may be stopped, and others may have been given its work). The closed pipe tells the main thread the
 * same, but a program in an endless loop never hears of it; this thread has a loop of its own and a pipe of its own. It
 * also asks the kernel for the parent's id, which changes when the parent dies, however it died. It imports nothing of
 * ours, because every runner has to wait for it.
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
