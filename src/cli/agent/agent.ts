/**
 * `remuster agent`: runs one node in the foreground: ready line on stdout, log on stderr, graceful leave on SIGTERM.
 * Ephemeral data is removed on every exit except SIGKILL.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { RemusterError } from '../../base/errors.ts';
import { applyV8Flags } from '../../io/system/v8-flags.ts';
import type { RunningNode } from '../../node/boot/start-node.ts';
import { type NodeOptions, optionProblemsError } from '../../node/options/options.ts';
import { agentLog, exitOnUncaughtError, warnUntilJoined } from './agent-log.ts';
import { removeDevState } from '../command/dev-state.ts';
import { exitFailed, exitOk } from '../command/exit.ts';
import { loadOptions } from './load-options.ts';
import { onParentExit } from './parent-watch.ts';
import { onStopSignals, onStopSignalsAsChild, type StopRequest } from '../command/signals.ts';
import { printData, printNotice } from '../output/terminal.ts';
import { resumePausedSiblings } from './resume-siblings.ts';

export type AgentFlags = {
  readonly given: Readonly<Record<string, unknown>>;
  readonly config: string | undefined;
  /** A parent process of Remuster started this one: it ends when stdin closes, and the parent handles Ctrl-C. */
  readonly withParent: boolean;
  /** The data directory of the dev cluster of this node; the last orphaned node cleans it up. */
  readonly devRoot: string | undefined;
  /** That directory is removed too. */
  readonly devTemporary: boolean;
};

/** Runs on every exit of this process. */
type CleanUp = { orphaned: boolean; readonly run: () => void };

export async function agentCommand(flags: AgentFlags): Promise<number> {
  const resolved = await loadOptions(flags.given, flags.config);
  for (const warning of resolved.warnings) printNotice(`warning: ${warning}`);
  if (resolved.problems.length > 0) throw optionProblemsError(resolved.problems);
  const options = { ...resolved.values, data: chooseData(resolved.values) };
  const cleanUp: CleanUp = {
    orphaned: false,
    run: () => {
      if (options.ephemeral) rmSync(options.data, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
      if (cleanUp.orphaned && flags.devRoot !== undefined) removeDevState(flags.devRoot, flags.devTemporary);
    },
  };
  const log = agentLog(options);
  exitOnUncaughtError(log, cleanUp.run);
  const stopRequested = whenStopRequested(flags, options, cleanUp);
  try {
    const { startNode } = await import('../../node/boot/start-node.ts');
    const node = await startNode(options, { log, origins: resolved.origins });
    applyV8Flags();
    warnUntilJoined(log, options, node.ready);
    return await untilStopped(node, stopRequested);
  } finally {
    cleanUp.run();
  }
}

/** Handles signals from the start: a node that cannot start or join stops within its time limit too. */
function whenStopRequested(flags: AgentFlags, options: NodeOptions, cleanUp: CleanUp): Promise<StopRequest> {
  return new Promise((resolveRequest) => {
    const stop = (stopping: StopRequest): void => {
      const { exitCode } = new RemusterError('DEADLINE').row;
      setTimeout(() => {
        printNotice(`the node did not stop within ${options.stopTimeoutMs} ms: exiting now`);
        cleanUp.run();
        process.exit(exitCode);
      }, options.stopTimeoutMs).unref();
      resolveRequest(stopping);
    };
    if (!flags.withParent) return onStopSignals(stop, cleanUp.run);
    onStopSignalsAsChild(stop, cleanUp.run);
    onParentExit(() => {
      cleanUp.orphaned = true;
      if (flags.devRoot !== undefined) resumePausedSiblings(flags.devRoot);
      stop({ reason: 'the parent process has ended', exitCode: exitFailed });
    });
  });
}

async function untilStopped(node: RunningNode, stopRequested: Promise<StopRequest>): Promise<number> {
  const { identity, port, httpPort } = node;
  node.ready.then(
    () => printData(JSON.stringify({ ready: true, id: identity.id, name: identity.name, port, httpPort })),
    () => undefined,
  );
  // The node ends on its own after `node leave`, or after an error that is in its log.
  const ended = node.ended.then(
    ({ error }) => (error === undefined ? exitOk : exitFailed),
    () => exitFailed,
  );
  const stopping = await Promise.race([stopRequested, ended]);
  if (typeof stopping === 'number') return stopping;
  await node.stop(stopping.reason);
  return stopping.exitCode;
}

/** An ephemeral data directory must be empty at start, because it is removed at the end. */
function chooseData({ name, data, ephemeral }: NodeOptions): string {
  if (!ephemeral) return resolve(data ?? join('remuster-data', name));
  if (data === undefined) return mkdtempSync(join(tmpdir(), 'remuster-agent-'));
  if (existsSync(data) && readdirSync(data).length > 0) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `--ephemeral would remove ${data}, which is not empty: choose an empty directory`,
    );
  }
  return resolve(data);
}
