/**
 * The Runners port: user code in child processes without rights, each in its own process group with one pipe. A child
 * never outlives its parent: a closed pipe ends it, and a thread inside it checks for the parent, which ends even an
 * endless loop after the parent was killed (runner-watch-thread.ts).
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
  /** Weak if this version of Node cannot deny the network, or the system cannot limit a process. */
  readonly isolation: 'full' | 'weak';
};

type Spec = Parameters<Runners['start']>[0];

const parentStallMsDefault = 30_000;
const encoder = new TextEncoder();
const emptyBytes = new Uint8Array(0);
const noAddresses: readonly Address[] = [];

/**
 * `deniedAddresses` returns the addresses of the cluster, to which no runner may connect, also if it may use the
 * network. It is called often and must return the same array until the addresses change.
 */
export function openRunners(deniedAddresses: () => readonly Address[] = () => noAddresses): OpenRunners {
  return {
    isolation: canDenyNetwork && isSandboxAvailable() ? 'full' : 'weak',
    start: (spec, events) => {
      checkLimits(spec.limits);
      try {
        return startRunner(spec, events, deniedAddresses);
      } catch (error) {
        // The system cannot start another process now.
        setImmediate(() => events.exited(`cannot start: ${error instanceof Error ? error.message : 'unknown'}`));
        return { send: () => undefined, kill: () => undefined };
      }
    },
  };
}

function startRunner(
  { program, data, limits }: Spec,
  events: ProgramEvents,
  deniedAddresses: () => readonly Address[],
): RunningProgram {
  const entry = fileURLToPath(entryUrl(import.meta.url, 'runner-main'));
  const settings = [process.pid, nextRunnerUserId(), limits.parentStallMsMax ?? parentStallMsDefault];
  const args = [...runnerFlags(program.moduleUrl, limits), entry, ...settings.map(String)];
  const child = spawn(...sandboxedCommand(process.execPath, args), {
    cwd: '/',
    env: {},
    // A process group of its own: a kill includes its children, and Ctrl-C in the terminal does not reach it.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    windowsHide: true,
  });
  preferForOomKill(child.pid);
  lowerCpuPriority(child.pid);
  let sentAddresses: readonly Address[] | undefined;
  const sendDenyList = (): void => {
    const addresses = deniedAddresses();
    if (addresses === sentAddresses || !limits.network) return;
    sentAddresses = addresses;
    runner.send(runnerFrameKind.denyList, encoder.encode(JSON.stringify(denyListOf(addresses))));
  };
  const runner = new RunnerProcess(child, limits, events, sendDenyList);
  sendDenyList();
  runner.send(runnerFrameKind.start, encodeRunnerStart({ moduleUrl: program.moduleUrl, data }));
  return {
    send: (body) => {
      sendDenyList();
      runner.send(runnerFrameKind.message, body);
    },
    kill: () => runner.kill('killed'),
    ...(canDropNetwork ? { denyNetwork: () => runner.send(runnerFrameKind.denyNetwork, emptyBytes) } : {}),
  };
}

function denyListOf(denied: readonly Address[]): NetworkDenyList {
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return { addresses: denied.map(({ host, port }) => [host, port]), ownHosts: own.map(({ address }) => address) };
}

function checkLimits({ memoryBytesMax, lifetimeMsMax }: RunnerLimits): void {
  if (!(memoryBytesMax >= runnerMemoryBytesMin)) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `a runner needs at least ${runnerMemoryBytesMin} bytes of memory, not ${memoryBytesMax}`,
    );
  }
  if (!(lifetimeMsMax > 0))
    throw new RemusterError('BAD_ARGUMENT', `a runner needs a positive lifetime, not ${lifetimeMsMax} ms`);
}
