/**
 * `remuster dev`: starts a cluster of real processes, prints where everything is, stops it on Ctrl-C. Says what runs
 * where and what to type next; with `-o json` one line for programs.
 */
import { RemusterError } from '../../base/errors.ts';
import { DevCluster } from './dev-cluster.ts';
import { type DevControlServer, serveDevControl } from './dev-control.ts';
import { type DevSize, devClusterName } from './dev-plan.ts';
import { type DevNode, writeDevState } from '../command/dev-state.ts';
import { exitFailed } from '../command/exit.ts';
import { renderTable } from '../output/render.ts';
import type { RejoinPolicy } from '../../registration/registration-options.ts';
import { onParentExit } from '../agent/parent-watch.ts';
import { onStopSignals, type StopRequest } from '../command/signals.ts';
import { styled, printData, printNotice } from '../output/terminal.ts';

export type DevFlags = DevSize & {
  readonly entry: string;
  readonly portBase: number;
  /** As in the option of a node. */
  readonly modules?: string | undefined;
  /** How a node comes back that was away too long. */
  readonly rejoin: RejoinPolicy;
  readonly data: string | undefined;
  readonly retain: boolean;
  readonly json: boolean;
  /** Started by another program: end when stdin closes. */
  readonly withParent: boolean;
};

/** What to do once the cluster is up; undefined means: stay up. */
export type WithDevCluster = (cluster: DevCluster) => Promise<number | undefined>;

export async function devCommand(flags: DevFlags): Promise<number> {
  return await withDevCluster(flags, async (cluster) => {
    if (flags.json) printData(readyLine(cluster));
    else printData(banner(cluster));
    return undefined;
  });
}

/** Starts a cluster, lets `visit` look at it, and takes it down again whatever happens. */
export async function withDevCluster(flags: DevFlags, visit: WithDevCluster): Promise<number> {
  const cluster = new DevCluster({ ...flags, say: printNotice });
  const stopAsked = new Promise<StopRequest>((asked) => {
    const stopping = (signal: StopRequest): void => {
      printNotice('stopping; once more to stop at once');
      asked(signal);
    };
    if (flags.withParent) {
      onParentExit(() => stopping({ reason: 'the parent process is gone', exitCode: exitFailed }));
    }
    onStopSignals(stopping, () => {
      cluster.killAll();
      cluster.cleanUp();
    });
  });
  let control: DevControlServer | undefined;
  try {
    const interrupted = stopAsked.then(({ exitCode }) => exitCode);
    const visited = (async () => {
      await cluster.start();
      control = await serveDevControl(cluster, printNotice, (url) => publish(cluster, url));
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
      printNotice(`${styled('yellow', 'node ended', process.stderr)} ${name} (pid ${pid}): ${how}; ${leftUp} still up`);
      if (leftUp === 0) resolve(exitFailed);
    });
  });
}

function readyLine({ nodes, admin, identity }: DevCluster): string {
  const { token, secret } = identity;
  return JSON.stringify({ ready: true, admin: admin.addr, token, cluster: devClusterName, secret, nodes });
}

export function banner({ nodes, admin, identity }: DevCluster): string {
  return [
    renderTable(['NAME', 'ROLES', 'DC', 'PID', 'UDP+TCP', 'HTTP'], nodes.map(bannerRow)),
    '',
    `admin  ${admin.addr}`,
    `token  ${identity.token}`,
    `cluster ${devClusterName} (a program connects with this name and the secret)`,
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
export function parseCount(flag: string, text: string, max: number): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= max))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${flag} must be a whole number from 0 to ${max}, not ${JSON.stringify(text)}`,
    );
  return value;
}
