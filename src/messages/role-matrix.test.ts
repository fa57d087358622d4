import assert from 'node:assert/strict';
import { test } from 'node:test';

import { catalogue, encodeMessage } from './catalogue.ts';
import type { Role } from '../base/ports.ts';
import { roleWords } from './numbers.ts';
import { refusal } from './role-matrix.ts';

test('every message is admitted over its carrier from its senders and from nobody else', () => {
  for (const { kind, tag, carrier, from } of catalogue) {
    const body = Uint8Array.of(1, tag >> 8, tag & 0xff);
    for (const over of ['datagram', 'stream'] as const) {
      for (const role of roleWords) {
        const allowed: readonly string[] = from;
        const expected =
          carrier !== 'both' && carrier !== over ? 'carrier' : allowed.includes(role) ? undefined : 'role';
        assert.equal(refusal(over, [role], body), expected, `${kind} over ${over} from ${role}`);
      }
    }
  }
});

test('a client may ask, but not pose as a member', () => {
  assert.equal(refusal('stream', ['client'], encodeMessage({ kind: 'listMembers' })), undefined);
  assert.equal(refusal('stream', ['client'], encodeMessage({ kind: 'streamPing' })), 'role');
  assert.equal(refusal('stream', ['client', 'worker'], encodeMessage({ kind: 'streamPing' })), undefined);
  assert.equal(refusal('stream', ['king' as Role], encodeMessage({ kind: 'listMembers' })), 'role');
  assert.equal(refusal('stream', [], encodeMessage({ kind: 'listMembers' })), 'role');
});

test('what cannot be judged is refused', () => {
  assert.equal(refusal('stream', ['worker'], Uint8Array.of()), 'header');
  assert.equal(refusal('stream', ['worker'], Uint8Array.of(1, 0)), 'header');
  assert.equal(refusal('stream', ['worker'], Uint8Array.of(0, 0, 1)), 'version');
  assert.equal(refusal('stream', ['worker'], Uint8Array.of(1, 0xff, 0xfe)), 'unknownTag');
});
