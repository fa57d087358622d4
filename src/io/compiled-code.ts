/**
 * The cache of compiled code: types are stripped and functions compiled once, not anew by every process and each of its
 * threads. It owns whether there is one, and how a thread comes to use it. Node writes it at an orderly end, which is
 * the right moment: it is a thousand small files, and no loop that has something to do should wait for them. Without the
 * cache everything works, only slower; it holds nothing but code.
 *
 * Also when code is worth more than that: see `optimizeOnlyTheBusy`.
 */
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { setFlagsFromString } from 'node:v8';

/** For the first file of a process, before it imports anything else. */
export function cacheCompiledCode(): void {
  enableCompileCache();
}

/** The whole environment of a thread: it has the cache of its process, and nothing else of it. */
export function threadEnvironment(): Readonly<Record<string, string>> {
  const directory = getCompileCacheDir();
  // Node tells the folder of its own version, and takes the one above.
  return directory === undefined ? {} : { NODE_COMPILE_CACHE: dirname(directory) };
}

/**
 * A node lives in bursts: in a mass join hundreds of functions are called a few hundred times, and then hardly ever. V8
 * would optimize dozens of them in that very moment, in threads that take the processor from the join (a fifth of its
 * time). What is really busy is called ten times as often within a second, and loses nothing. For the whole process, and
 * only once all its code is loaded: cached code is bound to the flags under which it was made.
 */
export function optimizeOnlyTheBusy(): void {
  setFlagsFromString('--invocation-count-for-maglev=4000');
}
