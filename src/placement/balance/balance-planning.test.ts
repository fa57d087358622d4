import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import fc from 'fast-check';

import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { type BalancedNode, balanceReport } from './balance-report.ts';
import { type LoadReport, readLoadReport, isSignificantChange, encodeLoadReport } from '../state/load-report.ts';
import { LoadReporter } from './load-reporter.ts';
import { type NodeLoad, leastLoadedFirst, loadScores } from '../plans/load-score.ts';
import { type RebalanceOptions, isBlacklisted, rebalanceOptions } from './rebalance-options.ts';
import { type RebalanceNode, type RebalancePlan, planRebalance } from './rebalance-plan.ts';
import type { LeaseId } from '../../base/registry.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';

const load: LoadReport = { cpu: 0, memory: 0, perSecond: 0, capacity: 1 };
const manual = { movesMax: 100, isManual: true };

function id(number: number): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(number));
}

function nodeLoad(number: number, count: number, report?: Partial<LoadReport>): NodeLoad {
  return { id: id(number), count, report: report && { ...load, ...report } };
}

/** A node with `count` containers that arrived `settledMs` ago. */
function planNode(number: number, count: number, settledMs = 1_000_000): RebalanceNode {
  const movable = Array.from({ length: count }, (_, index) => ({
    name: `p/${number}-${String(index).padStart(2, '0')}`,
    settledMs,
  }));
  return { ...nodeLoad(number, count), movable };
}

function options(others: Partial<RebalanceOptions> = {}): RebalanceOptions {
  return rebalanceOptions('balanced', { strategy: 'fair', ...others });
}

function planned(nodes: readonly RebalanceNode[], chosen = options(), request = manual): RebalancePlan {
  const outcome = planRebalance(nodes, chosen, request);
  assert.ok(outcome.ok, 'a plan');
  return outcome.value;
}

function refusal(nodes: readonly RebalanceNode[], chosen = options(), request = manual): string {
  const outcome = planRebalance(nodes, chosen, request);
  assert.ok(!outcome.ok, 'no plan');
  assert.equal(outcome.error.code, 'PRECONDITION');
  return outcome.error.message;
}

describe('the load score', () => {
  test('fair counts containers, and weighted divides by capacity', () => {
    const nodes = [nodeLoad(1, 4, { capacity: 4 }), nodeLoad(2, 2), nodeLoad(3, 3)];
    assert.deepEqual(loadScores('fair', nodes), [4, 2, 3]);
    assert.deepEqual(loadScores('weighted', nodes), [1, 2, 3]);
    const idle = [nodeLoad(1, 0, { capacity: 1 }), nodeLoad(2, 0, { capacity: 8 })];
    assert.equal(
      leastLoadedFirst('weighted', idle)[0]?.id,
      id(2),
      'of idle nodes the one with the most capacity comes first',
    );
  });

  test('balanced equals fair unless every node has a report', () => {
    assert.deepEqual(loadScores('balanced', [nodeLoad(1, 4, { cpu: 1 }), nodeLoad(2, 2)]), [4, 2]);
  });

  test('balanced includes a busy processor, and leaves out factors that are alike on all nodes', () => {
    const busy = [nodeLoad(1, 4, { cpu: 0.9 }), nodeLoad(2, 4, { cpu: 0.1 })];
    assert.equal(leastLoadedFirst('balanced', busy)[0]?.id, id(2));
    const alike = [nodeLoad(1, 6, { cpu: 0.5, memory: 0.9 }), nodeLoad(2, 0, { cpu: 0.5, memory: 0.9 })];
    assert.deepEqual(loadScores('balanced', alike), [6, 0]);
  });
});

describe('the balance report', () => {
  function report(...counts: number[]): ReturnType<typeof balanceReport> {
    const nodes = counts.map((count, index): BalancedNode => {
      return Object.assign(nodeLoad(index + 1, count), { name: `n${index}`, isActive: true, isGone: false, copies: 0 });
    });
    const plan = planRebalance(
      nodes.map((node, index) => planNode(index + 1, node.count)),
      options({ variationMax: 0 }),
      { movesMax: 100, isManual: true },
    );
    const movesToEven = plan.ok ? plan.value.moves.length : 0;
    return balanceReport({ strategy: 'fair', variationMax: 0.3, movesToEven }, nodes, 0);
  }

  test('has mean, deviation, variation and band', () => {
    const { meanLoad, maxLoad, minLoad, deviation, variation, balanced, band, containers } = report(6, 6, 0);
    assert.deepEqual([meanLoad, maxLoad, minLoad, containers], [4, 6, 0, 12]);
    assert.ok(Math.abs(deviation - Math.sqrt(8)) < 1e-9 && Math.abs(variation - Math.sqrt(8) / 4) < 1e-9);
    assert.equal(balanced, false);
    assert.equal(band, 'severely imbalanced');
    assert.equal(report(4, 4, 4).band, 'well balanced');
    assert.equal(report(4, 4, 4).balanced, true);
  });

  test('calls a node overloaded above mean plus deviation, and underloaded below half the mean', () => {
    const { nodes } = report(10, 3, 3, 2, 0);
    assert.deepEqual(
      nodes.map(({ isOverloaded, isUnderloaded }) => [isOverloaded, isUnderloaded]),
      [
        [true, false],
        [false, false],
        [false, false],
        [false, false],
        [false, true],
      ],
    );
  });

  test('never calls few containers severely imbalanced, or the most even spread imbalanced', () => {
    const { band, balanced, movesToEven } = report(5, 3, 0);
    assert.deepEqual([band, balanced, movesToEven], ['imbalanced', false, 2]);
    assert.deepEqual(
      [report(1, 0, 0).band, report(1, 0, 0).balanced, report(1, 0, 0).movesToEven],
      ['well balanced', true, 0],
    );
    assert.deepEqual([report(3, 3, 2).band, report(50, 30, 0).band], ['well balanced', 'severely imbalanced']);
  });

  test('calls no node of a balanced cluster overloaded', () => {
    const counts = Array.from({ length: 16 }, (_, index) => (index < 6 ? 11 : 10));
    const { nodes, balanced } = report(...counts);
    assert.equal(balanced, true);
    assert.deepEqual(
      nodes.filter(({ isOverloaded, isUnderloaded }) => isOverloaded || isUnderloaded),
      [],
    );
  });

  test('does not count a dead node as active', () => {
    const nodes = [4, 4, 4].map((count, index): BalancedNode => {
      const status = { name: `n${index}`, isActive: true, isGone: index === 2, copies: 0 };
      return Object.assign(nodeLoad(index + 1, count), status);
    });
    const found = balanceReport({ strategy: 'fair', variationMax: 0.3, movesToEven: 0 }, nodes, 0);
    assert.equal(found.activeNodes, 2);
    assert.deepEqual(found.nodes.map(({ isActive, isGone }) => [isActive, isGone])[2], [false, true]);
  });

  test('calls a cluster without containers balanced', () => {
    assert.equal(report().balanced, true);
    assert.equal(report(0, 0).variation, 0);
  });
});

describe('a rebalance plan (DA-14)', () => {
  test('is refused with fewer than two active nodes', () => {
    assert.match(refusal([]), /at least 2 active nodes, and there are none/);
    assert.match(refusal([planNode(1, 9)]), /at least 2 active nodes, and there is 1/);
  });

  test('is refused in the mode off, and by itself in the mode manual', () => {
    assert.match(refusal([planNode(1, 9), planNode(2, 0)], options({ mode: 'off' })), /switched off/);
    const automatic = { movesMax: 1, isManual: false };
    assert.match(refusal([planNode(1, 9), planNode(2, 0)], options(), automatic), /automatic .* switched off/);
  });

  test('has no moves below the threshold', () => {
    const plan = planned([planNode(1, 5), planNode(2, 4), planNode(3, 3)]);
    assert.deepEqual([plan.moves.length, plan.why], [0, 'balanced']);
    const eager = rebalanceOptions('aggressive', { strategy: 'fair' });
    assert.equal(planned([planNode(1, 5), planNode(2, 4), planNode(3, 3)], eager).moves.length, 1);
  });

  test('moves from the most to the least loaded node until the cluster is balanced', () => {
    const plan = planned([planNode(1, 6), planNode(2, 6), planNode(3, 0)], options({ variationMax: 0.1 }));
    assert.equal(plan.moves.length, 4);
    assert.ok(plan.moves.every(({ to }) => to === id(3)));
    assert.equal(plan.variationAfter, 0);
  });

  test('has no more moves than allowed', () => {
    const plan = planned([planNode(1, 9), planNode(2, 0)], options(), { movesMax: 1, isManual: true });
    assert.deepEqual([plan.moves.length, plan.why], [1, 'as many moves as allowed']);
  });

  test('leaves the blacklist alone', () => {
    const chosen = options({ blacklist: ['p/1-*'] });
    assert.equal(planned([planNode(1, 9), planNode(2, 0)], chosen).moves.length, 0);
    assert.ok(
      isBlacklisted(['a/*', '*/x'], 'b/x') && !isBlacklisted(['a*b*c'], 'acb') && isBlacklisted(['a*b*c'], 'abc'),
    );
  });

  test('leaves containers alone during their cooldown, unless an operator requests it', () => {
    const nodes = [planNode(1, 9, 59_999), planNode(2, 0)];
    const automatic = { movesMax: 1, isManual: false };
    assert.equal(planned(nodes, options({ mode: 'automatic' }), automatic).moves.length, 0);
    assert.ok(planned(nodes).moves.length > 0);
  });

  test('has no move that does not help', () => {
    const counts = fc.array(fc.nat(20), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(counts, fc.constantFrom('fair', 'weighted', 'balanced'), (sizes, strategy) => {
        const nodes = sizes.map((count, index) => planNode(index + 1, count));
        const plan = planned(nodes, options({ strategy, variationMax: 0 }), { movesMax: 1_000, isManual: true });
        const after = new Map(nodes.map((node) => [node.id, node.count]));
        for (const { from, to, variationBefore, variationAfter } of plan.moves) {
          assert.ok(variationAfter < variationBefore);
          after.set(from, (after.get(from) as number) - 1);
          after.set(to, (after.get(to) as number) + 1);
        }
        const left = [...after.values()];
        assert.ok(Math.max(...left) - Math.min(...left) <= 1, `${sizes.join()} became ${left.join()}`);
        assert.equal(new Set(plan.moves.map(({ name }) => name)).size, plan.moves.length, 'each moves once');
      }),
      { numRuns: 200 },
    );
  });
});

describe('the record of a load report', () => {
  test('survives a round trip, and a malformed one reads as undefined', () => {
    const texts = fc.json().map((text) => new TextEncoder().encode(text));
    fc.assert(fc.property(fc.oneof(fc.uint8Array(), texts), (value) => assert.equal(readLoadReport(value), undefined)));
    assert.deepEqual(readLoadReport(encodeLoadReport({ ...load, cpu: 0.5 })), { ...load, cpu: 0.5 });
  });
});

describe('load reports', () => {
  test('are written under the lease after a significant change, one at a time', () => {
    const reporter = new LoadReporter(id(1));
    const lease = '7' as LeaseId;
    const measured = (cpu: number, under: LeaseId | undefined = lease): number =>
      reporter.step(0, { kind: 'measured', report: { ...load, cpu }, lease: under }).length;
    const written = {
      kind: 'written',
      outcome: { ok: true, value: { succeeded: true, epoch: registryEpoch('', 0), revision: 1, results: [] } },
    } as const;
    assert.equal(reporter.step(0, { kind: 'measured', report: load, lease: undefined }).length, 0, 'without a lease');
    assert.equal(measured(0.1), 1);
    assert.equal(measured(0.9), 0, 'while one is under way');
    reporter.step(0, written);
    assert.equal(measured(0.12), 0, 'nearly the same');
    assert.equal(measured(0.16), 1);
    reporter.step(0, written);
    assert.equal(measured(0.16, '8' as LeaseId), 1, 'the former report ended with its lease');
  });

  test('differ significantly by capacity, by five points, or by a fifth of the rate', () => {
    assert.ok(isSignificantChange(load, { ...load, capacity: 2 }));
    assert.ok(!isSignificantChange({ ...load, perSecond: 100 }, { ...load, perSecond: 115 }));
    assert.ok(isSignificantChange({ ...load, perSecond: 100 }, { ...load, perSecond: 130 }));
  });
});
