import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AbortListener, addAbortListener, removeAbortListener } from './abort-listeners.ts';

function listener(cancel: () => void): AbortListener {
  return { cancel, previous: undefined, next: undefined };
}

describe('an abort signal', () => {
  test('cancels all its calls once, in order', () => {
    const controller = new AbortController();
    const cancelled: number[] = [];
    for (const number of [1, 2, 3])
      addAbortListener(
        controller.signal,
        listener(() => cancelled.push(number)),
      );
    controller.abort();
    controller.abort();
    assert.deepEqual(cancelled, [1, 2, 3]);
  });

  test('does not cancel a call that was removed, even by the cancellation of another', () => {
    const controller = new AbortController();
    const cancelled: number[] = [];
    const calls = [1, 2, 3, 4].map((number) =>
      listener(() => {
        cancelled.push(number);
        removeAbortListener(calls[2] as AbortListener);
      }),
    );
    for (const call of calls) addAbortListener(controller.signal, call);
    removeAbortListener(calls[0] as AbortListener);
    removeAbortListener(calls[0] as AbortListener);
    controller.abort();
    assert.deepEqual(cancelled, [2, 4]);
  });

  test('cancels only its own calls', () => {
    const [one, other] = [new AbortController(), new AbortController()];
    const cancelled: string[] = [];
    addAbortListener(
      one.signal,
      listener(() => cancelled.push('one')),
    );
    addAbortListener(
      other.signal,
      listener(() => cancelled.push('other')),
    );
    other.abort();
    assert.deepEqual(cancelled, ['other']);
  });
});
