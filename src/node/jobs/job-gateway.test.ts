import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { JobMessage } from '../../messages/jobs.ts';
import { ForwardingJobGateway, type JobGatewayPorts } from './job-gateway.ts';

const self = nodeIdFrom(new Uint8Array(16).fill(1));
const leader = { id: nodeIdFrom(new Uint8Array(16).fill(2)), host: '10.0.0.2', port: 7400 };

function gatewayScene(ports: Partial<JobGatewayPorts>): {
  readonly gateway: ForwardingJobGateway;
  readonly requests: JobMessage[];
} {
  const requests: JobMessage[] = [];
  const gateway = new ForwardingJobGateway({
    ...{ self, isLeading: () => false, leader: () => leader },
    execute: ({ verb }, _remainingMs, done) => done(success(`executed: ${verb}`)),
    store: (_sha256, _code, done) => done(success(undefined)),
    request: (_to, message, _timeoutMs, done) => {
      requests.push(message);
      done(success({ kind: 'jobReply', answer: 'forwarded' }));
    },
    ...ports,
  });
  return { gateway, requests };
}

test('the leader executes a command', () => {
  const { gateway, requests } = gatewayScene({ isLeading: () => true });
  gateway.send('list', '{}', 'me', 1_000, (outcome) => assert.deepEqual(outcome, success('executed: list')));
  assert.equal(requests.length, 0);
});

test('other nodes forward a command with one more hop and the same submitter', () => {
  const { gateway, requests } = gatewayScene({});
  gateway.send('list', '{}', 'me', 1_000, (outcome) => assert.deepEqual(outcome, success('forwarded')));
  assert.deepEqual(requests, [
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
  const { gateway, requests } = gatewayScene({});
  const command = { verb: 'submit', args: '{}', submitter: 'me', hops: 0, key: 'nightly-7' } as const;
  gateway.handle(command, 1_000, () => {});
  assert.deepEqual(
    requests.map((request) => request.kind === 'jobRequest' && request.idempotencyKey),
    ['nightly-7'],
  );
});

test('a command has a hop limit', () => {
  const { gateway, requests } = gatewayScene({});
  gateway.handle({ verb: 'list', args: '{}', submitter: 'me', hops: 3 }, 1_000, (outcome) => {
    assert.equal(outcome.ok ? undefined : outcome.error.code, 'NOT_LEADER');
  });
  assert.equal(requests.length, 0);
});

test('a command ends with NO_QUORUM while no leader is known, or the last known one is this node', () => {
  for (const known of [undefined, { ...leader, id: self }]) {
    gatewayScene({ leader: () => known }).gateway.send('list', '{}', 'me', 1_000, (outcome) => {
      assert.equal(outcome.ok ? undefined : outcome.error.code, 'NO_QUORUM');
    });
  }
});

test('an error of the leader is the result of the command', () => {
  const refusing = gatewayScene({ request: (_to, _message, _timeoutMs, done) => done(failure('UNKNOWN_JOB')) });
  refusing.gateway.send('show', '{}', 'me', 1_000, (outcome) => {
    assert.equal(outcome.ok ? undefined : outcome.error.code, 'UNKNOWN_JOB');
  });
});
