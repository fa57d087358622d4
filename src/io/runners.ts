/**
 * The Runners port: users' code in child processes without rights. Each child runs under Node's permission model, with
 * an empty environment, in a process group of its own, and hears and speaks only over one pipe. What it is denied is in
 * runner-flags.ts, what it gives up by itself in runner-main.ts, how it is watched in runner-process.ts.
 *
 * A child outlives nobody: a closed pipe ends it, and a thread inside it looks for its parent, so that even an endless
 * loop ends when the parent was killed (runner-watch-thread.ts).
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { RemusterError } from '../base/errors.ts';
import type { RunnerLimits, Runners } from '../base/ports.ts';
import { canDenyNetwork, memoryBytesMin, runnerFlags } from './runner-flags.ts';
import { frameKind, packStart } from './runner-line.ts';
import { RunnerProcess, preferAsVictim } from './runner-process.ts';
import { sibling } from './sibling.ts';

export type OpenRunners = Runners & {
  /** Weak where this Node cannot deny the network. */
  readonly isolation: 'strong' | 'weak';
};

export function openRunners(): OpenRunners {
  return {
    isolation: canDenyNetwork ? 'strong' : 'weak',
    start: ({ program, data, limits }, events) => {
      checkLimits(limits);
      const entry = fileURLToPath(sibling(import.meta.url, 'runner-main'));
      const child = spawn(process.execPath, [...runnerFlags(program.moduleUrl, limits), entry, String(process.pid)], {
        cwd: '/',
        env: {},
        // A group of its own: it is killed with everything it may have started, and hears no Ctrl-C of the terminal.
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
        windowsHide: true,
      });
      preferAsVictim(child.pid);
      const runner = new RunnerProcess(child, limits, events);
      runner.send(frameKind.start, packStart({ moduleUrl: program.moduleUrl, data }));
      return {
        send: (body) => runner.send(frameKind.message, body),
        kill: () => runner.kill('killed'),
      };
    },
  };
}

function checkLimits({ memoryBytesMax, lifetimeMsMax }: RunnerLimits): void {
  if (!(memoryBytesMax >= memoryBytesMin)) {
    throw new RemusterError('BAD_ARGUMENT', `a runner needs at least ${memoryBytesMin} bytes of memory`);
  }
  if (!(lifetimeMsMax > 0)) throw new RemusterError('BAD_ARGUMENT', 'a runner needs a positive lifetime');
}
