/**
 * The entry of the command line. It only switches on the cache of compiled code, which must happen before anything
 * else is imported, and hands over.
 */
import { cacheCompiledCode } from '../io/system/compile-cache.ts';

cacheCompiledCode();
const { runCommandLine } = await import('./command-line.ts');
await runCommandLine(process.argv.slice(2), import.meta.filename);
