import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wireFormat } from '../../../base/format-versions.ts';
import { identity } from '../../../../test/support/io/transport-nodes.ts';
import { detailOf, rejectionReasonOf } from '../shared/rejections.ts';
import { makeGreeting, readGreeting } from './handshake.ts';

test('a greeting carries the identity, the sessions and whether the connection is auxiliary', () => {
  const greeting = { identity: identity('n'), sessions: Uint8Array.of(1, 2, 3), auxiliary: true };
  assert.deepEqual(readGreeting(makeGreeting(greeting)), greeting);
});

test('a greeting with another wire format is rejected with both numbers and what to do', () => {
  const greeting = makeGreeting({ identity: identity('n'), sessions: new Uint8Array(0) });
  greeting.writeUInt16BE(wireFormat + 1, 0);
  const error = errorOf(() => readGreeting(greeting.subarray(0, 2)));
  assert.equal(rejectionReasonOf(error), 'version');
  const numbers = `it speaks wire format ${wireFormat + 1} and this node ${wireFormat}`;
  const expected = `INCOMPATIBLE_VERSION: ${numbers}: run one version`;
  assert.equal(detailOf(error)?.slice(0, expected.length), expected);
});

function errorOf(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
