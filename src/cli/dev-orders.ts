/**
 * `remuster dev kill|restart|pause|resume NAME`, `dev partition A,B / C`, `dev heal`: finds the running dev cluster and gives
 * it the order. Never touches a process itself.
 */
import { resolve } from 'node:path';
import type { Order } from './dev-control.ts';
import { devClusterAt } from './dev-state.ts';
import { exitOk } from './failure.ts';
import { postJson } from './http-client.ts';
import { say } from './terminal.ts';

export async function orderDev(order: Order, names: string, data: string | undefined): Promise<number> {
  const cluster = devClusterAt(data === undefined ? undefined : resolve(data));
  const target = { addr: cluster.control, token: cluster.nonce };
  const { done } = (await postJson(target, `/${order}`, { names })) as { done: string };
  say(done);
  return exitOk;
}
