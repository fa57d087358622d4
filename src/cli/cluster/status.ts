/** `remuster status` and `remuster leader`: the cluster at a glance, and who leads a datacenter. */
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
    const { schemaVersion: _, ...thing } = (await getJson(target, '/v1/status')) as Status & { schemaVersion: number };
    if (format === 'table' || format === 'wide') return { text: glance(thing) };
    return { text: await renderObject(format, thing, { name: thing.cluster, lines: [] }) };
  });
}

function glance({ cluster, ready, dcs }: Status): string {
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

/** How many live of how many there are. */
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
  const answer = await getJson(target, withDc('/v1/leader', flags.dc));
  const { schemaVersion: _, ...thing } = answer as LeaderInfo & { schemaVersion: number };
  if (thing.leader === null) printNotice(`nobody leads ${stripControls(thing.dc)}, as far as the asked node can tell`);
  const lines: [string, string][] = [
    ['LEADER', thing.leader ?? 'none'],
    ['DC', thing.dc],
    ['TERM', count(thing.term)],
    ['VOTERS', voters(thing.quorum)],
    ['ADDRESS', thing.host === null ? '-' : `${thing.host}:${thing.port}`],
    ['FENCE', thing.fence ?? '-'],
  ];
  if (thing.leader !== null || format !== 'name')
    printData(await renderObject(format, thing, { name: thing.leader ?? '', lines }));
  return thing.leader === null ? exitFailed : exitOk;
}
