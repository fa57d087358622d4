import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AbortListener, addAbortListener, removeAbortListener } from './abort-listeners.ts';

function hanging(cancel: () => void): AbortListener {
  return { cancel, previous: undefined, next: undefined };
}

describe('calls that hang on a signal', () => {
  test('all are cancelled once when it aborts, in order', () => {
    const controller = new AbortController();
    const cancelled: number[] = [];
    for (const number of [1, 2, 3])
      addAbortListener(
        controller.signal,
        hanging(() => cancelled.push(number)),
      );
    controller.abort();
    controller.abort();
    assert.deepEqual(cancelled, [1, 2, 3]);
  });

  test('who has let go is left alone, also when another one made it do so', () => {
    const controller = new AbortController();
    const cancelled: number[] = [];
    const calls = [1, 2, 3, 4].map((number) =>
      hanging(() => {
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

  test('each signal has its own', () => {
    const [one, other] = [new AbortController(), new AbortController()];
    const cancelled: string[] = [];
    addAbortListener(
      one.signal,
      hanging(() => cancelled.push('one')),
    );
    addAbortListener(
      other.signal,
      hanging(() => cancelled.push('other')),
    );
    other.abort();
    assert.deepEqual(cancelled, ['other']);
  });
});
