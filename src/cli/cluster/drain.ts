/**
 * `remuster node drain NAME`: starts a drain and follows it. The drain belongs to the cluster and goes on when this
 * command ends.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isRemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import { exitOk, exitPartial, exitRefused } from '../command/exit.ts';
import { postJson } from '../command/http-client.ts';
import { type DrainView, type NodeView, hostedText, fetchNode, nodePath, drainProgressText } from './nodes.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { printOnInterrupt } from '../command/signals.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';

export type DrainFlags = TargetFlags & {
  readonly output: OutputFormat;
  readonly deadline?: string;
  readonly detach?: true;
  readonly dryRun?: true;
  readonly reason?: string;
};

type Preflight = Pick<DrainView, 'remaining' | 'containers' | 'copies' | 'blockedBy' | 'warnings'> & {
  readonly node: string;
};

const lookMs = 250;
const patienceMs = 60_000;

export async function nodeDrainCommand(name: string, flags: DrainFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const { deadline, reason } = flags;
  if (flags.dryRun === true) return await preflight(target, name, flags.output);
  const begun = await postJson(target, nodePath(name, 'drain'), { deadline, reason });
  for (const warning of (begun as DrainView).warnings) printNotice(`warning: ${stripControls(warning)}`);
  const node = flags.detach === true ? await fetchNode(target, name) : await pollDrained(target, name, deadline);
  await printDrain(node, flags.output);
  return node.drain?.phase === 'drained' || flags.detach === true ? exitOk : exitPartial;
}

/** Says how far it is whenever that changes. Comes back early when the deadline of the drain has passed. */
export async function pollDrained(
  target: ClusterTarget,
  name: string,
  deadline: string | undefined,
): Promise<NodeView> {
  printOnInterrupt(() => printNotice(goesOn(name)));
  // The leader tells when it is over; this is for the case that nobody does.
  const lateMs = Date.now() + (parseOptionDuration(deadline) ?? 0) + patienceMs;
  let told = '';
  let heardMs = Date.now();
  for (; ; await pause(lookMs)) {
    const node = await fetchNode(target, name).catch((error: unknown) => {
      const mayPass = isRemusterError(error) && error.row.retryable && Date.now() - heardMs < patienceMs;
      if (mayPass) return undefined;
      printNotice(goesOn(name));
      throw error;
    });
    if (node === undefined || node.drain === null) continue;
    heardMs = Date.now();
    const text = [drainProgressText(node.drain), ...node.drain.blockedBy].join('; ');
    if (text !== told) printNotice(`${stripControls(name)}: ${stripControls(text)}`);
    told = text;
    if (isOver(node.drain)) return node;
    if (Date.now() > lateMs) {
      printNotice(goesOn(name));
      return node;
    }
  }
}

/** Activated by somebody else meanwhile is over, too. */
function isOver({ phase, overdue }: DrainView): boolean {
  return phase !== 'draining' || overdue;
}

function goesOn(name: string): string {
  return `the drain of ${stripControls(name)} goes on; \`remuster node show ${stripControls(name)}\` tells how far it is`;
}

async function preflight(target: ClusterTarget, name: string, format: OutputFormat): Promise<number> {
  const answer = await postJson(target, nodePath(name, 'drain'), { dryRun: true });
  const { schemaVersion: _, ...thing } = answer as Preflight & { schemaVersion: number };
  const lines: [string, string][] = [
    ['NODE', thing.node],
    ['WOULD MOVE', hostedText(thing)],
    ...thing.warnings.map((why): [string, string] => ['WARNING', why]),
    ...thing.blockedBy.map((why): [string, string] => ['REFUSED', why]),
  ];
  printData(await renderObject(format, thing, { name: thing.node, lines }));
  return thing.blockedBy.length === 0 ? exitOk : exitRefused;
}

async function printDrain({ name, id, registration, drain }: NodeView, format: OutputFormat): Promise<void> {
  const thing = { ...drain, node: name, id, registration };
  const lines: [string, string][] = [
    ['NODE', name],
    ['REGISTRATION', registration ?? 'none'],
    ['DRAIN', drain === null ? 'unknown: the registry does not answer' : drainProgressText(drain)],
  ];
  printData(await renderObject(format, thing, { name, lines }));
}
