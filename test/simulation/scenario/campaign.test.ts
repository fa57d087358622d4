import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Random } from '../../../src/base/random.ts';
import { type CampaignOptions, formatFailure, runCampaign } from './campaign.ts';
import { Counter, type CounterMachine, countingWorkloadOf } from '../workloads/nodes/counter-workload.ts';
import { type Fault, commonFaults as ownFaults } from '../faults/common-faults.ts';
import { scenarioCatalog, type ScenarioCatalog } from './scenario-catalog.ts';
import { runSeed } from './seed-run.ts';
import { parseScenario } from './scenario.ts';

/** Announces first and persists afterwards, which is the mistake that the loop's rule is there to prevent. */
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
    registry: broken,
    seeds: 24,
    nowMs: () => (nowMs += 1),
    ...rest,
  };
}

describe('a campaign', () => {
  it('finds a machine that sends before it persists, and tells how to see it again', async () => {
    const told: string[] = [];
    const result = await runCampaign(campaign({ failed: (failure) => told.push(formatFailure(failure)) }));
    assert.equal(result.seedsRun, 24);
    assert.ok(result.failures.length > 0, 'not found in two dozen seeds');
    const [first] = result.failures;
    assert.equal(first?.property, 'durableStaysDurable');
    assert.match(first?.message ?? '', /^n\d announced \d+, but its disk holds \d+$/);
    assert.equal(told.length, result.failures.length);
    const replay = `npm run sim -- --scenario test/simulation/hasty.json --seed ${first?.seed}`;
    assert.ok(told[0]?.includes(`replay: ${replay}\n`));
    assert.match(told[0] ?? '', /violates durableStaysDurable at \d+\.\d{3} ms/);
    assert.match(first?.lastLines.at(-1) ?? '', /^ *\d+\.\d{3} world {4}violates durableStaysDurable: n\d announced/);
    assert.ok(first?.lastLines.some((line) => /power lost|process killed/.test(line)));
  });

  it('finds nothing wrong with the machine as it should be', async () => {
    const result = await runCampaign(campaign({ scenario: { ...crashes, workload: 'counter' } }));
    assert.deepEqual(result.failures, []);
    assert.ok(result.steps > 10_000);
    assert.equal(result.virtualMs, 24 * 40_000);
    assert.equal(result.speed, result.virtualMs / result.realMs);
    assert.ok((result.rare.fired['store-full-once'] ?? 0) > 0);
    assert.ok(result.rare.neverFired.includes('stream-no-credit'));
  });

  it('sees what a program throws, whatever the scenario asks for', async () => {
    const bomb: Fault = (nemesis) => {
      nemesis.after(1_000, () => {
        nemesis.world.host('n1').process?.after(0, () => {
          throw new Error('mistake');
        });
      });
    };
    const scenario = { ...crashes, workload: 'counter', faults: ['bomb'] };
    const withBomb: ScenarioCatalog = { ...broken, faults: { ...broken.faults, bomb } };
    const scenarios = [{ file: 'x.json', scenario: parseScenario(scenario, withBomb) }];
    const result = await runCampaign(campaign({ scenarios, registry: withBomb, seeds: 8 }));
    assert.ok(result.failures.length > 0);
    assert.equal(result.failures[0]?.property, 'programsNeverThrow');
    assert.match(result.failures[0]?.message ?? '', /n1: Error: mistake/);
  });

  it('ends when its time is over, or when it is told to', async () => {
    let nowMs = 0;
    const timed = await runCampaign(campaign({ seeds: 1_000, minutesMax: 1, nowMs: () => (nowMs += 10_000) }));
    assert.ok(timed.seedsRun > 0 && timed.seedsRun < 6);
    let breaths = 0;
    const yieldToLoop = async (): Promise<void> => void (breaths += 1);
    const stopped = await runCampaign(campaign({ seeds: 1_000, yieldToLoop, isStopped: () => breaths === 3 }));
    assert.equal(stopped.seedsRun, 3);
  });
});

describe('a seed', () => {
  const log = (seed: number, name: 'counter' | 'greetings'): string => {
    const properties = name === 'counter' ? ['durableStaysDurable'] : ['viewsAgree', 'everyRequestEndsOnce'];
    const faults = Object.keys(ownFaults).filter((fault) => fault !== 'bitRot');
    const value = { name, nodes: 5, seconds: 20, quietSeconds: 90, workload: name, faults, properties };
    const lines: string[] = [];
    const options = { seed, registry: scenarioCatalog, detailed: true, sink: (line: string) => void lines.push(line) };
    const { violation } = runSeed({ scenario: parseScenario(value), ...options });
    assert.equal(violation, undefined, lines.slice(-20).join('\n'));
    return lines.join('\n');
  };

  for (const name of ['counter', 'greetings'] as const) {
    it(`gives the same log to the byte each time (${name})`, () => {
      const first = log(7, name);
      assert.ok(first.length > 5_000);
      assert.equal(log(7, name), first);
      assert.notEqual(log(8, name), first);
    });
  }
});
