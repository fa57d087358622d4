/**
 * `remuster agent`: one node in the foreground: ready line on stdout, log on stderr, orderly leave on SIGTERM.
 * Ephemeral data is removed on every exit but kill -9.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { RemusterError } from '../../base/errors.ts';
import { applyV8Flags } from '../../io/system/v8-flags.ts';
import type { RunningNode } from '../../node/boot/start-node.ts';
import { type NodeOptions, optionProblemsError } from '../../node/options/options.ts';
import { agentLog, exitOnUncaughtError, warnWhileAlone } from './agent-log.ts';
import { removeDevState } from '../command/dev-state.ts';
import { exitFailed, exitOk } from '../command/exit.ts';
import { loadOptions } from './load-options.ts';
import { onParentExit } from './parent-watch.ts';
import { onStopSignals, onStopSignalsAsChild, type StopRequest } from '../command/signals.ts';
import { printData, printNotice } from '../output/terminal.ts';
import { resumePausedSiblings } from './resume-siblings.ts';

export type AgentFlags = {
  readonly typed: Readonly<Record<string, unknown>>;
  readonly config: string | undefined;
  /** Started by another process of ours: end when stdin closes, and leave Ctrl-C to it. */
  readonly withParent: boolean;
  /** The data directory of a whole dev cluster; whoever is orphaned helps to tidy up there. */
  readonly devRoot: string | undefined;
  /** That directory is to be removed, too. */
  readonly devTemporary: boolean;
};

/** What is left to do on the way out, whichever way that is. */
type LastWill = { orphaned: boolean; readonly carryOut: () => void };

export async function agentCommand(flags: AgentFlags): Promise<number> {
  const resolved = await loadOptions(flags.typed, flags.config);
  for (const warning of resolved.warnings) printNotice(`warning: ${warning}`);
  if (resolved.problems.length > 0) throw optionProblemsError(resolved.problems);
  const options = { ...resolved.values, data: chooseData(resolved.values) };
  const will: LastWill = {
    orphaned: false,
    carryOut: () => {
      if (options.ephemeral) rmSync(options.data, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
      if (will.orphaned && flags.devRoot !== undefined) removeDevState(flags.devRoot, flags.devTemporary);
    },
  };
  const log = agentLog(options);
  exitOnUncaughtError(log, will.carryOut);
  const stopAsked = whenAskedToStop(flags, options, will);
  try {
    const { startNode } = await import('../../node/boot/start-node.ts');
    const node = await startNode(options, { log, origins: resolved.origins });
    applyV8Flags();
    warnWhileAlone(log, options, node.ready);
    return await untilStopped(node, stopAsked);
  } finally {
    will.carryOut();
  }
}

/** Listens from the beginning: a node that cannot start or join must be stoppable, too, and within its time. */
function whenAskedToStop(flags: AgentFlags, options: NodeOptions, will: LastWill): Promise<StopRequest> {
  return new Promise((resolveAsked) => {
    const asked = (stopping: StopRequest): void => {
      const { exitCode } = new RemusterError('DEADLINE').row;
      setTimeout(() => {
        printNotice(`not stopped within ${options.shutdownTimeoutMs} ms; ending anyway`);
        will.carryOut();
        process.exit(exitCode);
      }, options.shutdownTimeoutMs).unref();
      resolveAsked(stopping);
    };
    if (!flags.withParent) return onStopSignals(asked, will.carryOut);
    onStopSignalsAsChild(asked, will.carryOut);
    onParentExit(() => {
      will.orphaned = true;
      if (flags.devRoot !== undefined) resumePausedSiblings(flags.devRoot);
      asked({ reason: 'the parent process is gone', exitCode: exitFailed });
    });
  });
}

async function untilStopped(node: RunningNode, stopAsked: Promise<StopRequest>): Promise<number> {
  const { identity, port, httpPort } = node;
  node.ready.then(
    () => printData(JSON.stringify({ ready: true, id: identity.id, name: identity.name, port, httpPort })),
    () => undefined,
  );
  // By itself: an operator told it to leave for good, or the log of the node has said what is wrong.
  const ended = node.ended.then(
    ({ error }) => (error === undefined ? exitOk : exitFailed),
    () => exitFailed,
  );
  const stopping = await Promise.race([stopAsked, ended]);
  if (typeof stopping === 'number') return stopping;
  await node.stop(stopping.reason);
  return stopping.exitCode;
}

/** A directory that is to be removed at the end must not hold anything of somebody else at the beginning. */
function chooseData({ name, data, ephemeral }: NodeOptions): string {
  if (!ephemeral) return resolve(data ?? join('remuster-data', name));
  if (data === undefined) return mkdtempSync(join(tmpdir(), 'remuster-agent-'));
  if (existsSync(data) && readdirSync(data).length > 0) {
    throw new RemusterError('BAD_ARGUMENT', `ephemeral would remove ${data}, which is not empty`);
  }
  return resolve(data);
}
