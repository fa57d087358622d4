/**
 * `remuster bench NAME`: runs bench/run.ts of the repository. The published package has no benchmarks, because their
 * peers are not its dependencies, and says so.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { RemusterError } from '../base/errors.ts';
import { exitFailed } from './command/exit.ts';

export async function benchCommand(words: readonly string[], entry: string): Promise<number> {
  const runner = resolve(dirname(entry), '..', '..', 'bench', 'run.ts');
  if (!existsSync(runner)) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      'benchmarks are part of the source repository, not of the installed package',
    );
  }
  const child = spawn(process.execPath, [runner, ...words], { stdio: 'inherit' });
  return await new Promise((done, failed) => {
    child.once('error', failed);
    child.once('exit', (code) => done(code ?? exitFailed));
  });
}
