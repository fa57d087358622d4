/**
 * Sets V8 flags for a process that shares its cores: less eager optimization and a single-threaded scavenger. Called
 * after all code is loaded.
 */
import { setFlagsFromString } from 'node:v8';

export function applyV8Flags(): void {
  optimizeHotFunctionsOnly();
  scavengeOnOneThread();
}

/**
 * The load of a node is bursty: a mass join calls hundreds of functions a few hundred times, and then hardly ever. V8
 * would optimize dozens of them during the join, in threads that take a fifth of the processor time from it. Functions
 * that are really hot are called ten times as often within a second, so they lose nothing.
 */
function optimizeHotFunctionsOnly(): void {
  setFlagsFromString('--invocation-count-for-maglev=4000');
}

/**
 * Few objects of the young generation survive, and one thread scavenges it in a millisecond. Parallel scavenger threads
 * would wait for each other and for cores that other processes use.
 */
function scavengeOnOneThread(): void {
  setFlagsFromString('--no-parallel-scavenge');
}
