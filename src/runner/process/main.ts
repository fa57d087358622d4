/**
 * Entry point of a runner process: connects pipe, bundle import, HTTP and process guard. Imports everything before
 * rights are dropped.
 */
import type { ProgramEndpoint, Program } from '../../base/ports.ts';
import { createBundleImporter } from './bundle-import.ts';
import { openHttp } from '../http/open-http.ts';
import { guardProcess } from './process-guard.ts';
// Imported now, because later this process may read no file.
import { packageStubUrl } from './package-stub.ts';
import { Runner } from './runner.ts';

export function main(channel: ProgramEndpoint): void {
  const importBundle = createBundleImporter({ remuster: packageStubUrl, 'remuster/client': packageStubUrl });
  const endProcess = guardProcess((error) => runner.uncaught(error));
  const runner = new Runner({ channel, importBundle, openHttp, endProcess });
}

export const runnerProgram: Program = { moduleUrl: import.meta.url, main };
