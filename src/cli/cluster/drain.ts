/**
 * `remuster node drain NAME`: starts a drain and follows it. The cluster performs the drain: it continues when this
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

const pollMs = 250;
/** Without news from the leader for so long, the command stops following. */
const timeoutMs = 60_000;

export async function nodeDrainCommand(name: string, flags: DrainFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const { deadline, reason } = flags;
  if (flags.dryRun === true) return await preflight(target, name, flags.output);
  const started = await postJson(target, nodePath(name, 'drain'), { deadline, reason });
  for (const warning of (started as DrainView).warnings) printNotice(`warning: ${stripControls(warning)}`);
  const node = flags.detach === true ? await fetchNode(target, name) : await pollDrained(target, name, deadline);
  await printDrain(node, flags.output);
  return node.drain?.phase === 'drained' || flags.detach === true ? exitOk : exitPartial;
}

/** Prints the progress when it changes. Returns when the drain has ended, or its deadline has passed. */
export async function pollDrained(
  target: ClusterTarget,
  name: string,
  deadline: string | undefined,
): Promise<NodeView> {
  printOnInterrupt(() => printNotice(continuesText(name)));
  // The leader ends the drain at its deadline: this limit is for a leader that does not.
  const giveUpMs = Date.now() + (parseOptionDuration(deadline) ?? 0) + timeoutMs;
  let printed = '';
  let lastReplyMs = Date.now();
  for (; ; await pause(pollMs)) {
    const node = await fetchNode(target, name).catch((error: unknown) => {
      const isTransient = isRemusterError(error) && error.row.retryable && Date.now() - lastReplyMs < timeoutMs;
      if (isTransient) return undefined;
      printNotice(continuesText(name));
      throw error;
    });
    if (node === undefined || node.drain === null) continue;
    lastReplyMs = Date.now();
    const text = [drainProgressText(node.drain), ...node.drain.blockedBy].join('; ');
    if (text !== printed) printNotice(`${stripControls(name)}: ${stripControls(text)}`);
    printed = text;
    if (hasEnded(node.drain)) return node;
    if (Date.now() > giveUpMs) {
      printNotice(continuesText(name));
      return node;
    }
  }
}

/** A drain has also ended when another operator has activated the node. */
function hasEnded({ phase, overdue }: DrainView): boolean {
  return phase !== 'draining' || overdue;
}

function continuesText(name: string): string {
  const shown = stripControls(name);
  return `the drain of ${shown} continues: \`remuster node show ${shown}\` shows its progress`;
}

async function preflight(target: ClusterTarget, name: string, format: OutputFormat): Promise<number> {
  const reply = await postJson(target, nodePath(name, 'drain'), { dryRun: true });
  const { schemaVersion: _, ...result } = reply as Preflight & { schemaVersion: number };
  const lines: [string, string][] = [
    ['NODE', result.node],
    ['WOULD MOVE', hostedText(result)],
    ...result.warnings.map((why): [string, string] => ['WARNING', why]),
    ...result.blockedBy.map((why): [string, string] => ['REFUSED', why]),
  ];
  printData(await renderObject(format, result, { name: result.node, lines }));
  return result.blockedBy.length === 0 ? exitOk : exitRefused;
}

async function printDrain({ name, id, registration, drain }: NodeView, format: OutputFormat): Promise<void> {
  const result = { ...drain, node: name, id, registration };
  const lines: [string, string][] = [
    ['NODE', name],
    ['REGISTRATION', registration ?? 'none'],
    ['DRAIN', drain === null ? 'unknown: the registry does not reply' : drainProgressText(drain)],
  ];
  printData(await renderObject(format, result, { name, lines }));
}
