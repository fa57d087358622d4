/**
 * Sets V8 flags for a process that shares its cores: less eager optimization, single-threaded scavenger. Call after all
 * code is loaded.
 */
import { setFlagsFromString } from 'node:v8';

export function applyV8Flags(): void {
  optimizeOnlyTheBusy();
  collectWithoutHelpers();
}

/**
 * A node lives in bursts: in a mass join hundreds of functions are called a few hundred times, and then hardly ever. V8
 * would optimize dozens of them in that very moment, in threads that take the processor from the join (a fifth of its
 * time). What is really busy is called ten times as often within a second, and loses nothing.
 */
function optimizeOnlyTheBusy(): void {
  setFlagsFromString('--invocation-count-for-maglev=4000');
}

/**
 * The young part of the heap has little that survives, and one thread is through with it in a millisecond. Several threads
 * would wait for each other, and for processors that others are using.
 */
function collectWithoutHelpers(): void {
  setFlagsFromString('--no-parallel-scavenge');
}
