/**
 * `remuster dev kill|restart|pause|resume NAME`, `dev partition A,B / C`, `dev heal`: finds the running dev cluster and
 * sends it a verb. Touches no process itself.
 */
import { resolve } from 'node:path';
import type { DevVerb } from './dev-control.ts';
import { devClusterAt } from '../command/dev-state.ts';
import { exitOk } from '../command/exit.ts';
import { postJson } from '../command/http-client.ts';
import { printNotice } from '../output/terminal.ts';

export async function devControlCommand(order: DevVerb, names: string, data: string | undefined): Promise<number> {
  const cluster = devClusterAt(data === undefined ? undefined : resolve(data));
  const target = { addr: cluster.control, token: cluster.nonce };
  const { done } = (await postJson(target, `/${order}`, { names })) as { done: string };
  printNotice(done);
  return exitOk;
}
