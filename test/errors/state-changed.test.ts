/**
 * `stateChanged: 'no'` is a promise. Each row stops a call or write at one place between its effect and its reply, and
 * compares the error with the effect that is found afterwards. Most rows run the real parts on virtual time.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { failure, success } from '../../src/base/errors.ts';
import { formatCallId } from '../../src/base/ids.ts';
import { routeCallReplyOf } from '../../src/containers/calls/call-messages.ts';
import { decodeMessage, encodeMessage } from '../../src/messages/catalogue.ts';
import { CallHarness } from '../support/containers/call-harness.ts';
import { containerPlaces } from '../support/errors/container-places.ts';
import { ranWithoutReply, routingPlaces } from '../support/errors/routing-places.ts';
import { registryPlaces } from '../support/errors/registry-places.ts';

const places = [...containerPlaces, ...routingPlaces, ...registryPlaces];

describe('stateChanged of an error', () => {
  for (const { place, stateChanged: expected, run } of places) {
    test(`is ${expected} at ${place}`, async () => {
      const { outcome, hasEffect } = await run();
      assert.ok(outcome !== undefined, 'it has ended');
      assert.ok(!outcome.ok, 'it has failed');
      const { code, stateChanged, message } = outcome.error;
      assert.ok(!(hasEffect && stateChanged === 'no'), `${code} promises no effect, but there is one: ${message}`);
      assert.equal(stateChanged, expected, `${code}: ${message}`);
      assert.ok(expected === 'maybe' || !hasEffect, 'the row itself is right');
    });
  }

  test('is not used for a call that runs longer than its retryTimeoutMs: the caller waits for it', () => {
    const scene = new CallHarness(['a', 'b', 'c'], 3);
    const { pendingCalls } = scene.node('b');
    scene.node('b').script = ({ id }, run, done) => {
      pendingCalls.add(formatCallId(id));
      scene.timeline.after(4_000, () => done(success(run())));
      return undefined;
    };
    const call = scene.call('a', { route: { id: 1 }, retryTimeoutMs: 1_000 });
    scene.advance(10_000);
    assert.deepEqual([call.code, scene.ran.length], ['ok', 1]);
  });

  test('comes without the claim that no owner has the call when the owner does not reply', () => {
    const { scene, end } = ranWithoutReply(120_000);
    scene.node('b').isFrozen = true;
    scene.advance(120_000);
    const { outcome } = end();
    assert.ok(outcome !== undefined && !outcome.ok);
    assert.doesNotMatch(outcome.error.message, /no owner had the call/);
  });

  test('is carried by the wire, for each of its values', () => {
    for (const stateChanged of ['no', 'maybe', 'yes'] as const) {
      const error = failure('FENCED', 'why', stateChanged);
      const message = decodeMessage(encodeMessage(routeCallReplyOf(error)));
      assert.ok(message.kind === 'routeCallReply');
      assert.equal(message.stateChanged, stateChanged);
    }
  });
});
