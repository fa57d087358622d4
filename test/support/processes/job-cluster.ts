/** A datacenter of processes that runs jobs, and a check that nothing is left. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { getJson } from '../../../src/cli/command/http-client.ts';
import { type ClusterSession, connect } from '../../../src/client/index.ts';
import { type Agent, ProcessLab, type ChildProgram, processTestSecret } from './process-lab.ts';

type OwnTruth = {
  readonly leader: string | null;
  readonly registration: string | null;
  readonly cores: { readonly total: number; readonly free: number } | null;
  readonly queues: Readonly<Record<string, number>>;
};

const deadlineMs = 60_000;
const lookMs = 50;

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
  // Jobs are what these tests are about: runners wait for them as they do for users.
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
  await waitUntil('all are registered and have a leader', async () => {
    const truths = await Promise.all([...managers, ...workers].map((agent) => ownTruth(agent)));
    return truths.every(({ registration, leader }) => registration === 'active' && leader !== null);
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

async function ownTruth({ addr }: Pick<Agent, 'addr'>): Promise<OwnTruth> {
  return (await getJson({ addr, token: undefined }, '/v1/node')) as OwnTruth;
}

export async function leaderOf({ managers }: Pick<JobProcessCluster, 'managers'>): Promise<Agent> {
  let found: Agent | undefined;
  await waitUntil('somebody leads', async () => {
    for (const manager of managers) {
      if (!manager.isUp) continue;
      const { leader } = await ownTruth(manager);
      found = managers.find(({ name, isUp }) => name === leader && isUp);
      if (found !== undefined) return true;
    }
    return false;
  });
  assert.ok(found);
  return found;
}

/** Every core of these workers is free, and of the others no runner is left. */
export async function assertNothingLeft(living: readonly Agent[], killed: readonly ChildProgram[]): Promise<void> {
  await waitUntil('all cores are free', async () => {
    const truths = await Promise.all(living.map((agent) => ownTruth(agent)));
    return truths.every(({ cores, queues }) => cores?.free === cores?.total && (queues['unitsHere'] ?? 0) === 0);
  });
  await waitUntil('no runner of a killed worker is left', async () =>
    killed.every(({ pid }) => runnersOf(pid).length === 0),
  );
}

/** The processes of runners that the node with this pid has started. */
function runnersOf(pid: number): readonly number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((entry) => {
      try {
        const words = readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0');
        const isRunner = words.some((word) => /runner-main\.(?:ts|js)$/.test(word)) && words.includes(String(pid));
        return isRunner && !/\) [ZX] /.test(readFileSync(`/proc/${entry}/stat`, 'utf8'));
      } catch {
        return false;
      }
    })
    .map(Number);
}

export async function waitUntil(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const late = Date.now() + deadlineMs;
  while (!(await isSo().catch(() => false))) {
    assert.ok(Date.now() < late, `not within ${deadlineMs} ms: ${what}`);
    await pause(lookMs);
  }
}
