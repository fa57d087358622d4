/**
 * `npm start`: a cluster of real processes, what they said to each other, and what to type next. With `--exit` it ends
 * as soon as everybody has greeted everybody, which makes it a check of the whole skeleton.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError } from '../base/errors.ts';
import { banner, type DevFlags, runDev } from './dev.ts';
import type { DevCluster } from './dev-cluster.ts';
import { exitOk } from './failure.ts';
import { ask, getJson } from './http-client.ts';
import { table } from './output.ts';
import type { Target } from './target.ts';
import { print, say } from './terminal.ts';

const udpMs = 30_000;
const lookMs = 100;

export async function start(flags: DevFlags, exit: boolean): Promise<number> {
  say('starting a cluster on this machine, every node a process of its own ...');
  const startedMs = Date.now();
  return await runDev(flags, async (cluster) => {
    const told = await greetings(cluster);
    const seconds = ((Date.now() - startedMs) / 1_000).toFixed(1);
    print(`${cluster.nodes.length} processes greeted each other in ${seconds} s.\n\n${told}`);
    print(exit ? '\nEverybody has greeted everybody.' : `\n${banner(cluster)}`);
    return exit ? exitOk : undefined;
  });
}

/** What each node did to get to know the others, in its own numbers. */
async function greetings(cluster: DevCluster): Promise<string> {
  const rows = await Promise.all(
    cluster.nodes.map(async (node) => {
      const target = cluster.targetOf(node);
      const traffic = await trafficOf(target, cluster.nodes.length > 1);
      const { items } = (await getJson(target, '/v1/members')) as { items: { state: string }[] };
      const alive = items.filter((row) => row.state === 'alive').length;
      return [node.name, `${alive} of ${cluster.nodes.length}`, ...traffic];
    }),
  );
  return table(['NODE', 'SEES ALIVE', 'SEALED UDP', 'SEALED TCP', 'CHALLENGED', 'REFUSED'], rows);
}

/** They meet over TCP; a greeting over UDP follows within one interval and is waited for. */
async function trafficOf(target: Target, expectsUdp: boolean): Promise<string[]> {
  const deadline = Date.now() + udpMs;
  for (;;) {
    const metrics = String((await ask(target, 'GET', '/metrics')).body);
    const datagrams = sum(metrics, /^remuster_transport_datagrams_received_total (\d+)/gm);
    if (datagrams > 0 || !expectsUdp) {
      return [
        `${datagrams} datagrams`,
        `${sum(metrics, /^remuster_transport_frames_received_total (\d+)/gm)} frames`,
        // The first datagram of an unknown sender is not believed but answered by a challenge; that is no refusal.
        String(sum(metrics, /^remuster_rejected_total\{[^}]*reason="unproven"\} (\d+)/gm)),
        String(sum(metrics, /^remuster_rejected_total\{(?![^}]*"unproven")[^}]*\} (\d+)/gm)),
      ];
    }
    if (Date.now() > deadline)
      throw new RemusterError('DEADLINE', `${target.addr} heard nobody over UDP in ${udpMs} ms`);
    await pause(lookMs);
  }
}

function sum(metrics: string, pattern: RegExp): number {
  return [...metrics.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0);
}
