import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { success } from '../../base/errors.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import { idOf } from '../../../test/support/containers/call-harness.ts';
import type { CallResult, RoutedCall } from '../contract.ts';
import { CallerSession } from './caller-session.ts';

/** A session whose calls all end with this result. */
function sessionWith(result: CallResult): { readonly session: CallerSession; readonly started: readonly RoutedCall[] } {
  const started: RoutedCall[] = [];
  const session = new CallerSession({
    ...{ self: { id: idOf(1), generation: 1 }, name: 'test', serial: 1, callTimeoutMs: 30_000 },
    start: (call, completion) => {
      started.push(call);
      completion.complete(success(result));
      return { cancel: () => {} };
    },
  });
  return { session, started };
}

const parts: CallResult = {
  parts: [1, 2].map((value, container) => ({ container, ok: true, value: encodeValue(value) })),
};
const all = { pool: 'p', method: 'read', args: [], route: { broadcast: true } } as const;

describe('a session of a caller in this process', () => {
  test('combines the results of several containers where the node could not', async () => {
    const { session } = sessionWith(parts);
    const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
    assert.equal(await session.call({ ...all, aggregate: sum }), 3);
    assert.deepEqual(await session.call(all), [1, 2], 'a caller without the module');
  });

  test('says of a failed aggregate that the containers have run the method', async () => {
    const { session } = sessionWith(parts);
    const aggregate = (): never => {
      throw new Error('no');
    };
    await assert.rejects(session.call({ ...all, aggregate }), { code: 'CALL_FAILED', stateChanged: 'maybe' });
  });

  test('takes a retry timeout of 0, and no timeout of 0', async () => {
    const { session, started } = sessionWith({ value: encodeValue(7) });
    assert.equal(await session.call(all, { retryTimeoutMs: 0 }), 7);
    assert.deepEqual(
      started.map(({ retryTimeoutMs }) => retryTimeoutMs),
      [0],
    );
    for (const options of [{ timeoutMs: 0 }, { retryTimeoutMs: -1 }, { retryTimeoutMs: Number.NaN }])
      await assert.rejects(session.call(all, options), { code: 'BAD_ARGUMENT' });
  });
});
