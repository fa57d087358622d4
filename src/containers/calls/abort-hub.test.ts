import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Hanging, hangOn, letGo } from './abort-hub.ts';

function hanging(cancel: () => void): Hanging {
  return { cancel, hangsBefore: undefined, hangsAfter: undefined };
}

describe('calls that hang on a signal', () => {
  test('all are cancelled once when it aborts, in order', () => {
    const controller = new AbortController();
    const cancelled: number[] = [];
    for (const number of [1, 2, 3])
      hangOn(
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
        letGo(calls[2] as Hanging);
      }),
    );
    for (const call of calls) hangOn(controller.signal, call);
    letGo(calls[0] as Hanging);
    letGo(calls[0] as Hanging);
    controller.abort();
    assert.deepEqual(cancelled, [2, 4]);
  });

  test('each signal has its own', () => {
    const [one, other] = [new AbortController(), new AbortController()];
    const cancelled: string[] = [];
    hangOn(
      one.signal,
      hanging(() => cancelled.push('one')),
    );
    hangOn(
      other.signal,
      hanging(() => cancelled.push('other')),
    );
    other.abort();
    assert.deepEqual(cancelled, ['other']);
  });
});
