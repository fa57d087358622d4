/** A coordinate as it travels: whole microseconds and thousandths. */
import type { Coordinate } from './coordinates.ts';
import type { MembershipMessageOf } from './context.ts';

type OnWire = NonNullable<MembershipMessageOf<'ack'>['coordinate']>;

export function encodeCoordinate(coordinate: Coordinate): OnWire {
  return {
    pointUs: coordinate.point.map((ms) => Math.round(ms * 1000)),
    heightUs: Math.round(coordinate.heightMs * 1000),
    errorPermille: Math.min(0xffff, Math.round(coordinate.error * 1000)),
  };
}

export function decodeCoordinate(wire: OnWire): Coordinate {
  return {
    point: wire.pointUs.map((us) => us / 1000),
    heightMs: wire.heightUs / 1000,
    error: wire.errorPermille / 1000,
  };
}
