/** Where orders go: to the leader, to the node that is meant, or back with a reason. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, failure, success } from '../../base/errors.ts';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import { LeaderCommands, type LeaderCommandParts } from './leader-commands.ts';

const [self, other] = [1, 2].map((number) => nodeIdFrom(new Uint8Array(16).fill(number))) as [NodeId, NodeId];

class Desk {
  readonly sent: { readonly port: number; readonly verb: string; readonly hops: number }[] = [];
  readonly left: unknown[] = [];
  leader: NodeId | undefined;
  answer: Outcome<Uint8Array> = success(encodeMessage({ kind: 'adminCommandReply', answer: '{"yes":1}' }));
  readonly orders: LeaderCommands;

  constructor(parts: Partial<LeaderCommandParts> = {}) {
    this.orders = new LeaderCommands({
      self,
      streams: {
        request: (to, body, _timeoutMs, done) => {
          const message = decodeMessage(body);
          assert.ok(message.kind === 'adminCommand');
          this.sent.push({ port: to.port, verb: message.verb, hops: message.hops });
          done(this.answer);
          return () => {};
        },
      },
      leadership: {
        view: () => ({ leader: this.leader, term: 1, fence: undefined }),
        isLeading: () => this.leader === self,
      },
      locate: (id) => (id === other ? { host: '10.0.0.2', port: 2 } : undefined),
      group: undefined,
      backups: undefined,
      assigner: undefined,
      leave: (words, done) => {
        this.left.push(words);
        done(success({}));
      },
      ...parts,
    });
  }

  give(verb: 'transfer' | 'rebalance'): Outcome<unknown> {
    return ending((done) => this.orders.send(verb, {}, 1_000, done));
  }

  receive(verb: string, args: string, hops = 0): Outcome<string> {
    return ending((done) => this.orders.handle({ kind: 'adminCommand', verb, args, hops }, 1_000, done));
  }
}

function ending<T>(start: (done: (outcome: Outcome<T>) => void) => void): Outcome<T> {
  let ended: Outcome<T> | undefined;
  start((outcome) => {
    assert.equal(ended, undefined, 'ended twice');
    ended = outcome;
  });
  return ended ?? assert.fail('no end');
}

function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.error.code;
}

test('the leader moves a container, and says what is wrong with the words', () => {
  const asked: unknown[] = [];
  const desk = new Desk({
    placer: {
      requestMove: (pool, container, to, cause, done) => {
        asked.push({ pool, container, to, cause });
        done(container === 0 ? success(undefined) : failure('PRECONDITION', 'it is already moving'));
      },
    },
  });
  desk.leader = self;
  const words = (others: object): string => JSON.stringify({ pool: 'p', container: 0, to: other, ...others });
  assert.deepEqual(desk.receive('migrate', words({})), success('{}'));
  assert.deepEqual(asked, [{ pool: 'p', container: 0, to: other, cause: 'admin' }]);
  assert.equal(codeOf(desk.receive('migrate', words({ container: 1 }))), 'PRECONDITION');
  for (const wrong of [{ pool: 1 }, { container: -1 }, { container: '0' }, { to: 'w2' }, { to: null }])
    assert.equal(codeOf(desk.receive('migrate', words(wrong))), 'BAD_ARGUMENT');
  const without = new Desk();
  without.leader = self;
  assert.equal(codeOf(without.receive('migrate', words({}))), 'PRECONDITION');
});

test('an order goes to the leader and its answer comes back', () => {
  const desk = new Desk();
  assert.equal(codeOf(desk.give('transfer')), 'NO_QUORUM');
  desk.leader = other;
  assert.deepEqual(desk.give('transfer'), success({ yes: 1 }));
  assert.deepEqual(desk.sent, [{ port: 2, verb: 'transfer', hops: 1 }]);
  desk.answer = failure('DEADLINE');
  assert.equal(codeOf(desk.give('transfer')), 'DEADLINE');
  desk.answer = success(encodeMessage({ kind: 'echoReply', payload: new Uint8Array() }));
  assert.equal(codeOf(desk.give('transfer')), 'MALFORMED');
  desk.answer = success(Uint8Array.of(1, 2, 3));
  assert.equal(codeOf(desk.give('transfer')), 'MALFORMED');
});

test('an order does not wander for ever, and nodes that only seem to lead do not ask themselves', () => {
  const desk = new Desk({
    leadership: { view: () => ({ leader: self, term: 1, fence: undefined }), isLeading: () => false },
  });
  assert.equal(codeOf(desk.give('transfer')), 'NO_QUORUM');
  const other3 = new Desk();
  other3.leader = other;
  assert.equal(codeOf(other3.receive('transfer', '{}', 3)), 'NOT_LEADER');
  assert.deepEqual(other3.sent, []);
});

test('a leader refuses what it cannot read, does not know or has no group for', () => {
  const desk = new Desk();
  desk.leader = self;
  assert.equal(codeOf(desk.receive('transfer', '{}')), 'PRECONDITION');
  assert.equal(codeOf(desk.receive('backup-part', '{}')), 'PRECONDITION');
  assert.equal(codeOf(desk.receive('dance', '{}')), 'UNKNOWN_METHOD');
  assert.equal(codeOf(desk.receive('transfer', '{')), 'BAD_ARGUMENT');
});

test('a node is told to leave itself, whoever leads', () => {
  const desk = new Desk();
  const tell = (node: NodeId): Outcome<unknown> =>
    ending((done) => desk.orders.sendLeave(node, { reason: 'sold' }, 1_000, done));
  assert.equal(codeOf(tell(self)), 'ok');
  assert.deepEqual([desk.left, desk.sent], [[{ reason: 'sold' }], []]);
  assert.equal(codeOf(tell(other)), 'ok');
  assert.deepEqual(desk.sent, [{ port: 2, verb: 'leave', hops: 1 }]);
  assert.equal(codeOf(tell(nodeIdFrom(new Uint8Array(16).fill(9)))), 'UNREACHABLE');
});
