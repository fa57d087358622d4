/** Where commands go: to the leader, to the node in question, or back with an error. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, failure, success } from '../../base/errors.ts';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import { LeaderCommands, type LeaderCommandPorts } from './leader-commands.ts';

const [self, other] = [1, 2].map((number) => nodeIdFrom(new Uint8Array(16).fill(number))) as [NodeId, NodeId];

class Scene {
  readonly sent: { readonly port: number; readonly verb: string; readonly hops: number }[] = [];
  readonly left: unknown[] = [];
  leader: NodeId | undefined;
  reply: Outcome<Uint8Array> = success(encodeMessage({ kind: 'adminCommandReply', answer: '{"yes":1}' }));
  readonly commands: LeaderCommands;

  constructor(ports: Partial<LeaderCommandPorts> = {}) {
    this.commands = new LeaderCommands({
      self,
      streams: {
        request: (to, body, _timeoutMs, done) => {
          const message = decodeMessage(body);
          assert.ok(message.kind === 'adminCommand');
          this.sent.push({ port: to.port, verb: message.verb, hops: message.hops });
          done(this.reply);
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
      leave: (args, done) => {
        this.left.push(args);
        done(success({}));
      },
      ...ports,
    });
  }

  send(verb: 'transfer' | 'rebalance'): Outcome<unknown> {
    return ending((done) => this.commands.send(verb, {}, 1_000, done));
  }

  receive(verb: string, args: string, hops = 0): Outcome<string> {
    return ending((done) => this.commands.handle({ kind: 'adminCommand', verb, args, hops }, 1_000, done));
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

test('the leader moves a container, and rejects invalid arguments', () => {
  const asked: unknown[] = [];
  const scene = new Scene({
    placer: {
      requestMove: (pool, container, to, cause, done) => {
        asked.push({ pool, container, to, cause });
        done(container === 0 ? success(undefined) : failure('PRECONDITION', 'it is already moving'));
      },
    },
  });
  scene.leader = self;
  const args = (others: object): string => JSON.stringify({ pool: 'p', container: 0, to: other, ...others });
  assert.deepEqual(scene.receive('migrate', args({})), success('{}'));
  assert.deepEqual(asked, [{ pool: 'p', container: 0, to: other, cause: 'admin' }]);
  assert.equal(codeOf(scene.receive('migrate', args({ container: 1 }))), 'PRECONDITION');
  for (const wrong of [{ pool: 1 }, { container: -1 }, { container: '0' }, { to: 'w2' }, { to: null }])
    assert.equal(codeOf(scene.receive('migrate', args(wrong))), 'BAD_ARGUMENT');
  const without = new Scene();
  without.leader = self;
  assert.equal(codeOf(without.receive('migrate', args({}))), 'PRECONDITION');
});

test('a command goes to the leader, and its reply comes back', () => {
  const scene = new Scene();
  assert.equal(codeOf(scene.send('transfer')), 'NO_QUORUM');
  scene.leader = other;
  assert.deepEqual(scene.send('transfer'), success({ yes: 1 }));
  assert.deepEqual(scene.sent, [{ port: 2, verb: 'transfer', hops: 1 }]);
  scene.reply = failure('DEADLINE');
  assert.equal(codeOf(scene.send('transfer')), 'DEADLINE');
  scene.reply = success(encodeMessage({ kind: 'echoReply', payload: new Uint8Array() }));
  assert.equal(codeOf(scene.send('transfer')), 'MALFORMED');
  scene.reply = success(Uint8Array.of(1, 2, 3));
  assert.equal(codeOf(scene.send('transfer')), 'MALFORMED');
});

test('a command has a hop limit, and a node that wrongly counts as leader does not forward to itself', () => {
  const scene = new Scene({
    leadership: { view: () => ({ leader: self, term: 1, fence: undefined }), isLeading: () => false },
  });
  assert.equal(codeOf(scene.send('transfer')), 'NO_QUORUM');
  const other3 = new Scene();
  other3.leader = other;
  assert.equal(codeOf(other3.receive('transfer', '{}', 3)), 'NOT_LEADER');
  assert.deepEqual(other3.sent, []);
});

test('a leader rejects commands that are malformed, unknown or need a manager group', () => {
  const scene = new Scene();
  scene.leader = self;
  assert.equal(codeOf(scene.receive('transfer', '{}')), 'PRECONDITION');
  assert.equal(codeOf(scene.receive('backup-part', '{}')), 'PRECONDITION');
  assert.equal(codeOf(scene.receive('dance', '{}')), 'UNKNOWN_METHOD');
  assert.equal(codeOf(scene.receive('transfer', '{')), 'BAD_ARGUMENT');
});

test('a leave command goes to the leaving node itself, not to the leader', () => {
  const scene = new Scene();
  const leave = (node: NodeId): Outcome<unknown> =>
    ending((done) => scene.commands.sendLeave(node, { reason: 'sold' }, 1_000, done));
  assert.equal(codeOf(leave(self)), 'ok');
  assert.deepEqual([scene.left, scene.sent], [[{ reason: 'sold' }], []]);
  assert.equal(codeOf(leave(other)), 'ok');
  assert.deepEqual(scene.sent, [{ port: 2, verb: 'leave', hops: 1 }]);
  assert.equal(codeOf(leave(nodeIdFrom(new Uint8Array(16).fill(9)))), 'UNREACHABLE');
});
