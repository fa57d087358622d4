/** A campaign finds a deliberately broken machine, and a seed repeats its run. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Random } from '../../../src/base/random.ts';
import { type CampaignOptions, formatFailure, runCampaign } from './campaign.ts';
import { Counter, type CounterMachine, countingWorkloadOf } from '../workloads/nodes/counter-workload.ts';
import { type Fault, commonFaults as ownFaults } from '../faults/common-faults.ts';
import { scenarioCatalog, type ScenarioCatalog } from './scenario-catalog.ts';
import { runSeed } from './seed-run.ts';
import { parseScenario } from './scenario.ts';

/** A broken counter: it announces before it persists, against the order that the loop guarantees. */
class HastyCounter implements CounterMachine {
  readonly #counter: Counter;

  constructor(random: Random) {
    this.#counter = new Counter(random);
  }

  step(nowMs: number, input: Parameters<CounterMachine['step']>[1]): ReturnType<CounterMachine['step']> {
    const order = { announce: 0, persist: 1, schedule: 2 } as const;
    return this.#counter.step(nowMs, input).toSorted((a, b) => order[a.kind] - order[b.kind]);
  }
}

const broken: ScenarioCatalog = {
  ...scenarioCatalog,
  workloads: { ...scenarioCatalog.workloads, hastyCounter: countingWorkloadOf((random) => new HastyCounter(random)) },
};

const crashes = {
  name: 'hasty',
  nodes: 3,
  seconds: 30,
  quietSeconds: 5,
  workload: 'hastyCounter',
  faults: ['powerLoss', 'kill', 'slowDisk'],
  properties: ['durableStaysDurable'],
};

function campaign(patch: Partial<CampaignOptions> & { readonly scenario?: object } = {}): CampaignOptions {
  const { scenario = crashes, ...rest } = patch;
  let nowMs = 0;
  return {
    scenarios: [{ file: 'test/simulation/hasty.json', scenario: parseScenario(scenario, broken) }],
    catalog: broken,
    seeds: 24,
    nowMs: () => (nowMs += 1),
    ...rest,
  };
}

describe('a campaign', () => {
  it('finds a machine that sends before it persists, and prints how to replay the failure', async () => {
    const failures: string[] = [];
    const result = await runCampaign(campaign({ onFailure: (failure) => failures.push(formatFailure(failure)) }));
    assert.equal(result.seedsRun, 24);
    assert.ok(result.failures.length > 0, 'not found in 24 seeds');
    const [first] = result.failures;
    assert.equal(first?.property, 'durableStaysDurable');
    assert.match(first?.message ?? '', /^n\d announced \d+, but its disk holds \d+$/);
    assert.equal(failures.length, result.failures.length);
    const replay = `npm run sim -- --scenario test/simulation/hasty.json --seed ${first?.seed}`;
    assert.ok(failures[0]?.includes(`replay: ${replay}\n`));
    assert.match(failures[0] ?? '', /violates durableStaysDurable at \d+\.\d{3} ms/);
    assert.match(first?.lastLines.at(-1) ?? '', /^ *\d+\.\d{3} world {4}violates durableStaysDurable: n\d announced/);
    assert.ok(first?.lastLines.some((line) => /power lost|process killed/.test(line)));
  });

  it('finds no violation in the correct machine', async () => {
    const result = await runCampaign(campaign({ scenario: { ...crashes, workload: 'counter' } }));
    assert.deepEqual(result.failures, []);
    assert.ok(result.steps > 10_000);
    assert.equal(result.virtualMs, 24 * 40_000);
    assert.equal(result.speed, result.virtualMs / result.realMs);
    assert.ok((result.rare.fired['store-full-once'] ?? 0) > 0);
    assert.ok(result.rare.neverFired.includes('stream-no-credit'));
  });

  it('reports an exception of a program, also if the scenario names other properties', async () => {
    const bomb: Fault = (context) => {
      context.after(1_000, () => {
        context.world.host('n1').process?.after(0, () => {
          throw new Error('a bug');
        });
      });
    };
    const scenario = { ...crashes, workload: 'counter', faults: ['bomb'] };
    const withBomb: ScenarioCatalog = { ...broken, faults: { ...broken.faults, bomb } };
    const scenarios = [{ file: 'x.json', scenario: parseScenario(scenario, withBomb) }];
    const result = await runCampaign(campaign({ scenarios, catalog: withBomb, seeds: 8 }));
    assert.ok(result.failures.length > 0);
    assert.equal(result.failures[0]?.property, 'programsNeverThrow');
    assert.match(result.failures[0]?.message ?? '', /n1: Error: a bug/);
  });

  it('ends at its time limit, or when it is stopped', async () => {
    let nowMs = 0;
    const timed = await runCampaign(campaign({ seeds: 1_000, minutesMax: 1, nowMs: () => (nowMs += 10_000) }));
    assert.ok(timed.seedsRun > 0 && timed.seedsRun < 6);
    let yields = 0;
    const yieldToLoop = async (): Promise<void> => void (yields += 1);
    const stopped = await runCampaign(campaign({ seeds: 1_000, yieldToLoop, isStopped: () => yields === 3 }));
    assert.equal(stopped.seedsRun, 3);
  });
});

describe('a seed', () => {
  const log = (seed: number, name: 'counter' | 'echo'): string => {
    const properties = name === 'counter' ? ['durableStaysDurable'] : ['viewsAgree', 'everyRequestEndsOnce'];
    const faults = Object.keys(ownFaults).filter((fault) => fault !== 'bitRot');
    const value = { name, nodes: 5, seconds: 20, quietSeconds: 90, workload: name, faults, properties };
    const lines: string[] = [];
    const options = { seed, catalog: scenarioCatalog, detailed: true, sink: (line: string) => void lines.push(line) };
    const { violation } = runSeed({ scenario: parseScenario(value), ...options });
    assert.equal(violation, undefined, lines.slice(-20).join('\n'));
    return lines.join('\n');
  };

  for (const name of ['counter', 'echo'] as const) {
    it(`writes the same log, byte for byte, each time (${name})`, () => {
      const first = log(7, name);
      assert.ok(first.length > 5_000);
      assert.equal(log(7, name), first);
      assert.notEqual(log(8, name), first);
    });
  }
});
