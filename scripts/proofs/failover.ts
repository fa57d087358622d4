/**
 * Measures how long three managers are without a leader after a kill -9: until the `leader.elected` event of the new
 * leader, and until the first acknowledged write. The two survivors write in a loop.
 *
 *   node scripts/proofs/failover.ts --trials 10 --election-timeout 700ms
 */
import { parseArgs } from 'node:util';
import { type Agent, ProcessLab } from '../../test/support/processes/process-lab.ts';
import { awaitCommonLeader, fetchEvents, Managers, put } from '../../test/support/processes/manager-requests.ts';

const { values } = parseArgs({
  options: {
    trials: { type: 'string', default: '10' },
    'election-timeout': { type: 'string' },
    heartbeat: { type: 'string' },
  },
});
const trials = Number(values.trials);
if (!Number.isInteger(trials) || trials < 1) throw new Error('--trials takes a whole number of at least 1');

const options = (['election-timeout', 'heartbeat'] as const).flatMap((option) => {
  const value = values[option];
  return value === undefined ? [] : [`--${option}`, value];
});

type Trial = { readonly electedMs: number; readonly writtenMs: number };

async function trial(managers: Managers): Promise<Trial> {
  const { agent: leader, term } = await managers.leader();
  const survivors = managers.others(leader);
  // Each survivor then knows the leader and has a connection to it, as in a cluster that has run for a while.
  for (const survivor of survivors) await put(survivor, '/failover', 'before');
  const killedMs = Date.now();
  const killed = managers.kill(leader);
  const writtenMs = await Promise.any(survivors.map((survivor) => firstWrite(survivor)));
  await killed;
  const next = await awaitCommonLeader(survivors, term);
  const electedMs = await electionTime(managers.get(next.name), next.term);
  await managers.restart(leader.name);
  await managers.awaitReady();
  return { electedMs: electedMs - killedMs, writtenMs: writtenMs - killedMs };
}

async function firstWrite(through: Agent): Promise<number> {
  for (;;) {
    const { code } = await put(through, '/failover', 'after');
    if (code === 'OK') return Date.now();
  }
}

async function electionTime(leader: Agent, term: number): Promise<number> {
  const events = await fetchEvents(leader);
  const elected = events.find((event) => event.type === 'leader.elected' && event['term'] === term);
  return Date.parse(String(elected?.['time']));
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function summaryLine(what: string, numbers: readonly number[]): string {
  const all = numbers.toSorted((a, b) => a - b);
  return `${what.padEnd(22)} median ${median(all)} ms, best ${all[0]} ms, worst ${all.at(-1)} ms`;
}

const cleanups: (() => unknown)[] = [];
try {
  const lab = new ProcessLab({ after: (cleanUp) => void cleanups.push(cleanUp) });
  const managers = await Managers.startIn(lab, ['a', 'b', 'c'], options);
  const results: Trial[] = [];
  for (let at = 1; at <= trials; at++) {
    const result = await trial(managers);
    results.push(result);
    console.log(`trial ${at}: new leader after ${result.electedMs} ms, first write after ${result.writtenMs} ms`);
  }
  const electedMs = results.map((result) => result.electedMs);
  console.log(summaryLine('new leader', electedMs));
  console.log(
    summaryLine(
      'first write',
      results.map((result) => result.writtenMs),
    ),
  );
} finally {
  for (const cleanUp of cleanups) await cleanUp();
}
