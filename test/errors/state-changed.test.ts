/**
 * "Nothing happened" is a promise. Each row stops one place on the way of a call or write between the effect and its
 * answer, and compares what the error says with what has happened. Most rows run the real parts on virtual time.
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

describe('what an error says about its effect', () => {
  for (const { place, says, run } of places) {
    test(`${place}: it says ${says}`, async () => {
      const { outcome, happened } = await run();
      assert.ok(outcome !== undefined, 'it has ended');
      assert.ok(!outcome.ok, 'it has failed');
      const { code, stateChanged, message } = outcome.error;
      assert.ok(!(happened && stateChanged === 'no'), `${code} promises that nothing happened, and it did: ${message}`);
      assert.equal(stateChanged, says, `${code}: ${message}`);
      assert.ok(says === 'maybe' || !happened, 'the row itself is right');
    });
  }

  test('a call that runs longer than its retryTimeoutMs is not given up as one that no owner has', () => {
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

  test('an owner that has fallen silent is not said to be missing', () => {
    const { scene, end } = ranWithoutReply(120_000);
    scene.node('b').isFrozen = true;
    scene.advance(120_000);
    const { outcome } = end();
    assert.ok(outcome !== undefined && !outcome.ok);
    assert.doesNotMatch(outcome.error.message, /no owner had it/);
  });

  test('the wire carries the value of the instance', () => {
    for (const stateChanged of ['no', 'maybe', 'yes'] as const) {
      const error = failure('FENCED', 'why', stateChanged);
      const message = decodeMessage(encodeMessage(routeCallReplyOf(error)));
      assert.ok(message.kind === 'routeCallReply');
      assert.equal(message.stateChanged, stateChanged);
    }
  });
});
