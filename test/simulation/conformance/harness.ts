/** Shared by all conformance suites: opens a port and awaits outcomes. Knows no implementation. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { ErrorCode, Outcome } from '../../../src/base/errors.ts';

/** Advances the world until the promise has settled. Real time advances by itself; a simulated world is stepped. */
export type TestWorld = { readonly settle: <T>(promise: Promise<T>) => Promise<T> };

/** Creates a new world for one test and registers its cleanup with `t.after`. */
export type OpenHarness<Harness> = (t: TestContext) => Harness | Promise<Harness>;

export const realWorld: TestWorld = { settle: (promise) => promise };

/** Every test of a suite ends within this time, whatever the port does. */
export const suiteOptions = { timeout: 60_000 };

/** Awaits the outcome of a call; rejects if its callback runs twice, or before the call returns. */
export function outcomeOf<T>(start: (done: (outcome: Outcome<T>) => void) => void): Promise<Outcome<T>> {
  return new Promise((resolve, reject) => {
    let returned = false;
    let calls = 0;
    start((outcome) => {
      calls += 1;
      assert.equal(calls, 1, 'called back more than once');
      if (returned) resolve(outcome);
      else reject(new assert.AssertionError({ message: 'called back before the call returned' }));
    });
    returned = true;
  });
}

export function unwrap<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) assert.fail(`expected success, got ${outcome.error.code}: ${outcome.error.message}`);
  return outcome.value;
}

/** Starts a call, advances the world, and returns its value. */
export async function expectSuccess<T>(
  world: TestWorld,
  start: (done: (outcome: Outcome<T>) => void) => void,
): Promise<T> {
  return unwrap(await world.settle(outcomeOf(start)));
}

export async function expectFailure<T>(
  world: TestWorld,
  code: ErrorCode | undefined,
  start: (done: (outcome: Outcome<T>) => void) => void,
): Promise<void> {
  const outcome = await world.settle(outcomeOf(start));
  if (outcome.ok) assert.fail(`expected ${code ?? 'an error'}, got success`);
  if (code !== undefined) assert.equal(outcome.error.code, code, outcome.error.message);
}

export const utf8 = new TextEncoder();
const utf8Decoder = new TextDecoder();

export function utf8Text(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : utf8Decoder.decode(bytes);
}
