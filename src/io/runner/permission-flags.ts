/**
 * Node flags of a runner process: permission model, switched-off built-ins, heap limit. Denies everything but reading
 * our own sources, which the process gives up once the program is imported. Decides only what Node itself denies.
 */
import { fileURLToPath } from 'node:url';
import type { RunnerLimits } from '../../base/ports.ts';

const mebibyte = 2 ** 20;
/** What Node itself needs outside the heap of the program. */
const overheadBytes = 64 * mebibyte;
export const runnerMemoryBytesMin = 96 * mebibyte;

/** Node 24 has no switch for the network: there a runner can be denied everything else, but not that. */
export const canDenyNetwork = process.allowedNodeEnvironmentFlags.has('--allow-net');

/** Since Node 26 a process can give a right up later, too. */
export const canDropNetwork = canDenyNetwork && Number.parseInt(process.versions.node, 10) >= 26;

const switchedOff = ['--no-experimental-sqlite', '--no-experimental-webstorage', '--no-experimental-ffi'];

export function runnerFlags(moduleUrl: string, limits: RunnerLimits): string[] {
  const heapMb = Math.floor((limits.memoryBytesMax - overheadBytes) / mebibyte);
  return [
    '--permission',
    '--allow-worker',
    ...(limits.network && canDenyNetwork ? ['--allow-net'] : []),
    ...readablePaths(moduleUrl).map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${heapMb}`,
    '--no-addons',
    '--disable-sigusr1',
    '--disable-warning=PERM0006',
    ...switchedOff.filter((flag) => process.allowedNodeEnvironmentFlags.has(flag)),
  ];
}

/** Our own sources (or their built form), the package file that says they are ES modules, and the program's module. */
function readablePaths(moduleUrl: string): string[] {
  const own = [new URL('../../', import.meta.url), new URL('../../../package.json', import.meta.url)];
  const paths = own.map((url) => fileURLToPath(url));
  return moduleUrl.startsWith('file:') ? [...paths, fileURLToPath(moduleUrl)] : paths;
}
