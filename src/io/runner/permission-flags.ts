/**
 * Node flags of a runner process: permission model, disabled built-ins, heap limit. They deny everything but reading
 * the sources of this package, a right that the process drops after it has imported the program.
 */
import { fileURLToPath } from 'node:url';
import type { RunnerLimits } from '../../base/ports.ts';

const mebibyte = 2 ** 20;
/** Memory of Node itself, outside the heap of the program. */
const overheadBytes = 64 * mebibyte;
export const runnerMemoryBytesMin = 96 * mebibyte;

/** Node 24 has no permission for the network and cannot deny it. */
export const canDenyNetwork = process.allowedNodeEnvironmentFlags.has('--allow-net');

/** Since Node 26 a running process can drop a permission. */
export const canDropNetwork = canDenyNetwork && Number.parseInt(process.versions.node, 10) >= 26;

const disabledFeatures = ['--no-experimental-sqlite', '--no-experimental-webstorage', '--no-experimental-ffi'];

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
    ...disabledFeatures.filter((flag) => process.allowedNodeEnvironmentFlags.has(flag)),
  ];
}

/** The sources of this package (or their built form), package.json with the module type, and the program's module. */
function readablePaths(moduleUrl: string): string[] {
  const own = [new URL('../../', import.meta.url), new URL('../../../package.json', import.meta.url)];
  const paths = own.map((url) => fileURLToPath(url));
  return moduleUrl.startsWith('file:') ? [...paths, fileURLToPath(moduleUrl)] : paths;
}
