/** Entry file of the command line: enables the compile cache, then imports everything else. */
import { cacheCompiledCode } from '../io/system/compile-cache.ts';

cacheCompiledCode();
const { runCommandLine } = await import('./command-line.ts');
await runCommandLine(process.argv.slice(2), import.meta.filename);
