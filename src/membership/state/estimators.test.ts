import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Random } from '../../base/random.ts';
import { type Coordinate, distanceMs, updateCoordinate, originCoordinate } from './coordinates.ts';
import { LocalHealth, localHealthMax } from './local-health.ts';
import { RttEstimator } from './rtt-estimator.ts';

describe('the local health score', () => {
  it('stays between 0 and 8, and multiplies by at most 9', () => {
    const health = new LocalHealth();
    health.record('probeSucceeded');
    assert.equal(health.multiplier, 1);
    for (let i = 0; i < 20; i++) health.record('laggedBadly');
    assert.equal(health.score, localHealthMax);
    assert.equal(health.multiplier, 9);
    for (let i = 0; i < 20; i++) health.record('probeSucceeded');
    assert.equal(health.score, 0);
  });
});

describe('the probe timeout', () => {
  it('is the ceiling for an unknown peer, the floor for a near one, and between them for a far one', () => {
    const [unknown, near, far] = [new RttEstimator(), new RttEstimator(), new RttEstimator()];
    for (let i = 0; i < 50; i++) {
      near.observe(0.4);
      far.observe(200 + (i % 3));
    }
    assert.equal(unknown.timeoutMs(100, 2_000), 2_000);
    assert.equal(near.timeoutMs(100, 2_000), 100);
    const timeoutMs = far.timeoutMs(100, 2_000);
    assert.ok(timeoutMs > 400 && timeoutMs < 500, String(timeoutMs));
  });

  it('grows quickly when the link becomes unsteady', () => {
    const trip = new RttEstimator();
    for (let i = 0; i < 50; i++) trip.observe(10);
    const steadyMs = trip.timeoutMs(1, 10_000);
    trip.observe(300);
    assert.ok(trip.timeoutMs(1, 10_000) > 5 * steadyMs);
  });
});

describe('network coordinates', () => {
  it('learn to predict round trips, also between nodes that never exchanged a message', () => {
    const random = new Random('vivaldi');
    // Three sites: 0.5 ms within, and 40, 90 and 110 ms between them.
    const betweenMs = [
      [0.5, 40, 90],
      [40, 0.5, 110],
      [90, 110, 0.5],
    ];
    const nodes: Coordinate[] = Array.from({ length: 15 }, () => originCoordinate);
    const tripMs = (a: number, b: number) => betweenMs[a % 3]?.[b % 3] ?? 0;
    for (let round = 0; round < 3_000; round++) {
      const [a, b] = [random.below(15), random.below(15)];
      // Node 14 and node 13 never measure each other.
      if (a === b || a + b === 27) continue;
      nodes[a] = updateCoordinate(
        nodes[a] as Coordinate,
        nodes[b] as Coordinate,
        tripMs(a, b) * random.between(0.95, 1.05),
        random,
      );
    }
    const predictedMs = distanceMs(nodes[13] as Coordinate, nodes[14] as Coordinate);
    assert.ok(Math.abs(predictedMs - tripMs(13, 14)) < 0.25 * tripMs(13, 14), `${predictedMs} for ${tripMs(13, 14)}`);
  });

  it('ignore implausible samples', () => {
    const random = new Random('lies');
    const samples: Coordinate[] = [
      { ...originCoordinate, point: [Number.NaN, 0, 0, 0] },
      { ...originCoordinate, point: [1e300, 0, 0, 0] },
      { ...originCoordinate, point: [0] },
      { ...originCoordinate, heightMs: -1 },
      { ...originCoordinate, error: Number.NaN },
    ];
    for (const sample of samples)
      assert.equal(updateCoordinate(originCoordinate, sample, 10, random), originCoordinate);
    for (const tripMs of [0, -1, Number.NaN, Infinity])
      assert.equal(updateCoordinate(originCoordinate, originCoordinate, tripMs, random), originCoordinate);
  });
});
