/**
 * The Runners port: user code in child processes without rights, each in its own process group with one pipe. A child
 * never outlives its parent.
 *
 * A child outlives nobody: a closed pipe ends it, and a thread inside it looks for its parent, so that even an endless
 * loop ends when the parent was killed (runner-watch-thread.ts).
 */
import { spawn } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { fileURLToPath } from 'node:url';
import { RemusterError } from '../../base/errors.ts';
import type { Address, ProgramEvents, RunnerLimits, Runners, RunningProgram } from '../../base/ports.ts';
import { isSandboxAvailable, sandboxedCommand, nextRunnerUserId, lowerCpuPriority } from './os-sandbox.ts';
import { canDenyNetwork, canDropNetwork, runnerMemoryBytesMin, runnerFlags } from './permission-flags.ts';
import { runnerFrameKind, encodeRunnerStart } from './runner-protocol.ts';
import type { NetworkDenyList } from './network-guard.ts';
import { RunnerProcess, preferForOomKill } from './runner-process.ts';
import { entryUrl } from '../system/entry-url.ts';

export type OpenRunners = Runners & {
  /** Weak where this Node cannot deny the network, or the system cannot limit a process. */
  readonly isolation: 'full' | 'weak';
};

type Spec = Parameters<Runners['start']>[0];

const silenceMsDefault = 30_000;
const encoder = new TextEncoder();
const nothing = new Uint8Array(0);
const noPlaces: readonly Address[] = [];

/**
 * `forbidden`: where no runner may connect to, though it may use the network: the doors of the cluster. It is asked often
 * and has to give the same list as long as nothing has changed.
 */
export function openRunners(forbidden: () => readonly Address[] = () => noPlaces): OpenRunners {
  return {
    isolation: canDenyNetwork && isSandboxAvailable() ? 'full' : 'weak',
    start: (spec, events) => {
      checkLimits(spec.limits);
      try {
        return startRunner(spec, events, forbidden);
      } catch (error) {
        // The system has no room for another process at this moment.
        setImmediate(() => events.exited(`cannot start: ${error instanceof Error ? error.message : 'unknown'}`));
        return { send: () => undefined, kill: () => undefined };
      }
    },
  };
}

function startRunner(
  { program, data, limits }: Spec,
  events: ProgramEvents,
  forbidden: () => readonly Address[],
): RunningProgram {
  const entry = fileURLToPath(entryUrl(import.meta.url, 'runner-main'));
  const told = [process.pid, nextRunnerUserId(), limits.parentStallMsMax ?? silenceMsDefault];
  const words = [...runnerFlags(program.moduleUrl, limits), entry, ...told.map(String)];
  const child = spawn(...sandboxedCommand(process.execPath, words), {
    cwd: '/',
    env: {},
    // A group of its own: it is killed with everything it may have started, and hears no Ctrl-C of the terminal.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    windowsHide: true,
  });
  preferForOomKill(child.pid);
  lowerCpuPriority(child.pid);
  let known: readonly Address[] | undefined;
  const forbid = (): void => {
    const places = forbidden();
    if (places === known || !limits.network) return;
    known = places;
    runner.send(runnerFrameKind.denyList, encoder.encode(JSON.stringify(placesOf(places))));
  };
  const runner = new RunnerProcess(child, limits, events, forbid);
  forbid();
  runner.send(runnerFrameKind.start, encodeRunnerStart({ moduleUrl: program.moduleUrl, data }));
  return {
    send: (body) => {
      forbid();
      runner.send(runnerFrameKind.message, body);
    },
    kill: () => runner.kill('killed'),
    ...(canDropNetwork ? { denyNetwork: () => runner.send(runnerFrameKind.denyNetwork, nothing) } : {}),
  };
}

function placesOf(places: readonly Address[]): NetworkDenyList {
  const ownHosts = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return { places: places.map(({ host, port }) => [host, port]), ownHosts: ownHosts.map(({ address }) => address) };
}

function checkLimits({ memoryBytesMax, lifetimeMsMax }: RunnerLimits): void {
  if (!(memoryBytesMax >= runnerMemoryBytesMin)) {
    throw new RemusterError('BAD_ARGUMENT', `a runner needs at least ${runnerMemoryBytesMin} bytes of memory`);
  }
  if (!(lifetimeMsMax > 0)) throw new RemusterError('BAD_ARGUMENT', 'a runner needs a positive lifetime');
}
