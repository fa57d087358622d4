/** Installs Debian programs that tests and benches need. The package itself never uses it. */
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type DebianPackage = {
  readonly packageName: string;
  readonly command: string;
  /** Arguments with which it exits with 0; undefined: no such arguments exist, so it only has to start. */
  readonly check: readonly string[] | undefined;
};

const installMs = 180_000;
const lockCommand = 'flock';

/** Returns the reason if the program cannot be installed. `onInstall` is called before an installation. */
export function installDebianPackage(program: DebianPackage, onInstall: (text: string) => unknown): string | undefined {
  const { packageName, command, check } = program;
  if (canRun(command, check)) return undefined;
  const advice = `install the Debian package ${packageName} by hand, or run this as root with access to a mirror`;
  if (process.getuid?.() !== 0 || !canRun('apt-get', ['--version']))
    return `${command} is not installed, and only root can install it with apt-get: ${advice}`;
  onInstall(`installing the Debian package ${packageName}`);
  const output = install(packageName);
  return canRun(command, check) ? undefined : `apt-get could not install ${packageName}: ${advice}\n${output}`;
}

/** One installation at a time on this machine: test files run concurrently, and apt-get fails if another one runs. */
function install(packageName: string): string {
  const steps = `apt-get install -y "$0" || { apt-get update && apt-get install -y "$0"; }`;
  const args = [join(tmpdir(), 'remuster-apt.lock'), 'sh', '-c', steps, packageName];
  // At run level 1 apt-get does not start the service of a package.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  try {
    execFileSync(lockCommand, args, { stdio: 'pipe', env, timeout: installMs });
    return '';
  } catch (error) {
    return String((error as { stderr?: unknown }).stderr ?? error).trim();
  }
}

function canRun(file: string, args: readonly string[] | undefined): boolean {
  try {
    execFileSync(file, args ?? [], { stdio: 'ignore' });
    return true;
  } catch (error) {
    return args === undefined && (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}
