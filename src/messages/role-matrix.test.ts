import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wireFormat } from '../base/format-versions.ts';

import { catalogue, encodeMessage } from './catalogue.ts';
import type { Role } from '../base/ports.ts';
import { roleNames } from './codec/numbers.ts';
import { checkSender } from './role-matrix.ts';

test('every message is admitted over its carrier from its senders and from nobody else', () => {
  for (const { kind, tag, carrier, from } of catalogue) {
    const body = Uint8Array.of(wireFormat, tag >> 8, tag & 0xff);
    for (const over of ['datagram', 'stream'] as const) {
      for (const role of roleNames) {
        const allowed: readonly string[] = from;
        const expected =
          carrier !== 'both' && carrier !== over ? 'carrier' : allowed.includes(role) ? undefined : 'role';
        assert.equal(checkSender(over, [role], body), expected, `${kind} over ${over} from ${role}`);
      }
    }
  }
});

test('a client may ask, but not pose as a member', () => {
  assert.equal(checkSender('stream', ['client'], encodeMessage({ kind: 'listMembers' })), undefined);
  assert.equal(checkSender('stream', ['client'], encodeMessage({ kind: 'streamPing' })), 'role');
  assert.equal(checkSender('stream', ['client', 'worker'], encodeMessage({ kind: 'streamPing' })), undefined);
  assert.equal(checkSender('stream', ['king' as Role], encodeMessage({ kind: 'listMembers' })), 'role');
  assert.equal(checkSender('stream', [], encodeMessage({ kind: 'listMembers' })), 'role');
});

test('what cannot be judged is refused', () => {
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of()), 'header');
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of(wireFormat, 0)), 'header');
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of(0, 0, 1)), 'version');
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of(wireFormat, 0xff, 0xfe)), 'unknownTag');
});
