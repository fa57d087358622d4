/** A datacenter of processes that runs jobs, and the check that it leaves nothing behind. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { getJson } from '../../../src/cli/command/http-client.ts';
import { type ClusterSession, connect } from '../../../src/client/index.ts';
import { type Agent, ProcessLab, type ChildProgram, processTestSecret } from './process-lab.ts';

type NodeStatus = {
  readonly leader: string | null;
  readonly registration: string | null;
  readonly cores: { readonly total: number; readonly free: number } | null;
  readonly queues: Readonly<Record<string, number>>;
};

const deadlineMs = 60_000;
const pollMs = 50;

export type JobProcessCluster = {
  readonly lab: ProcessLab;
  readonly managers: readonly Agent[];
  readonly workers: readonly Agent[];
  readonly session: ClusterSession;
};

export type JobClusterSize = { readonly managers: number; readonly workers: number; readonly cores?: number };

export async function startJobCluster(
  context: { after(end: () => Promise<void>): void },
  { managers: managerCount, workers: workerCount, cores = 1 }: JobClusterSize,
): Promise<JobProcessCluster> {
  const lab = new ProcessLab(context);
  // These tests run jobs, so warm runners are kept as in production.
  const env = { REMUSTER_WARM_RUNNERS_MAX: '1024' };
  const first = await lab.agent('m1', ['--roles', 'manager'], env);
  const seed = ['--join', `127.0.0.1:${first.port}`];
  const more = await Promise.all(
    Array.from({ length: managerCount - 1 }, (_, i) => lab.agent(`m${i + 2}`, ['--roles', 'manager', ...seed], env)),
  );
  const workers = await Promise.all(
    Array.from({ length: workerCount }, (_, i) =>
      lab.agent(`w${i + 1}`, ['--roles', 'worker', '--cores', String(cores), ...seed], env),
    ),
  );
  const managers = [first, ...more];
  await waitUntil('all nodes are registered and know a leader', async () => {
    const statuses = await Promise.all([...managers, ...workers].map((agent) => nodeStatusOf(agent)));
    return statuses.every(({ registration, leader }) => registration === 'active' && leader !== null);
  });
  const addr = [...managers, ...workers].map(({ port }) => `127.0.0.1:${port}`);
  const session = await connect({ addr, secret: processTestSecret });
  context.after(() => session.close());
  return { lab, managers, workers, session };
}

export function workflowFile({ folder }: ProcessLab, name: string, text: string): string {
  const file = join(folder, `${name}.ts`);
  writeFileSync(file, `import { workflow } from 'remuster';\n${text}`);
  return file;
}

async function nodeStatusOf({ addr }: Pick<Agent, 'addr'>): Promise<NodeStatus> {
  return (await getJson({ addr, token: undefined }, '/v1/node')) as NodeStatus;
}

export async function leaderOf({ managers }: Pick<JobProcessCluster, 'managers'>): Promise<Agent> {
  let found: Agent | undefined;
  await waitUntil('a manager leads', async () => {
    for (const manager of managers) {
      if (!manager.isUp) continue;
      const { leader } = await nodeStatusOf(manager);
      found = managers.find(({ name, isUp }) => name === leader && isUp);
      if (found !== undefined) return true;
    }
    return false;
  });
  assert.ok(found);
  return found;
}

/** Every core of the living workers is free, and no runner of the killed ones is left. */
export async function assertNothingLeft(living: readonly Agent[], killed: readonly ChildProgram[]): Promise<void> {
  await waitUntil('all cores are free', async () => {
    const statuses = await Promise.all(living.map((agent) => nodeStatusOf(agent)));
    return statuses.every(({ cores, queues }) => cores?.free === cores?.total && (queues['unitsHere'] ?? 0) === 0);
  });
  await waitUntil('no runner of a killed worker is left', async () =>
    killed.every(({ pid }) => runnersOf(pid).length === 0),
  );
}

/** The runner processes that the node with this pid has started. */
function runnersOf(pid: number): readonly number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((entry) => {
      try {
        const args = readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0');
        const isRunner = args.some((arg) => /runner-main\.(?:ts|js)$/.test(arg)) && args.includes(String(pid));
        return isRunner && !/\) [ZX] /.test(readFileSync(`/proc/${entry}/stat`, 'utf8'));
      } catch {
        return false;
      }
    })
    .map(Number);
}

export async function waitUntil(what: string, isDone: () => Promise<boolean>): Promise<void> {
  const late = Date.now() + deadlineMs;
  while (!(await isDone().catch(() => false))) {
    assert.ok(Date.now() < late, `not within ${deadlineMs} ms: ${what}`);
    await pause(pollMs);
  }
}
