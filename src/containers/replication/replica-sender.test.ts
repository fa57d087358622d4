/**
 * What an owner sends to a replica, and when: in order, within bounds, and never ahead of what the replica may have.
 */
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

class SenderHarness {
  readonly log = new ReplicationLog({ self, fence, base: { fence, seq: 10 }, durability: 'copies', silentTicksMax: 3 });
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
      snapshotsMax: 1,
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

  /** Replies to the last request, or to the one with that number; the first probe is number 0. */
  reply(status: Partial<ReplicaStatus>, to = this.requests.length - 1): void {
    const nothing = { position: undefined, snapshot: undefined, step: undefined, refusal: undefined };
    const value = { kind: 'replicaStatus', generation: 1, highestFence: fence, ...nothing, ...status } as const;
    this.requests[to]?.done(success(encodeMessage(value)));
  }

  /** The replica reports the position at which the owner started. */
  replicating(): this {
    this.sender.sendPending();
    this.reply({ position: { fence, seq: 10 } });
    return this;
  }

  /** For each request after the first probe: after which commit it starts, and how many it carries. */
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

describe('a replica sender', () => {
  test('probes first, and then sends all commits after the reported position', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    assert.equal(harness.last.commits.length, 0);
    harness.append(3);
    harness.sender.sendPending();
    assert.equal(harness.requests.length, 1);
    harness.reply({ position: { fence, seq: 10 } });
    assert.equal(harness.last.commits.length, 3);
    assert.ok(harness.log.hasUnstoredSent, 'sent before the disk of the owner has them');
  });

  test('pipelines requests up to a bound; each starts where the one before ends', () => {
    const harness = new SenderHarness().replicating();
    for (let i = 0; i < 20; i++) {
      harness.append(1);
      harness.sender.sendPending();
    }
    assert.deepEqual(harness.sent(), ['10+1', '11+1', '12+1', '13+1']);
    harness.reply({ position: { fence, seq: 11 } }, 1);
    assert.deepEqual(harness.sent().slice(4), ['14+16'], 'waiting commits share one request');
    harness.sender.sendPending();
    harness.log.onStored(30);
    harness.reply({ position: { fence, seq: 30 } });
    assert.equal(harness.log.committed, 30, 'a replica with the last commit has all before it');
    harness.reply({ position: { fence, seq: 12 } }, 2);
    assert.equal(harness.log.replicas.get(b)?.acked, 30, 'a reordered reply does not lower it');
    assert.equal(harness.sent().length, 5);
  });

  test('splits large batches, and sends full requests beyond the bound', () => {
    const harness = new SenderHarness().replicating();
    harness.append(20, { key: 'k', value: new Uint8Array(9_000) });
    harness.sender.sendPending();
    assert.deepEqual(harness.sent(), ['10+3', '13+3', '16+3', '19+3', '22+3', '25+3']);
    for (const [at, seq] of [13, 16, 19].entries()) harness.reply({ position: { fence, seq } }, at + 1);
    harness.sender.sendPending();
    assert.deepEqual(harness.sent().slice(6), ['28+2'], 'the last request is not full, and waits for a free place');
  });

  test('bounds the bytes in flight', () => {
    const harness = new SenderHarness().replicating();
    for (let i = 0; i < 4; i++) {
      harness.append(1, { key: 'k', value: new Uint8Array(600_000) });
      harness.sender.sendPending();
    }
    assert.deepEqual(harness.sent(), ['10+1', '11+1']);
    harness.reply({ position: { fence, seq: 11 } }, 1);
    assert.deepEqual(harness.sent(), ['10+1', '11+1', '12+1']);
  });

  test('continues from the reported position after a refusal, and ignores the requests behind it', () => {
    const harness = new SenderHarness().replicating();
    for (let i = 0; i < 3; i++) {
      harness.append(1);
      harness.sender.sendPending();
    }
    // The second request overtook the first.
    harness.reply({ position: { fence, seq: 10 }, refusal: 'mismatch' }, 2);
    assert.deepEqual(harness.sent(), ['10+1', '11+1', '12+1', '10+3']);
    harness.reply({ position: { fence, seq: 11 } }, 1);
    assert.equal(harness.log.replicas.get(b)?.acked, 10, 'that request was cancelled');
    harness.reply({ position: { fence, seq: 13 } });
    assert.equal(harness.log.replicas.get(b)?.acked, 13);
  });

  test('probes after a request without a reply, before it sends more', () => {
    const harness = new SenderHarness().replicating();
    for (let i = 0; i < 3; i++) {
      harness.append(1);
      harness.sender.sendPending();
    }
    harness.requests[1]?.done(failure('DEADLINE'));
    harness.append(1);
    harness.sender.sendPending();
    assert.deepEqual(harness.sent(), ['10+1', '11+1', '12+1', '13+0']);
    harness.reply({ position: { fence, seq: 12 } });
    assert.deepEqual(harness.sent().slice(4), ['12+2']);
  });

  test('sends in a snapshot only commits that are on the disk of the owner', () => {
    const harness = new SenderHarness();
    harness.append(1);
    harness.sender.sendPending();
    harness.reply({ position: undefined });
    assert.equal(harness.reads.length, 1);
    harness.append(2);
    harness.reads[0]?.(success([]));
    assert.equal(harness.last.kind, 'replicateSnapshot');
    assert.equal('install' in harness.last && harness.last.install, undefined, 'the page may contain commits 11 to 13');
    harness.reply({ snapshot: 1, step: 0 });
    assert.equal(harness.requests.length, 2, 'it waits for the disk of the owner');
    harness.log.onStored(12);
    harness.sender.sendPending();
    assert.deepEqual([harness.last.commits.length, harness.requests.length], [2, 3]);
    harness.reply({ snapshot: 1, step: 1 });
    harness.log.onStored(13);
    harness.sender.sendPending();
    assert.deepEqual('install' in harness.last && harness.last.install, { fence, seq: 13 });
    harness.reply({ position: { fence, seq: 13 } });
    assert.equal(harness.log.replicas.get(b)?.mode, 'replicating');
    assert.equal(harness.log.hasUnstoredSent, false);
  });

  test('sends many commits in one step of a snapshot, because the next step waits for the reply', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.reply({});
    harness.append(20, { key: 'k', value: new Uint8Array(9_000) });
    harness.reads[0]?.(success([]));
    harness.log.onStored(30);
    harness.reply({ snapshot: 1, step: 0 });
    assert.deepEqual(harness.sent(), ['snapshot+0', 'snapshot+20']);
  });

  test('repeats a step of a snapshot unchanged when it gets no reply', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.reply({});
    harness.reads[0]?.(success([{ key: 'copies/s/1/0/x/k', value: new Uint8Array(3) }]));
    const { last } = harness;
    harness.end(failure('DEADLINE'));
    assert.equal(harness.requests.length, 3);
    assert.deepEqual(harness.last, last);
    assert.equal(harness.reads.length, 1);
  });
});

describe('a replica that does not reply', () => {
  test('is probed again, and leaves the ISR at once only if it is gone', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.end(failure('UNREACHABLE'));
    assert.equal(harness.log.wantedIsr(), undefined);
    assert.equal(harness.requests.length, 2);
    harness.isGone = true;
    harness.end(failure('UNREACHABLE'));
    assert.deepEqual(harness.log.wantedIsr(), [self]);
  });

  test('leaves the ISR at once when it reports that it is leaving', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.end(failure('DRAINED'));
    assert.deepEqual(harness.log.wantedIsr(), [self]);
  });

  test('joins again when it is back with another generation', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.isGone = true;
    harness.end(failure('UNREACHABLE'));
    harness.log.isrUpdateStarted([self]);
    harness.log.isrUpdateEnded({ ...harness.record, inSync: [self] });
    for (let i = 0; i < 3; i++) {
      harness.log.tick();
      harness.sender.abandonGone();
      harness.sender.sendPending();
    }
    harness.reply({ generation: 2, position: { fence, seq: 10 } });
    assert.equal(harness.log.wantedIsr()?.length, 2);
  });

  test('leaves the ISR when it is abandoned', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.sender.abandon(b);
    assert.deepEqual(harness.log.wantedIsr(), [self]);
    harness.reply({ position: { fence, seq: 10 } });
    assert.deepEqual(harness.log.wantedIsr(), [self], 'a late reply is ignored');
  });

  test('gets no more requests when the container is closed', () => {
    const harness = new SenderHarness();
    harness.sender.sendPending();
    harness.sender.stop();
    harness.reply({ position: { fence, seq: 10 } });
    assert.equal(harness.requests.length, 1);
    assert.equal(harness.log.committed, -1);
  });
});
