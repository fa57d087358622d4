/** Small versions of the membership experiments, whose results must hold in every run. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lanMembershipOptions } from '../../../src/membership/state/options.ts';
import { MembershipCluster } from './membership-cluster.ts';
import { type LifeguardGrid, runSlowMembers } from './lifeguard.ts';
import { oneWayCases, runOneWayFault } from './one-way-links.ts';
import { atLeast, atMost, exactly, median, formatExperimentReport, roundToThreeDigits } from './experiment-report.ts';
import { measureScale } from './scale.ts';
import { failOneMember } from './failure-detection.ts';

const grid: LifeguardGrid = {
  nodesCount: 48,
  slowCounts: [6],
  slowMs: [16_384],
  pausesMs: [16],
  runMs: 60_000,
  trials: 1,
};

describe('the Lifeguard experiment', () => {
  const swim = runSlowMembers('SWIM', grid, 'a');

  it('finds that plain SWIM declares healthy members dead', () => assert.ok(swim.atHealthy > 100, `${swim.atHealthy}`));

  it('finds at most a quarter of the false deaths with the Lifeguard refinements', () => {
    const lifeguard = runSlowMembers('Lifeguard', grid, 'a');
    assert.ok(lifeguard.atHealthy < 0.25 * swim.atHealthy, `${lifeguard.atHealthy} of ${swim.atHealthy}`);
  });

  it('finds at most 2 % of the false deaths with the production options, and at most 20 % more messages', () => {
    const ours = runSlowMembers('ours', grid, 'a');
    assert.ok(ours.atHealthy <= 0.019 * swim.atHealthy, `${ours.atHealthy} of ${swim.atHealthy}`);
    assert.ok(ours.messages <= 1.2 * swim.messages, `${ours.messages} of ${swim.messages}`);
  });

  it('gives the same result for the same seed, and another for another seed', () => {
    const small = { ...grid, nodesCount: 16, slowCounts: [3], runMs: 30_000 };
    assert.deepEqual(runSlowMembers('SWIM', small, 'a'), runSlowMembers('SWIM', small, 'a'));
    assert.notDeepEqual(runSlowMembers('SWIM', small, 'a'), runSlowMembers('SWIM', small, 'b'));
  });
});

describe('a member that fails permanently', () => {
  for (const [how, limitMs] of [
    ['powerLoss', 10_000],
    ['stop', 10_000],
    ['kill', 1_000],
  ] as const) {
    it(`by ${how} is dead to all within ${limitMs} ms, and no other member is`, () => {
      const failure = failOneMember(lanMembershipOptions, 16, how, 'a');
      assert.ok(failure.firstDeadMs <= failure.allDeadMs && failure.allDeadMs <= limitMs, `${failure.allDeadMs}`);
      assert.equal(failure.falsePositives, 0);
    });
  }
});

describe('a fault of links in one direction', () => {
  for (const one of oneWayCases.filter(({ nodesCount }) => nodesCount === 32)) {
    it(`(${one.name}) removes the faulty member without flapping, and no healthy one`, () => {
      const damped = runOneWayFault(one, true, 'a');
      assert.equal(damped.healthyDeaths, 0);
      assert.equal(damped.views, 1);
      assert.ok(damped.removals >= 1 && damped.removals <= 2.5, `${damped.removals} removals`);
    });

    it(`(${one.name}) removes no healthy member without damping either`, () => {
      assert.equal(runOneWayFault(one, false, 'a').healthyDeaths, 0);
    });
  }
});

describe('the scale experiment', () => {
  const context = { seed: 'a', progress: () => {}, heapBytes: () => 0 };

  it('measures the same datagrams with shared tables as with full ones', () => {
    const full = measureScale({ nodesCount: 60, tables: 'full' }, context);
    const shared = measureScale({ nodesCount: 60, tables: 'shared' }, context);
    assert.ok(Math.abs(full.messagesPerNodeSecond - shared.messagesPerNodeSecond) < 0.6);
    assert.ok(Math.abs(full.allDeadMs - shared.allDeadMs) < 3_000, `${full.allDeadMs} and ${shared.allDeadMs}`);
  });

  it('measures the same messages per node in a larger group', () => {
    const [small, large] = [50, 400].map((nodesCount) => measureScale({ nodesCount, tables: 'shared' }, context));
    assert.ok(small !== undefined && large !== undefined);
    assert.ok(large.messagesPerNodeSecond < 1.1 * small.messagesPerNodeSecond);
    assert.ok(Number.isFinite(large.allDeadMs));
    assert.equal(large.falsePositives, 0);
  });
});

describe('a membership cluster', () => {
  it('forms from one seed', () => {
    const group = new MembershipCluster('a');
    const nodes = group.add(20, lanMembershipOptions);
    for (const node of nodes) node.start(nodes.slice(0, 1));
    group.run(5_000);
    for (const node of nodes) assert.equal([...node.machine.members].length, 19);
  });
});

describe('an experiment report', () => {
  it('prints which goals were met and which were missed', () => {
    const goals = [atMost('a', 2, 1, 'x'), atLeast('b', 2, 1, 'x'), exactly('c', 0, 0, 'x')];
    const text = formatExperimentReport({
      experiment: 'e',
      about: ['how'],
      columns: ['name', 'n'],
      rows: [['one', 1]],
      goals,
    });
    assert.match(text, /^how\n\nname +n\none +1\n/);
    assert.match(text, /a +2 +at most 1 x +MISSED\nb +2 +at least 1 x +met\nc +0 +0 x +met$/);
  });

  it('uses medians and at most three digits', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
    assert.equal(median([]), 0);
    assert.deepEqual(
      [roundToThreeDigits(1.23456), roundToThreeDigits(1234.5), roundToThreeDigits(Infinity)],
      [1.23, 1235, Infinity],
    );
  });
});
