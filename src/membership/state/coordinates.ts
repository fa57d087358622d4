/**
 * Vivaldi network coordinates and their wire form: predict the round trip between nodes that never spoke. Ignores
 * implausible samples.
 *
 * Distances are in milliseconds. The random direction for two points in one place comes from the Random handed in.
 */
import type { Random } from '../../base/random.ts';

export type Coordinate = {
  readonly point: readonly number[];
  readonly heightMs: number;
  /** How wrong predictions were lately: 0 is sure, 1 and more is not. */
  readonly error: number;
};

const dimensions = 4;
const errorMax = 1.5;
const errorShare = 0.25;
const moveShare = 0.25;
const heightMinMs = 0.01;
const zeroThresholdMs = 1e-3;
/** A point further away than any network is a lie or a mistake. */
const distanceMsMax = 60_000;

export const originCoordinate: Coordinate = {
  point: Array.from({ length: dimensions }, () => 0),
  heightMs: heightMinMs,
  error: errorMax,
};

export function distanceMs(a: Coordinate, b: Coordinate): number {
  let squares = 0;
  for (let i = 0; i < dimensions; i++) squares += ((a.point[i] ?? 0) - (b.point[i] ?? 0)) ** 2;
  return Math.sqrt(squares) + a.heightMs + b.heightMs;
}

/** Our point after one measurement. What cannot be (not finite, absurdly far) changes nothing. */
export function updateCoordinate(own: Coordinate, other: Coordinate, roundTripMs: number, random: Random): Coordinate {
  if (!plausible(other) || !(roundTripMs > 0 && roundTripMs < distanceMsMax)) return own;
  const predictedMs = distanceMs(own, other);
  const surprise = Math.abs(predictedMs - roundTripMs) / roundTripMs;
  const weight = own.error / Math.max(own.error + other.error, 1e-6);
  const error = Math.min(errorMax, surprise * errorShare * weight + own.error * (1 - errorShare * weight));
  const forceMs = moveShare * weight * (roundTripMs - predictedMs);
  return applyForce({ ...own, error }, other, forceMs, random);
}

function applyForce(own: Coordinate, other: Coordinate, forceMs: number, random: Random): Coordinate {
  const away = own.point.map((value, i) => value - (other.point[i] ?? 0));
  const length = Math.hypot(...away);
  const apart = length > zeroThresholdMs;
  const direction = apart ? away.map((value) => value / length) : randomDirection(random);
  const point = own.point.map((value, i) => value + (direction[i] ?? 0) * forceMs);
  const heightMs = apart ? ((own.heightMs + other.heightMs) * forceMs) / length + own.heightMs : own.heightMs;
  const next = { point, heightMs: Math.min(distanceMsMax, Math.max(heightMinMs, heightMs)), error: own.error };
  return plausible(next) ? next : own;
}

function randomDirection(random: Random): readonly number[] {
  const raw = Array.from({ length: dimensions }, () => random.between(-1, 1));
  const length = Math.hypot(...raw);
  return length > 0 ? raw.map((value) => value / length) : [1, ...raw.slice(1)];
}

function plausible(coordinate: Coordinate): boolean {
  const { point, heightMs, error } = coordinate;
  if (point.length !== dimensions || !(heightMs >= 0 && heightMs <= distanceMsMax) || !(error >= 0)) return false;
  return point.every((value) => Math.abs(value) <= distanceMsMax);
}
