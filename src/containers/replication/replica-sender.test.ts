/** What goes to a copy, and when: never more than it may have, in order, and not too much at once. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { parseNodeId } from '../../base/ids.ts';
import type { StoreWrite } from '../../base/ports.ts';
import { decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import type { ReplicationRequest, ReplicaStatus } from '../../messages/replication.ts';
import type { ContainerRecord } from '../../placement/state/container-records.ts';
import type { StateEntry } from '../contract.ts';
import { ReplicaSender } from './replica-sender.ts';
import type { ReplicaProgress } from './replica-progress.ts';
import { ReplicationLog } from './replication-log.ts';
import { StateReader } from './state-reader.ts';
import { commitBytes } from './log-tail.ts';

const [a, b] = [parseNodeId('a'.repeat(32)), parseNodeId('b'.repeat(32))];
const fence = fenceOf(1, 5);
const self = { node: a, generation: 1 };

class Bench {
  readonly log = new ReplicationLog({ self, fence, base: { fence, seq: 10 }, durability: 'copies', quietTicksMax: 3 });
  readonly requests: { readonly message: ReplicationRequest; readonly done: Done<Uint8Array> }[] = [];
  readonly reads: Done<readonly StateEntry[]>[] = [];
  readonly sender: ReplicaSender;
  readonly record: ContainerRecord;
  issued = 10;
  isGone = false;

  constructor() {
    const rest = { move: undefined, moduleVersion: 0, failures: 0, note: '' } as const;
    const inSync = [self, { node: b, generation: 1 }];
    this.record = { owner: self, fence, opening: 'recover', phase: 'serving', copies: [a, b], inSync, ...rest };
    this.log.onRecord(this.record);
    const reader = new StateReader({ read: (_range, done) => void this.reads.push(done) }, 'copies/s/1/0/x/', 1_000);
    const ports = {
      streams: {
        request: (_to: unknown, body: Uint8Array, _ms: number, done: Done<Uint8Array>) => {
          this.requests.push({ message: decodeMessage(body) as ReplicationRequest, done });
          return () => done(failure('CANCELLED'));
        },
      },
      addressOf: () => ({ host: 'b', port: 1 }),
      isGone: () => this.isGone,
      requestTimeoutMs: 1_000,
      snapshotting: new Set<ReplicaProgress>(),
      copyingMax: 1,
      nextSnapshot: () => 1,
    };
    const events = {
      ended: () => this.sender.sendPending(),
      issued: () => this.issued,
      revision: () => 1,
      unreadable: () => {},
    };
    this.sender = new ReplicaSender(ports, events, { pool: 1, container: 0, fence, inMemory: false }, this.log, reader);
  }

  append(count: number, ...writes: StoreWrite[]): void {
    const bytes = 10 + commitBytes(writes);
    for (let i = 0; i < count; i++) this.log.append({ writes, bytes, packed: undefined });
    this.issued = this.log.tail.last;
  }

  /** To the last request, or to the one of that number; the question that comes first is 0. */
  answer(standing: Partial<ReplicaStatus>, to = this.requests.length - 1): void {
    const nothing = { position: undefined, snapshot: undefined, step: undefined, refusal: undefined };
    const value = { kind: 'replicaStatus', generation: 1, highestFence: fence, ...nothing, ...standing } as const;
    this.requests[to]?.done(success(encodeMessage(value)));
  }

  /** The copy has said that it is where we began. */
  following(): this {
    this.sender.sendPending();
    this.answer({ position: { fence, seq: 10 } });
    return this;
  }

  /** Of each request with commits or questions after the first: behind which commit, and how many. */
  sent(): string[] {
    return this.requests.slice(1).map(({ message }) => {
      return `${'after' in message ? message.after.seq : 'snapshot'}+${message.commits.length}`;
    });
  }

  end(outcome: Outcome<Uint8Array>): void {
    this.requests.at(-1)?.done(outcome);
  }

  get last(): ReplicationRequest {
    return this.requests.at(-1)?.message as ReplicationRequest;
  }
}

describe('what is sent', () => {
  test('is a question first, and then everything behind the answer', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    assert.equal(bench.last.commits.length, 0);
    bench.append(3);
    bench.sender.sendPending();
    assert.equal(bench.requests.length, 1);
    bench.answer({ position: { fence, seq: 10 } });
    assert.equal(bench.last.commits.length, 3);
    assert.ok(bench.log.hasUnstoredSent, 'before our own disk has it');
  });

  test('goes on without waiting for answers, up to a bound, and each begins where the one before ended', () => {
    const bench = new Bench().following();
    for (let i = 0; i < 20; i++) {
      bench.append(1);
      bench.sender.sendPending();
    }
    assert.deepEqual(bench.sent(), ['10+1', '11+1', '12+1', '13+1']);
    bench.answer({ position: { fence, seq: 11 } }, 1);
    assert.deepEqual(bench.sent().slice(4), ['14+16'], 'what has waited goes together');
    bench.sender.sendPending();
    bench.log.onStored(30);
    bench.answer({ position: { fence, seq: 30 } });
    assert.equal(bench.log.committed, 30, 'whoever has the last has all before it');
    bench.answer({ position: { fence, seq: 12 } }, 2);
    assert.equal(bench.log.replicas.get(b)?.acked, 30, 'an older answer takes nothing back');
    assert.equal(bench.sent().length, 5);
  });

  test('is cut into pieces, of which the full ones need not wait for the former', () => {
    const bench = new Bench().following();
    bench.append(20, { key: 'k', value: new Uint8Array(9_000) });
    bench.sender.sendPending();
    assert.deepEqual(bench.sent(), ['10+3', '13+3', '16+3', '19+3', '22+3', '25+3']);
    for (const [at, seq] of [13, 16, 19].entries()) bench.answer({ position: { fence, seq } }, at + 1);
    bench.sender.sendPending();
    assert.deepEqual(bench.sent().slice(6), ['28+2'], 'the last one is not full, and goes when there is room');
  });

  test('is not too much at once', () => {
    const bench = new Bench().following();
    for (let i = 0; i < 4; i++) {
      bench.append(1, { key: 'k', value: new Uint8Array(600_000) });
      bench.sender.sendPending();
    }
    assert.deepEqual(bench.sent(), ['10+1', '11+1']);
    bench.answer({ position: { fence, seq: 11 } }, 1);
    assert.deepEqual(bench.sent(), ['10+1', '11+1', '12+1']);
  });

  test('begins again where the copy is when one is refused; what came after it is not waited for', () => {
    const bench = new Bench().following();
    for (let i = 0; i < 3; i++) {
      bench.append(1);
      bench.sender.sendPending();
    }
    // The second overtook the first.
    bench.answer({ position: { fence, seq: 10 }, refusal: 'mismatch' }, 2);
    assert.deepEqual(bench.sent(), ['10+1', '11+1', '12+1', '10+3']);
    bench.answer({ position: { fence, seq: 11 } }, 1);
    assert.equal(bench.log.replicas.get(b)?.acked, 10, 'nobody waits for that one');
    bench.answer({ position: { fence, seq: 13 } });
    assert.equal(bench.log.replicas.get(b)?.acked, 13);
  });

  test('is asked about when one gets no answer, before anything else is sent', () => {
    const bench = new Bench().following();
    for (let i = 0; i < 3; i++) {
      bench.append(1);
      bench.sender.sendPending();
    }
    bench.requests[1]?.done(failure('DEADLINE'));
    bench.append(1);
    bench.sender.sendPending();
    assert.deepEqual(bench.sent(), ['10+1', '11+1', '12+1', '13+0']);
    bench.answer({ position: { fence, seq: 12 } });
    assert.deepEqual(bench.sent().slice(4), ['12+2']);
  });

  test('in a snapshot are only commits that are on our disk', () => {
    const bench = new Bench();
    bench.append(1);
    bench.sender.sendPending();
    bench.answer({ position: undefined });
    assert.equal(bench.reads.length, 1);
    bench.append(2);
    bench.reads[0]?.(success([]));
    assert.equal(bench.last.kind, 'replicateSnapshot');
    assert.equal('install' in bench.last && bench.last.install, undefined, 'commits 11 to 13 may be in what was read');
    bench.answer({ snapshot: 1, step: 0 });
    assert.equal(bench.requests.length, 2, 'it waits for our disk');
    bench.log.onStored(12);
    bench.sender.sendPending();
    assert.deepEqual([bench.last.commits.length, bench.requests.length], [2, 3]);
    bench.answer({ snapshot: 1, step: 1 });
    bench.log.onStored(13);
    bench.sender.sendPending();
    assert.deepEqual('install' in bench.last && bench.last.install, { fence, seq: 13 });
    bench.answer({ position: { fence, seq: 13 } });
    assert.equal(bench.log.replicas.get(b)?.mode, 'following');
    assert.equal(bench.log.hasUnstoredSent, false);
  });

  test('in a step of a snapshot are many commits, because the next one waits for its answer', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.answer({});
    bench.append(20, { key: 'k', value: new Uint8Array(9_000) });
    bench.reads[0]?.(success([]));
    bench.log.onStored(30);
    bench.answer({ snapshot: 1, step: 0 });
    assert.deepEqual(bench.sent(), ['snapshot+0', 'snapshot+20']);
  });

  test('of a snapshot is sent again as it was when nobody answers', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.answer({});
    bench.reads[0]?.(success([{ key: 'copies/s/1/0/x/k', value: new Uint8Array(3) }]));
    const { last } = bench;
    bench.end(failure('DEADLINE'));
    assert.equal(bench.requests.length, 3);
    assert.deepEqual(bench.last, last);
    assert.equal(bench.reads.length, 1);
  });
});

describe('who does not answer', () => {
  test('is asked again, and given up at once only if it is gone', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.end(failure('UNREACHABLE'));
    assert.equal(bench.log.wantedIsr(), undefined);
    assert.equal(bench.requests.length, 2);
    bench.isGone = true;
    bench.end(failure('UNREACHABLE'));
    assert.deepEqual(bench.log.wantedIsr(), [self]);
  });

  test('is given up at once when it says that it is leaving', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.end(failure('DRAINED'));
    assert.deepEqual(bench.log.wantedIsr(), [self]);
  });

  test('is heard when it is back in another life', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.isGone = true;
    bench.end(failure('UNREACHABLE'));
    bench.log.isrUpdateStarted([self]);
    bench.log.isrUpdateEnded({ ...bench.record, inSync: [self] });
    for (let i = 0; i < 3; i++) {
      bench.log.tick();
      bench.sender.abandonGone();
      bench.sender.sendPending();
    }
    bench.answer({ generation: 2, position: { fence, seq: 10 } });
    assert.equal(bench.log.wantedIsr()?.length, 2);
  });

  test('is no longer waited for when somebody says so', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.sender.abandon(b);
    assert.deepEqual(bench.log.wantedIsr(), [self]);
    bench.answer({ position: { fence, seq: 10 } });
    assert.deepEqual(bench.log.wantedIsr(), [self], 'what comes too late is not heard');
  });

  test('is left alone when the container is closed', () => {
    const bench = new Bench();
    bench.sender.sendPending();
    bench.sender.stop();
    bench.answer({ position: { fence, seq: 10 } });
    assert.equal(bench.requests.length, 1);
    assert.equal(bench.log.committed, -1);
  });
});
