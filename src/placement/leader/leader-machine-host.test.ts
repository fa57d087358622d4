/** The host of a leader machine: every request gets exactly one reply, also around a stop. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FakeClock } from '../../../test/fakes/fake-clock.ts';
import { FakeLeadership } from '../../../test/fakes/fake-leadership.ts';
import { fakeRegistry } from '../../../test/fakes/fake-registry.ts';
import { type Outcome, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import { type LeaderEffect, type LeaderInput, LeaderMachineHost } from './leader-machine-host.ts';

type AskRequest = { readonly kind: 'ask' | 'hold'; readonly call: number };

/** Replies to `ask` at once, and to `hold` never. */
const machine = {
  step: (_nowMs: number, input: LeaderInput | AskRequest): readonly LeaderEffect<string, never>[] =>
    input.kind === 'ask' ? [{ kind: 'reply', call: input.call, outcome: success('done') }] : [],
};

function startedHost() {
  const clock = new FakeClock();
  const leadership = new FakeLeadership(nodeIdFrom(new Uint8Array(16)));
  const onHalt = (error: unknown): void => assert.fail(String(error));
  const ports = { clock, leadership, registry: fakeRegistry({ clock }), emit: () => {}, onHalt };
  const host = new LeaderMachineHost<AskRequest, string, never>(ports, machine);
  const replies: string[] = [];
  const note = (outcome: Outcome<string>): void => {
    replies.push(outcome.ok ? outcome.value : `${outcome.error.code} ${outcome.error.stateChanged}`);
  };
  const request = (kind: AskRequest['kind'], done = note): void => host.request((call) => ({ kind, call }), done);
  return { host, clock, replies, request, note };
}

describe('the host of a leader machine', () => {
  test('refuses a request after it stopped, without any effect', async () => {
    const { host, clock, replies, request } = startedHost();
    host.stop();
    request('ask');
    await clock.until(1_000);
    assert.deepEqual(replies, ['NOT_LEADER no']);
  });

  test('ends the requests that wait when it stops, each once', async () => {
    const { host, clock, replies, request } = startedHost();
    request('hold');
    await clock.until(1_000);
    request('ask');
    host.stop();
    host.stop();
    await clock.until(2_000);
    assert.deepEqual(replies, ['NOT_LEADER maybe', 'NOT_LEADER maybe']);
  });

  test('replies once to a caller that stops it from the reply', async () => {
    const { host, clock, replies, request, note } = startedHost();
    request('ask', (outcome) => {
      note(outcome);
      host.stop();
    });
    await clock.until(1_000);
    assert.deepEqual(replies, ['done']);
  });
});
