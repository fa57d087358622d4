/**
 * Vivaldi network coordinates and their wire form. They predict the round trip, in milliseconds, between two nodes that
 * have never exchanged a message. Ignores implausible samples.
 */
import type { Random } from '../../base/random.ts';
import type { MembershipMessageOf } from './context.ts';

export type Coordinate = {
  readonly point: readonly number[];
  readonly heightMs: number;
  /** Relative error of recent predictions, 0 to 1.5. */
  readonly error: number;
};

const dimensions = 4;
const errorMax = 1.5;
const errorRatio = 0.25;
const moveRatio = 0.25;
const heightMinMs = 0.01;
const zeroThresholdMs = 1e-3;
/** A point that is further away than any network reaches is refused. */
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

/** The own coordinate after one measurement; unchanged if the sample is not finite or implausibly far. */
export function updateCoordinate(own: Coordinate, other: Coordinate, roundTripMs: number, random: Random): Coordinate {
  if (!isPlausible(other) || !(roundTripMs > 0 && roundTripMs < distanceMsMax)) return own;
  const predictedMs = distanceMs(own, other);
  const relativeError = Math.abs(predictedMs - roundTripMs) / roundTripMs;
  const weight = own.error / Math.max(own.error + other.error, 1e-6);
  const error = Math.min(errorMax, relativeError * errorRatio * weight + own.error * (1 - errorRatio * weight));
  const forceMs = moveRatio * weight * (roundTripMs - predictedMs);
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
  return isPlausible(next) ? next : own;
}

function randomDirection(random: Random): readonly number[] {
  const raw = Array.from({ length: dimensions }, () => random.between(-1, 1));
  const length = Math.hypot(...raw);
  return length > 0 ? raw.map((value) => value / length) : [1, ...raw.slice(1)];
}

function isPlausible(coordinate: Coordinate): boolean {
  const { point, heightMs, error } = coordinate;
  if (point.length !== dimensions || !(heightMs >= 0 && heightMs <= distanceMsMax) || !(error >= 0)) return false;
  return point.every((value) => Math.abs(value) <= distanceMsMax);
}

/** Whole microseconds and thousandths. */
type WireCoordinate = NonNullable<MembershipMessageOf<'ack'>['coordinate']>;

export function encodeCoordinate(coordinate: Coordinate): WireCoordinate {
  return {
    pointUs: coordinate.point.map((ms) => Math.round(ms * 1000)),
    heightUs: Math.round(coordinate.heightMs * 1000),
    errorPermille: Math.min(0xffff, Math.round(coordinate.error * 1000)),
  };
}

export function decodeCoordinate(wire: WireCoordinate): Coordinate {
  return {
    point: wire.pointUs.map((us) => us / 1000),
    heightMs: wire.heightUs / 1000,
    error: wire.errorPermille / 1000,
  };
}
