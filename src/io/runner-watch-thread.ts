/**
 * A small thread inside each runner's process that ends the process when its parent is gone. The closed pipe tells the
 * main thread the same, but a program in an endless loop never hears of it; this thread has a loop of its own. It asks
 * the kernel for the parent's id, which changes when the parent dies, however it died.
 */
import { workerData } from 'node:worker_threads';

const lookEveryMs = 250;
const parentPid = workerData as number;

setInterval(() => {
  if (process.ppid !== parentPid) process.kill(process.pid, 'SIGKILL');
}, lookEveryMs);
