/** CPU and memory use of this machine since the previous reading. Keeps only the last reading. */
import { cpus, freemem, totalmem } from 'node:os';

export type MachineLoad = { readonly cpu: number; readonly memory: number; readonly cores: number };

/** Each call of the result covers the time since the previous call. */
export function machineLoad(): () => MachineLoad {
  let before = processorTimes();
  return () => {
    const now = processorTimes();
    const elapsedMs = now.allMs - before.allMs;
    const cpu = elapsedMs <= 0 ? 0 : 1 - (now.idleMs - before.idleMs) / elapsedMs;
    before = now;
    return { cpu: clampRatio(cpu), memory: clampRatio(1 - freemem() / totalmem()), cores: cpus().length };
  };
}

function processorTimes(): { readonly idleMs: number; readonly allMs: number } {
  let idleMs = 0;
  let allMs = 0;
  for (const { times } of cpus()) {
    idleMs += times.idle;
    allMs += times.user + times.nice + times.sys + times.irq + times.idle;
  }
  return { idleMs, allMs };
}

function clampRatio(ratio: number): number {
  return Math.min(1, Math.max(0, ratio));
}
