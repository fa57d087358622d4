/**
 * Thread of a runner that ends the process when its parent has died or stalled, even while user code loops. Imports
 * only built-ins, because the start of every runner waits for it.
 */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';

const checkIntervalMs = 250;
const { parentPid, parentStallMsMax, keepAliveFd } = workerData as Readonly<
  Record<'parentPid' | 'parentStallMsMax' | 'keepAliveFd', number>
>;
let lastKeepAliveMs = performance.now();
let lastCheckMs = lastKeepAliveMs;

function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

const keepAlive = new Socket({ fd: keepAliveFd, readable: true, writable: false });
keepAlive.on('data', () => {
  lastKeepAliveMs = performance.now();
});
keepAlive.on('end', end);
keepAlive.on('error', end);

setInterval(() => {
  const nowMs = performance.now();
  // Discounts the time in which this thread itself did not run: parent and runner may have been stopped together.
  lastKeepAliveMs += Math.max(0, nowMs - lastCheckMs - 4 * checkIntervalMs);
  lastCheckMs = nowMs;
  if (process.ppid !== parentPid || nowMs - lastKeepAliveMs > parentStallMsMax) end();
}, checkIntervalMs);
