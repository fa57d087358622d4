/** The program of a runner's process: joins the words on the pipe (runner.ts) to the process around it. */
import type { ProgramEndpoint, Program } from '../base/ports.ts';
import { bundleImporter } from './bundle-import.ts';
import { openHttp } from './http/open.ts';
import { guardProcess } from './process-guard.ts';
// Imported now, because later this process may read no file.
import { providedUrl } from './provided.ts';
import { Runner } from './runner.ts';

export function main(channel: ProgramEndpoint): void {
  const importBundle = bundleImporter({ remuster: providedUrl, 'remuster/client': providedUrl });
  const retire = guardProcess((error) => runner.uncaught(error));
  const runner = new Runner({ channel, importBundle, openHttp, retire });
}

export const runnerProgram: Program = { moduleUrl: import.meta.url, main };
