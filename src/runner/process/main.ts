/**
 * Entry point of a runner process: connects pipe, bundle import, HTTP and process guard. Imports all modules before the
 * process drops its rights.
 */
import type { ProgramEndpoint, Program } from '../../base/ports.ts';
import { createBundleImporter } from './bundle-import.ts';
import { openHttp } from '../http/open-http.ts';
import { guardProcess } from './process-guard.ts';
// Imported here, because this process cannot read files later.
import { packageStubUrl } from './package-stub.ts';
import { Runner } from './runner.ts';

export function main(channel: ProgramEndpoint): void {
  const importBundle = createBundleImporter({ remuster: packageStubUrl, 'remuster/client': packageStubUrl });
  const endProcess = guardProcess((error) => runner.onUncaught(error));
  const runner = new Runner({ channel, importBundle, openHttp, endProcess });
}

export const runnerProgram: Program = { moduleUrl: import.meta.url, main };
