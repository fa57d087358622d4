/**
 * `remuster node leave NAME`: removes a node permanently: drain, leave the manager group, unregister, exit. Each step
 * refuses what would lose data or the quorum.
 */
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { pollDrained } from './drain.ts';
import { exitOk, exitPartial } from '../command/exit.ts';
import { getJson, withDc, postJson } from '../command/http-client.ts';
import { fetchNode, nodePath } from './nodes.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';

export type LeaveFlags = TargetFlags &
  ConfirmFlags & {
    readonly output: OutputFormat;
    readonly deadline?: string;
    readonly dryRun?: true;
    readonly reason?: string;
  };

export async function nodeLeaveCommand(name: string, flags: LeaveFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const { reason, deadline } = flags;
  const node = await fetchNode(target, name);
  const isInGroup = await belongsToGroup(target, node.id, node.dc);
  const needsDrain = node.registration === 'active' && (await othersAreActive(target, node.id, node.dc));
  const steps = [
    ...(needsDrain ? [`drain it: ${node.drain?.remaining ?? 0} to move`] : []),
    ...(isInGroup ? ['remove it from the manager group'] : []),
    'unregister it and end its process',
  ];
  if (isInGroup) await postJson(target, `/v1/managers/${encodeURIComponent(name)}/remove`, { dryRun: true });
  if (flags.dryRun === true) {
    const lines = steps.map((step, i): [string, string] => [`STEP ${i + 1}`, step]);
    printData(await renderObject(flags.output, { node: node.name, dryRun: true, steps }, { name: node.name, lines }));
    return exitOk;
  }
  await confirm(`Remove ${stripControls(node.name)} permanently?`, flags, 'proceed');
  if (needsDrain) await postJson(target, nodePath(name, 'drain'), { deadline, reason });
  if (needsDrain || node.registration === 'draining') {
    const { drain } = await pollDrained(target, name, deadline);
    if (drain?.phase !== 'drained') {
      printNotice(
        `${stripControls(name)} stays in the cluster: ${drain?.remaining ?? 0} containers and copies are still on it`,
      );
      return exitPartial;
    }
  }
  if (isInGroup) await postJson(target, `/v1/managers/${encodeURIComponent(name)}/remove`, { reason });
  const { schemaVersion: _, ...result } = (await postJson(target, nodePath(name, 'leave'), { reason })) as {
    schemaVersion: number;
    node: string;
  };
  printData(await renderObject(flags.output, result, { name: result.node, lines: [['LEFT', result.node]] }));
  return exitOk;
}

/** A manager with another standing is in no group, so it need not be removed first. */
const groupStandings = new Set(['voter', 'syncing']);

async function belongsToGroup(target: ClusterTarget, id: string, dc: string): Promise<boolean> {
  const { items } = (await getJson(target, withDc('/v1/managers', dc))) as {
    items: { id: string; standing: string }[];
  };
  return items.some((row) => row.id === id && groupStandings.has(row.standing));
}

/** The last active node has no node to move its containers to, so it is not drained. */
async function othersAreActive(target: ClusterTarget, id: string, dc: string): Promise<boolean> {
  const { nodes } = (await getJson(target, withDc('/v1/balance', dc))) as {
    nodes: { id: string; isActive: boolean }[];
  };
  return nodes.some((row) => row.id !== id && row.isActive);
}
