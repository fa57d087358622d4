/**
 * The cache of compiled code: types are stripped and functions compiled once, not anew by every process and each of its
 * threads. It owns whether there is one, how a thread comes to use it, and that it is written: Node does so at an
 * orderly end, which is late for a node that runs for months, and never comes for one that is killed. Without the cache
 * everything works, only slower; it holds nothing but code.
 */
import { enableCompileCache, flushCompileCache, getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

/**
 * What is written once stays, so it is not written too early: by then a node has met others, and what is needed for that
 * is compiled as well.
 */
const writtenAfterMs = 30_000;

/** For the first file of a process, before it imports anything else. */
export function cacheCompiledCode(): void {
  enableCompileCache();
}

/** For what goes on running, in each of its threads: what that thread has compiled is written after a while. */
export function writeCompiledCode(): void {
  if (getCompileCacheDir() !== undefined) setTimeout(() => flushCompileCache(), writtenAfterMs).unref();
}

/** The whole environment of a thread: it has the cache of its process, and nothing else of it. */
export function threadEnvironment(): Readonly<Record<string, string>> {
  const directory = getCompileCacheDir();
  // Node tells the folder of its own version, and takes the one above.
  return directory === undefined ? {} : { NODE_COMPILE_CACHE: dirname(directory) };
}
