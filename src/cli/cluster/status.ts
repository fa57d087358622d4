/** `remuster status` and `remuster leader`: the cluster at a glance, and the leader of a datacenter. */
import { exitFailed, exitOk } from '../command/exit.ts';
import { getJson, withDc } from '../command/http-client.ts';
import { type OutputFormat, renderObject, renderTable } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

type Quorum = { readonly voters: number; readonly alive: number } | null;

type Datacenter = {
  readonly dc: string;
  readonly leader: string | null;
  readonly term: number | null;
  readonly quorum: Quorum;
  readonly nodes: number;
  readonly containers: number | null;
  readonly jobs: number | null;
};

type Status = { readonly cluster: string; readonly ready: boolean; readonly dcs: readonly Datacenter[] };

export async function statusCommand(flags: TargetFlags, format: OutputFormat, watch: boolean): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(format, watch, async () => {
    const { schemaVersion: _, ...result } = (await getJson(target, '/v1/status')) as Status & { schemaVersion: number };
    if (format === 'table' || format === 'wide') return { text: statusText(result) };
    return { text: await renderObject(format, result, { name: result.cluster, lines: [] }) };
  });
}

function statusText({ cluster, ready, dcs }: Status): string {
  const rows = dcs.map(({ dc, leader, term, quorum, nodes, containers, jobs }) => {
    return [dc, leader ?? 'none', count(term), voters(quorum), count(nodes), count(containers), count(jobs)];
  });
  return [
    `${stripControls(cluster)} is ${ready ? 'ready' : 'not ready'}`,
    '',
    renderTable(
      ['DC', 'LEADER', 'TERM', 'VOTERS', 'NODES', 'CONTAINERS', 'OPEN JOBS'],
      rows.map((row) => row.map(stripControls)),
    ),
  ].join('\n');
}

function count(value: number | null): string {
  return value === null ? '-' : String(value);
}

/** Live voters of all voters. */
function voters(quorum: Quorum): string {
  return quorum === null ? '-' : `${quorum.alive}/${quorum.voters}`;
}

export type LeaderInfo = {
  readonly dc: string;
  readonly leader: string | null;
  readonly leaderId: string | null;
  readonly term: number | null;
  readonly fence: string | null;
  readonly quorum: Quorum;
  readonly host: string | null;
  readonly port: number | null;
};

export async function leaderCommand(
  flags: TargetFlags & { readonly dc?: string },
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
  const reply = await getJson(target, withDc('/v1/leader', flags.dc));
  const { schemaVersion: _, ...result } = reply as LeaderInfo & { schemaVersion: number };
  if (result.leader === null)
    printNotice(`no leader of ${stripControls(result.dc)} is known to the node at ${target.addr}`);
  const lines: [string, string][] = [
    ['LEADER', result.leader ?? 'none'],
    ['DC', result.dc],
    ['TERM', count(result.term)],
    ['VOTERS', voters(result.quorum)],
    ['ADDRESS', result.host === null ? '-' : `${result.host}:${result.port}`],
    ['FENCE', result.fence ?? '-'],
  ];
  if (result.leader !== null || format !== 'name')
    printData(await renderObject(format, result, { name: result.leader ?? '', lines }));
  return result.leader === null ? exitFailed : exitOk;
}
