/** Installs Debian programs that tests and benches need. Nothing of the product uses it. */
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type DebianPackage = {
  readonly packageName: string;
  readonly command: string;
  /** Words with which it says its version and ends well; undefined: it never ends well, so it is enough that it begins. */
  readonly check: readonly string[] | undefined;
};

const installMs = 180_000;
const lockCommand = 'flock';

/** Undefined when the program is there now, otherwise why it is not. `told` hears of an installation before it begins. */
export function installDebianPackage(program: DebianPackage, told: (text: string) => unknown): string | undefined {
  const { packageName, command, check } = program;
  if (runs(command, check)) return undefined;
  const how = `install the Debian package ${packageName} by hand, or run this as root with a package mirror in reach`;
  if (process.getuid?.() !== 0 || !runs('apt-get', ['--version']))
    return `${command} is not installed, and only root can install it with apt-get: ${how}`;
  told(`installing the Debian package ${packageName}`);
  const lines = install(packageName);
  return runs(command, check) ? undefined : `apt-get could not install ${packageName}: ${how}\n${lines}`;
}

/** One at a time on this machine, because test files run side by side and apt-get refuses to wait for itself. */
function install(packageName: string): string {
  const steps = `apt-get install -y "$0" || { apt-get update && apt-get install -y "$0"; }`;
  const words = [join(tmpdir(), 'remuster-apt.lock'), 'sh', '-c', steps, packageName];
  // A package that is a service would be started at once; at this run level none is.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  try {
    execFileSync(lockCommand, words, { stdio: 'pipe', env, timeout: installMs });
    return '';
  } catch (error) {
    return String((error as { stderr?: unknown }).stderr ?? error).trim();
  }
}

function runs(file: string, words: readonly string[] | undefined): boolean {
  try {
    execFileSync(file, words ?? [], { stdio: 'ignore' });
    return true;
  } catch (error) {
    return words === undefined && (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}
