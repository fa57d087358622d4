/**
 * `remuster dev kill|restart|pause|resume NAME`, `dev partition A,B / C`, `dev heal`: sends a verb to the dev cluster
 * that --addr, --data or REMUSTER_ADDR names, or to the only one that runs. Signals no process itself.
 */
import { resolve } from 'node:path';
import type { DevVerb, DevVerbResult } from './dev-control.ts';
import { devClusterAt } from '../command/dev-state.ts';
import { exitOk } from '../command/exit.ts';
import { postJson } from '../command/http-client.ts';
import { schemaVersion } from '../output/render.ts';
import { printData, printNotice } from '../output/terminal.ts';

export type DevControlFlags = { readonly data?: string; readonly addr?: string; readonly output?: string };

export async function devControlCommand(verb: DevVerb, names: string, flags: DevControlFlags): Promise<number> {
  const root = flags.data === undefined ? undefined : resolve(flags.data);
  // --data is more specific than an address that is left in the environment.
  const addr = flags.addr ?? (root === undefined ? process.env['REMUSTER_ADDR'] || undefined : undefined);
  const cluster = devClusterAt({ root, addr });
  const target = { addr: cluster.control, token: cluster.nonce };
  const result = (await postJson(target, `/${verb}`, { names })) as DevVerbResult;
  if (flags.output === 'json') printData(JSON.stringify({ schemaVersion, ...result }));
  else printNotice(result.done);
  for (const warning of result.warnings) printNotice(warning);
  return exitOk;
}
