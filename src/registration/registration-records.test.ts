/** Records are decoded strictly, and the table of mode transitions is complete. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type PreviousMode, nextMode, nodeModes, stateReasons } from './node-modes.ts';
import { registrationOptions } from './registration-options.ts';
import {
  type NodeStateRecord,
  encodeRegistrationRecord,
  readEpoch,
  readRegistration,
  readNodeState,
} from './registration-records.ts';

const state: NodeStateRecord = {
  mode: 'active',
  reason: 'boot',
  generation: 1,
  epoch: 2,
  lost: false,
  sinceWallMs: 3,
  note: 'because',
};
const registration = {
  name: 'n1',
  generation: 4,
  host: '::1',
  port: 7000,
  roles: ['worker', 'gate'],
  dc: 'dc1',
  epoch: 2,
} as const;
const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

describe('a registration record', () => {
  test('is decoded as it was encoded', () => {
    assert.deepEqual(readNodeState(encodeRegistrationRecord(state)), state);
    assert.deepEqual(readRegistration(encodeRegistrationRecord(registration)), registration);
    assert.deepEqual(readEpoch(encodeRegistrationRecord({ epoch: 7, term: 9 })), { epoch: 7, term: 9 });
  });

  test('may have fields of a later version, which are ignored', () => {
    assert.deepEqual(readNodeState(bytes({ ...state, colour: 'green' })), state);
  });

  test('is malformed if a field is missing or invalid', () => {
    for (const name of Object.keys(state).filter((one) => one !== 'lost')) {
      assert.equal(readNodeState(bytes({ ...state, [name]: undefined })), undefined, name);
      assert.equal(readNodeState(bytes({ ...state, [name]: { a: 1 } })), undefined, name);
    }
    for (const name of Object.keys(registration))
      assert.equal(readRegistration(bytes({ ...registration, [name]: undefined })), undefined, name);
    const bad = [
      { ...state, mode: 'sleeping' },
      { ...state, reason: 'whim' },
      { ...state, epoch: -1 },
      [],
      null,
      'active',
    ];
    for (const value of bad) assert.equal(readNodeState(bytes(value)), undefined, JSON.stringify(value));
    assert.equal(readNodeState(bytes({ ...state, note: 'x'.repeat(201) })), undefined);
    assert.equal(readRegistration(bytes({ ...registration, roles: ['king'] })), undefined);
    for (const text of ['', '{', '\u{fffd}'])
      assert.equal(readNodeState(new TextEncoder().encode(text)), undefined, JSON.stringify(text));
    assert.equal(readNodeState(new Uint8Array([0xff, 0xfe])), undefined);
  });
});

describe('node modes', () => {
  test('have exactly the transitions of the specification', () => {
    const modes: readonly PreviousMode[] = ['none', 'unknown', ...nodeModes];
    const rows = stateReasons.map((reason) => {
      const transitions = modes.flatMap((from) => {
        const to = nextMode(reason, from);
        return to === undefined ? [] : [`${from}>${to}`];
      });
      return `${reason}: ${transitions.join(' ')}`;
    });
    assert.deepEqual(rows, [
      'boot: none>joining',
      'join: none>joining',
      'fast_restart: none>drained unknown>drained joining>joining active>joining draining>draining drained>drained',
      'full_cluster_restart: none>drained unknown>drained joining>joining active>joining draining>draining drained>drained',
      'stale_restart: none>drained unknown>drained joining>drained active>drained draining>drained drained>drained',
      'registration_expired: none>drained unknown>drained joining>drained active>drained draining>drained drained>drained',
      'admin_drain: active>draining drained>drained',
      'drain_complete: draining>drained',
      'admin_activate: unknown>active drained>active',
    ]);
  });
});

describe('registration options', () => {
  test('scale with the TTL and keep their relations; invalid ones are refused', () => {
    const short = registrationOptions({ ttlMs: 3_200 });
    assert.equal(short.backoffMaxMs, 500);
    assert.equal(short.certainForMs, 2_560);
    assert.throws(() => registrationOptions({ ttlMs: 10 }), /out of bounds/);
    assert.throws(() => registrationOptions({ certainForMs: 32_000 }), /must be below ttlMs/);
    assert.throws(() => registrationOptions({ renewAfterMs: 20_000 }), /needs time for a retry/);
  });
});
