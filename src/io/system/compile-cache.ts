/**
 * The cache of compiled code: types are stripped and functions compiled once, not anew by every process and each of its
 * threads. It owns whether there is one, and how a thread comes to use it. Node writes it at an orderly end, which is
 * the right moment: it is a thousand small files, and no loop that has something to do should wait for them. Without the
 * cache everything works, only slower; it holds nothing but code.
 */
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';

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
