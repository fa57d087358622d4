/** The group workload reports what its properties need, and repeats its log for the same seed. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runCampaign } from '../../scenario/campaign.ts';
import type { Property } from '../../checking/workload.ts';
import { scenarioCatalog, type ScenarioCatalog } from '../../scenario/scenario-catalog.ts';
import { runSeed } from '../../scenario/seed-run.ts';
import { parseScenario, type Scenario } from '../../scenario/scenario.ts';
import { groupFaults } from './group-faults.ts';
import { groupProperties } from './group-properties.ts';

function scenarioOf(patch: Partial<Scenario> = {}): Scenario {
  const whole = { name: 'group', nodes: 3, seconds: 10, quietSeconds: 12, workload: 'group', faults: [] };
  return parseScenario({
    ...whole,
    properties: ['committedStaysCommitted', 'historiesAreLinearizable', 'membersConverge'],
    ...patch,
  });
}

/** How often each kind of observation occurs in a run with that seed. */
function countObservations(scenario: Scenario, seed: number): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const count: Property = () => ({
    observe: ({ kind }) => {
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      return undefined;
    },
  });
  const counting: ScenarioCatalog = { ...scenarioCatalog, properties: { ...scenarioCatalog.properties, count } };
  const properties = [...scenario.properties, 'count'];
  const { violation } = runSeed({ scenario: { ...scenario, properties }, seed, catalog: counting });
  assert.deepEqual(violation, undefined);
  return counts;
}

describe('a simulated group', () => {
  it('elects a leader, serves its clients and reports what the properties need', () => {
    const calm = countObservations(scenarioOf(), 1);
    assert.equal(calm.get('leads'), 1);
    assert.equal(calm.get('elected'), 1);
    assert.ok((calm.get('voted') ?? 0) >= 1);
    for (const kind of [
      'applied',
      'committed',
      'replied',
      'called',
      'commitAdvanced',
      'logAcknowledged',
      'groupStatus',
    ])
      assert.ok((calm.get(kind) ?? 0) >= 10, kind);
  });

  it('reports restored states, failed attempts and many leaders under faults', () => {
    const faults = [
      'crashLeader',
      'quickRestart',
      'stallLeader',
      'cutLeader',
      'transfer',
      'changeMembers',
      'processGoneNotice',
    ];
    const scenario = scenarioOf({ nodes: 5, workload: 'groupWithSpares', faults });
    const seen = new Map<string, number>();
    for (let seed = 1; seed <= 6; seed++)
      for (const [kind, count] of countObservations(scenario, seed)) seen.set(kind, (seen.get(kind) ?? 0) + count);
    for (const kind of ['restored', 'attemptFailed', 'stopped']) assert.ok((seen.get(kind) ?? 0) > 0, kind);
    assert.ok((seen.get('leads') ?? 0) > 12);
  });

  it('writes the same log, byte for byte, for the same seed', () => {
    const scenario = scenarioOf({ faults: Object.keys(groupFaults), seconds: 8, quietSeconds: 4 });
    const log = (seed: number): string => {
      const lines: string[] = [];
      const options = { detailed: true, sink: (line: string) => void lines.push(line) };
      runSeed({
        scenario: { ...scenario, properties: ['committedStaysCommitted'] },
        seed,
        catalog: scenarioCatalog,
        ...options,
      });
      return lines.join('\n');
    };
    const [first, again, other] = [log(5), log(5), log(6)];
    assert.ok(first.length > 10_000);
    assert.equal(first, again);
    assert.notEqual(first, other);
  });

  it('passes a campaign of all its faults and properties', async () => {
    const patch = { faults: Object.keys(groupFaults).filter((name) => name !== 'isolateFollowers'), quietSeconds: 22 };
    const properties = Object.keys(groupProperties).filter((name) => name !== 'leaderIsStable');
    const scenario = scenarioOf({ ...patch, properties: [...properties, 'historiesAreLinearizable'] });
    const scenarios = [{ file: 'test/simulation/group.json', scenario }];
    const result = await runCampaign({ scenarios, seeds: 8, nowMs: () => performance.now() });
    assert.equal(result.seedsRun, 8);
    assert.deepEqual(
      result.failures.map(({ seed, property, message }) => `${seed} ${property} ${message}`),
      [],
    );
  });
});
