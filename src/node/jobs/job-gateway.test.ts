import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { JobMessage } from '../../messages/jobs.ts';
import { ForwardingJobGateway, type JobGatewayParts } from './job-gateway.ts';

const self = nodeIdFrom(new Uint8Array(16).fill(1));
const leader = { id: nodeIdFrom(new Uint8Array(16).fill(2)), host: '10.0.0.2', port: 7400 };

function desk(parts: Partial<JobGatewayParts>): { readonly desk: ForwardingJobGateway; readonly asked: JobMessage[] } {
  const asked: JobMessage[] = [];
  const made = new ForwardingJobGateway({
    ...{ self, isLeading: () => false, leader: () => leader },
    carryOut: ({ verb }, _remainingMs, done) => done(success(`carried out: ${verb}`)),
    store: (_sha256, _code, done) => done(success(undefined)),
    ask: (_to, message, _timeoutMs, done) => {
      asked.push(message);
      done(success({ kind: 'jobReply', answer: 'told' }));
    },
    ...parts,
  });
  return { desk: made, asked };
}

test('who leads carries an order out', () => {
  const { desk: here, asked } = desk({ isLeading: () => true });
  here.send('list', '{}', 'me', 1_000, (outcome) => assert.deepEqual(outcome, success('carried out: list')));
  assert.equal(asked.length, 0);
});

test('everybody else passes it on once more, on behalf of the same one', () => {
  const { desk: here, asked } = desk({});
  here.send('list', '{}', 'me', 1_000, (outcome) => assert.deepEqual(outcome, success('told')));
  assert.deepEqual(asked, [
    {
      kind: 'jobRequest',
      verb: 'list',
      args: '{}',
      submitter: 'me',
      hops: 1,
      waitMs: undefined,
      idempotencyKey: undefined,
    },
  ]);
});

test('a forwarded submission keeps its idempotency key', () => {
  const { desk: here, asked } = desk({});
  const order = { verb: 'submit', args: '{}', submitter: 'me', hops: 0, key: 'nightly-7' } as const;
  here.handle(order, 1_000, () => {});
  assert.deepEqual(
    asked.map((request) => request.kind === 'jobRequest' && request.idempotencyKey),
    ['nightly-7'],
  );
});

test('an order does not go in circles', () => {
  const { desk: here, asked } = desk({});
  here.handle({ verb: 'list', args: '{}', submitter: 'me', hops: 3 }, 1_000, (outcome) => {
    assert.equal(outcome.ok ? undefined : outcome.error.code, 'NOT_LEADER');
  });
  assert.equal(asked.length, 0);
});

test('while nobody leads, that is the answer; also when the last one known is this node', () => {
  for (const known of [undefined, { ...leader, id: self }]) {
    desk({ leader: () => known }).desk.send('list', '{}', 'me', 1_000, (outcome) => {
      assert.equal(outcome.ok ? undefined : outcome.error.code, 'NO_QUORUM');
    });
  }
});

test('what the leader refuses is refused', () => {
  const refused = desk({ ask: (_to, _message, _timeoutMs, done) => done(failure('UNKNOWN_JOB')) });
  refused.desk.send('show', '{}', 'me', 1_000, (outcome) => {
    assert.equal(outcome.ok ? undefined : outcome.error.code, 'UNKNOWN_JOB');
  });
});
