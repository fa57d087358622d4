/**
 * `remuster dev`: starts a cluster of real processes, prints its addresses and secrets and what to try next, and stops
 * it on Ctrl-C. With `-o json` it prints one line for programs.
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
  /** The option `modules` of each node. */
  readonly modules?: string | undefined;
  /** The option `rejoin` of each node. */
  readonly rejoin: RejoinPolicy;
  /** The option `console` of each node. */
  readonly console: boolean;
  readonly data: string | undefined;
  readonly retain: boolean;
  readonly json: boolean;
  /** Started by another program: end when stdin closes. */
  readonly withParent: boolean;
};

/** Runs once the cluster is ready; returns an exit code, or undefined to keep the cluster running. */
export type WithDevCluster = (cluster: DevCluster) => Promise<number | undefined>;

export async function devCommand(flags: DevFlags): Promise<number> {
  return await withDevCluster(flags, async (cluster) => {
    if (flags.json) printData(readyLine(cluster));
    else printData(banner(cluster, flags));
    return undefined;
  });
}

/** Starts a cluster, runs `visit`, and stops the cluster in any case. */
export async function withDevCluster(flags: DevFlags, visit: WithDevCluster): Promise<number> {
  const cluster = new DevCluster({ ...flags, notify: printNotice });
  const stopRequested = new Promise<StopRequest>((resolve) => {
    const stop = (stopRequest: StopRequest): void => {
      printNotice('stopping the nodes; press Ctrl-C again to kill them');
      resolve(stopRequest);
    };
    if (flags.withParent) {
      onParentExit(() => stop({ reason: 'the parent process has ended', exitCode: exitFailed }));
    }
    onStopSignals(stop, () => {
      cluster.killAll();
      cluster.cleanUp();
    });
  });
  let control: DevControlServer | undefined;
  try {
    const interrupted = stopRequested.then(({ exitCode }) => exitCode);
    const visited = (async () => {
      await cluster.start();
      control = await serveDevControl(cluster, printNotice, (url) => publish(cluster, url));
      publish(cluster, control.url);
      const allEnded = whenAllEnded(cluster);
      return (await visit(cluster)) ?? (await allEnded);
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

/** Resolves with an exit code when the last node has ended. */
function whenAllEnded(cluster: DevCluster): Promise<number> {
  return new Promise((resolve) => {
    cluster.onNodeExit(({ name, pid }, how, running) => {
      printNotice(
        `${styled('yellow', 'node ended', process.stderr)} ${name} (pid ${pid}): ${how}; ${running} still running`,
      );
      if (running === 0) resolve(exitFailed);
    });
  });
}

function readyLine({ nodes, admin, identity }: DevCluster): string {
  const { token, secret } = identity;
  return JSON.stringify({ ready: true, admin: admin.addr, token, cluster: devClusterName, secret, nodes });
}

export function banner({ nodes, admin, identity }: DevCluster, flags: Pick<DevFlags, 'console'>): string {
  const [lastName = 'NAME', firstName = 'NAME'] = [nodes.at(-1)?.name, nodes[0]?.name];
  return [
    renderTable(['NAME', 'ROLES', 'DC', 'PID', 'UDP+TCP', 'HTTP'], nodes.map(bannerRow)),
    '',
    `admin    ${admin.addr}  (${flags.console ? 'console and HTTP interface' : 'HTTP interface'})`,
    `token    ${identity.token}`,
    `cluster  ${devClusterName}  (programs connect with this name and the secret)`,
    `secret   ${identity.secret}`,
    `data     ${identity.root}`,
    '',
    'In another terminal:',
    '  remuster members --watch     the nodes and their states',
    '  remuster events --follow     what happens in the cluster',
    `  ${`remuster dev kill ${lastName}`.padEnd(27)}  kill -9 a node; the other nodes detect it`,
    `  ${`remuster dev partition ${firstName}`.padEnd(27)}  cut its links; \`remuster dev heal\` restores them`,
    'Ctrl-C stops all nodes.',
  ].join('\n');
}

function bannerRow({ name, roles, dc, pid, host, port, httpPort }: DevNode): string[] {
  return [name, roles.join(','), dc, String(pid), `${host}:${port}`, `http://${host}:${httpPort}`];
}

/** Parses a flag that takes a whole number from 0 to `max`. */
export function parseCount(flag: string, text: string, max: number): number {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= max))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${flag} must be a whole number from 0 to ${max}, not ${JSON.stringify(text)}`,
    );
  return value;
}
