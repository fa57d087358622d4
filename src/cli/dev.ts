/**
 * `remuster dev`: a cluster of real processes in the foreground, until Ctrl-C. Says what runs where and what to type
 * next; with `-o json` one line for programs. The work is done by DevCluster.
 */
import { RemusterError } from '../base/errors.ts';
import { DevCluster } from './dev-cluster.ts';
import { type Control, serveOrders } from './dev-control.ts';
import type { DevSize } from './dev-plan.ts';
import { type DevNode, writeDevState } from './dev-state.ts';
import { exitFailed } from './failure.ts';
import { table } from './output.ts';
import { whenParentIsGone } from './parent-watch.ts';
import { onStopSignals, type Stopping } from './signals.ts';
import { paint, print, say } from './terminal.ts';

export type DevFlags = DevSize & {
  readonly entry: string;
  readonly portBase: number;
  /** As in the option of a node. */
  readonly modules?: string | undefined;
  readonly data: string | undefined;
  readonly retain: boolean;
  readonly json: boolean;
  /** Started by another program: end when stdin closes. */
  readonly withParent: boolean;
};

/** What to do once the cluster is up; undefined means: stay up. */
export type DevVisit = (cluster: DevCluster) => Promise<number | undefined>;

export async function dev(flags: DevFlags): Promise<number> {
  return await runDev(flags, async (cluster) => {
    if (flags.json) print(readyLine(cluster));
    else print(banner(cluster));
    return undefined;
  });
}

/** Starts a cluster, lets `visit` look at it, and takes it down again whatever happens. */
export async function runDev(flags: DevFlags, visit: DevVisit): Promise<number> {
  const cluster = new DevCluster({ ...flags, say });
  const stopAsked = new Promise<Stopping>((asked) => {
    const stopping = (signal: Stopping): void => {
      say('stopping; once more to stop at once');
      asked(signal);
    };
    if (flags.withParent) {
      whenParentIsGone(() => stopping({ reason: 'the parent process is gone', exitCode: exitFailed }));
    }
    onStopSignals(stopping, () => {
      cluster.killAll();
      cluster.removeTraces();
    });
  });
  let control: Control | undefined;
  try {
    const interrupted = stopAsked.then(({ exitCode }) => exitCode);
    const visited = (async () => {
      await cluster.start();
      control = await serveOrders(cluster, say);
      publish(cluster, control.url);
      const allDead = whenAllDead(cluster);
      return (await visit(cluster)) ?? (await allDead);
    })();
    return await Promise.race([interrupted, visited]);
  } finally {
    control?.close();
    await cluster.stop();
  }
}

function publish(cluster: DevCluster, control: string): void {
  const { identity, nonce, temporary, nodes, admin } = cluster;
  const { root, token } = identity;
  writeDevState({ pid: process.pid, nonce, root, temporary, control, admin: admin.addr, token, nodes });
}

/** A cluster without nodes is no cluster: there is nothing left to stay up for. */
function whenAllDead(cluster: DevCluster): Promise<number> {
  return new Promise((resolve) => {
    cluster.onDeath(({ name, pid }, how, leftUp) => {
      say(`${paint('yellow', 'node ended', process.stderr)} ${name} (pid ${pid}): ${how}; ${leftUp} still up`);
      if (leftUp === 0) resolve(exitFailed);
    });
  });
}

function readyLine({ nodes, admin, identity }: DevCluster): string {
  return JSON.stringify({ ready: true, admin: admin.addr, token: identity.token, secret: identity.secret, nodes });
}

export function banner({ nodes, admin, identity }: DevCluster): string {
  return [
    table(['NAME', 'ROLES', 'DC', 'PID', 'UDP+TCP', 'HTTP'], nodes.map(bannerRow)),
    '',
    `admin  ${admin.addr}`,
    `token  ${identity.token}`,
    `secret ${identity.secret}`,
    `data   ${identity.root}`,
    '',
    'In another terminal:',
    '  remuster members --watch       who is alive',
    '  remuster events --follow       what happens',
    `  remuster dev kill ${nodes.at(-1)?.name ?? 'NAME'}           kill -9 a node and watch the others notice`,
    '  remuster dev partition m1 / m2,m3   cut links; `remuster dev heal` mends them',
    'Ctrl-C here stops everything.',
  ].join('\n');
}

function bannerRow({ name, roles, dc, pid, host, port, httpPort }: DevNode): string[] {
  return [name, roles.join(','), dc, String(pid), `${host}:${port}`, `http://${host}:${httpPort}`];
}

/** Whole numbers of a flag, with the flag's name in the complaint. */
export function count(flag: string, text: string, max: number): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= max))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${flag} must be a whole number from 0 to ${max}, not ${JSON.stringify(text)}`,
    );
  return value;
}
