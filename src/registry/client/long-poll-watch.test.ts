import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Done, failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock, Peer } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { LeaderFinder } from './leader-finder.ts';
import { LongPollWatch } from './long-poll-watch.ts';

const peer = (letter: string): Peer => ({ id: letter.repeat(32) as NodeId, host: letter, port: 1 });

describe('a long-poll watch', () => {
  it('leaves a manager that is no longer known, although its request is still open, and polls another one', () => {
    const timeline = new Timeline();
    const clock: Clock = {
      nowMs: () => timeline.nowMs,
      wallMs: () => timeline.nowMs,
      schedule: (delayMs, run) => timeline.after(delayMs, run),
    };
    let managers = [peer('a'), peer('b')];
    const requested: string[] = [];
    const send = (to: Peer, _body: Uint8Array, _timeoutMs: number, done: Done<Uint8Array>) => {
      requested.push(to.host);
      return () => void timeline.after(0, () => done(failure('CANCELLED')));
    };
    const parts = { clock, random: new Random('watch'), finder: new LeaderFinder(() => managers), send };
    const watch = { range: { from: 'a', to: 'b' }, start: { revision: 1 }, events: { changed() {}, compacted() {} } };
    const poll = new LongPollWatch(parts, watch, () => assert.fail('nothing was compacted'));
    timeline.runUntil(10_000);
    assert.deepEqual(requested, ['a'], 'no reply is no reason to change the manager');
    managers = [peer('b')];
    timeline.runUntil(15_000);
    assert.deepEqual(requested, ['a', 'b']);
    poll.cancel();
  });
});
