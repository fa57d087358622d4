import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wireFormat } from '../base/format-versions.ts';

import { catalogue, encodeMessage } from './catalogue.ts';
import type { Role } from '../base/ports.ts';
import { roleNames } from './codec/numbers.ts';
import { checkSender } from './role-matrix.ts';

test('checkSender admits every message over its carrier from its senders only', () => {
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

test('a client may send requests, but no messages of members', () => {
  assert.equal(checkSender('stream', ['client'], encodeMessage({ kind: 'listMembers' })), undefined);
  assert.equal(checkSender('stream', ['client'], encodeMessage({ kind: 'streamPing' })), 'role');
  assert.equal(checkSender('stream', ['client', 'worker'], encodeMessage({ kind: 'streamPing' })), undefined);
  assert.equal(checkSender('stream', ['king' as Role], encodeMessage({ kind: 'listMembers' })), 'role');
  assert.equal(checkSender('stream', [], encodeMessage({ kind: 'listMembers' })), 'role');
});

test('checkSender rejects bodies without a valid header', () => {
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of()), 'header');
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of(wireFormat, 0)), 'header');
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of(0, 0, 1)), 'version');
  assert.equal(checkSender('stream', ['worker'], Uint8Array.of(wireFormat, 0xff, 0xfe)), 'unknownTag');
});
