/**
 * `remuster node drain NAME`: begins it and watches until the node holds nothing. The drain is the cluster's: it goes
 * on when this command ends, by Ctrl-C, `--detach` or a lost connection.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isRemusterError } from '../base/errors.ts';
import { milliseconds } from '../node/option-types.ts';
import { exitOk, exitPartial, exitRefused } from './failure.ts';
import { postJson } from './http-client.ts';
import { type Drain, type NodeShown, heldText, nodeOf, nodePath, progressText } from './nodes.ts';
import { type Format, renderThing } from './output.ts';
import { onInterruptSay } from './signals.ts';
import { findTarget, type Target, type TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';

export type DrainFlags = TargetFlags & {
  readonly output: Format;
  readonly deadline?: string;
  readonly detach?: true;
  readonly dryRun?: true;
  readonly reason?: string;
};

type Preflight = Pick<Drain, 'remaining' | 'containers' | 'copies' | 'blockedBy' | 'warnings'> & {
  readonly node: string;
};

const lookMs = 250;
const patienceMs = 60_000;

export async function drainNode(name: string, flags: DrainFlags): Promise<number> {
  const target = await findTarget(flags);
  const { deadline, reason } = flags;
  if (flags.dryRun === true) return await preflight(target, name, flags.output);
  const begun = await postJson(target, nodePath(name, 'drain'), { deadline, reason });
  for (const warning of (begun as Drain).warnings) say(`warning: ${plain(warning)}`);
  const node = flags.detach === true ? await nodeOf(target, name) : await whenDrained(target, name, deadline);
  await printDrain(node, flags.output);
  return node.drain?.phase === 'drained' || flags.detach === true ? exitOk : exitPartial;
}

/** Says how far it is whenever that changes. Comes back early when the deadline of the drain has passed. */
export async function whenDrained(target: Target, name: string, deadline: string | undefined): Promise<NodeShown> {
  onInterruptSay(() => say(goesOn(name)));
  // The leader tells when it is over; this is for the case that nobody does.
  const lateMs = Date.now() + (milliseconds(deadline) ?? 0) + patienceMs;
  let told = '';
  let heardMs = Date.now();
  for (; ; await pause(lookMs)) {
    const node = await nodeOf(target, name).catch((error: unknown) => {
      const mayPass = isRemusterError(error) && error.row.retryable && Date.now() - heardMs < patienceMs;
      if (mayPass) return undefined;
      say(goesOn(name));
      throw error;
    });
    if (node === undefined || node.drain === null) continue;
    heardMs = Date.now();
    const text = [progressText(node.drain), ...node.drain.blockedBy].join('; ');
    if (text !== told) say(`${plain(name)}: ${plain(text)}`);
    told = text;
    if (isOver(node.drain)) return node;
    if (Date.now() > lateMs) {
      say(goesOn(name));
      return node;
    }
  }
}

/** Activated by somebody else meanwhile is over, too. */
function isOver({ phase, overdue, adrift }: Drain): boolean {
  return (phase === 'drained' && adrift === 0) || phase === 'not draining' || overdue;
}

function goesOn(name: string): string {
  return `the drain of ${plain(name)} goes on; \`remuster node show ${plain(name)}\` tells how far it is`;
}

async function preflight(target: Target, name: string, format: Format): Promise<number> {
  const answer = await postJson(target, nodePath(name, 'drain'), { dryRun: true });
  const { schemaVersion: _, ...thing } = answer as Preflight & { schemaVersion: number };
  const lines: [string, string][] = [
    ['NODE', thing.node],
    ['WOULD MOVE', heldText(thing)],
    ...thing.warnings.map((why): [string, string] => ['WARNING', why]),
    ...thing.blockedBy.map((why): [string, string] => ['REFUSED', why]),
  ];
  print(await renderThing(format, thing, { name: thing.node, lines }));
  return thing.blockedBy.length === 0 ? exitOk : exitRefused;
}

async function printDrain({ name, id, registration, drain }: NodeShown, format: Format): Promise<void> {
  const thing = { ...drain, node: name, id, registration };
  const lines: [string, string][] = [
    ['NODE', name],
    ['REGISTRATION', registration ?? 'none'],
    ['DRAIN', drain === null ? 'unknown: the registry does not answer' : progressText(drain)],
  ];
  print(await renderThing(format, thing, { name, lines }));
}
