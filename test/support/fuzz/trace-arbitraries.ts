/** Messages of the trace grammar for property tests. */
import fc from 'fast-check';
import type { Address } from '../../../src/base/ports.ts';
import type { TraceUpdate, TraceMessage } from '../../../src/messages/trace-format.ts';

/** Objects as the parser makes them. */
const plain = { noNullPrototype: true };

const host = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.constantFrom(
    '::',
    '::1',
    'fe80::1%eth0',
    '::ffff:10.0.0.1',
    '1:2:3:4:5:6:1.2.3.4',
    'localhost',
    'n1.cluster.local',
  ),
  fc.string({ unit: fc.constantFrom('a', 'Z', '0', '9'), minLength: 1, maxLength: 30 }),
);
const address: fc.Arbitrary<Address> = fc.record({ host, port: fc.integer({ min: 0, max: 65_535 }) }, plain);
const number = fc.oneof(fc.nat(), fc.maxSafeNat());
const update: fc.Arbitrary<TraceUpdate> = fc.record(
  { change: fc.constantFrom('join', 'leave', 'alive', 'suspect', 'dead'), address, incarnation: number },
  plain,
);

const opening = fc.oneof(
  fc.record({ verb: fc.constantFrom('probe', 'ack', 'ping-req', 'join', 'leave') }, plain),
  fc.record({ verb: fc.constantFrom('alive', 'suspect', 'dead'), incarnation: number }, plain),
  fc.record({ verb: fc.constantFrom('pre-vote', 'vote-req', 'leader', 'heartbeat'), term: number }, plain),
  fc.record(
    { verb: fc.constantFrom('pre-vote-response', 'vote-response'), term: number, granted: fc.boolean() },
    plain,
  ),
);

export const traceMessageArbitrary: fc.Arbitrary<TraceMessage> = fc
  .tuple(
    opening,
    address,
    fc.array(update, { maxLength: 8 }),
    fc.option(fc.uint8Array({ minLength: 1, maxLength: 512 }), { nil: undefined }),
  )
  .map(([start, about, updates, state]) => Object.assign(start, { address: about, updates, state }));
