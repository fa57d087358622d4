/**
 * A joiner that comes alone gets its reply at once; joiners that come together get one batch that names all of them.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import type { Claim } from '../state/claim.ts';
import { Membership, type MembershipInput } from '../membership.ts';
import { lanMembershipOptions } from '../state/options.ts';

const { gossipIntervalMs } = lanMembershipOptions;

function identity(n: number): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation: 1, roles: ['worker'], dc: 'dc1' };
}

function claimOf(self: Identity, kind: 'join' | 'alive'): Claim {
  const { id, generation } = self;
  return { kind, id, generation, incarnation: 0, by: id, refused: false, entry: self };
}

/** Node 1 with only its batch timer running; records each reply and how many members it names. */
class CoordinatorHarness {
  readonly #machine = new Membership(identity(1), 0, lanMembershipOptions, new Random('door'));
  #timers: { readonly atMs: number; readonly timer: unknown }[] = [];
  #replies: string[] = [];
  nowMs = 0;

  receivesRequest(n: number, kind: 'join' | 'alive' = 'join'): void {
    const from = identity(n);
    const message = { kind: 'syncView', viewHash: 1, claims: [claimOf(from, kind)], reply: 'differences' } as const;
    this.#step({ kind: 'request', from, call: n, message });
  }

  advance(durationMs: number): void {
    const untilMs = this.nowMs + durationMs;
    for (;;) {
      const next = this.#timers.filter(({ atMs }) => atMs <= untilMs).toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.nowMs = next.atMs;
      this.#step({ kind: 'expired', timer: next.timer } as never);
    }
    this.nowMs = untilMs;
  }

  takeReplies(): string[] {
    return this.#replies.splice(0);
  }

  #step(input: MembershipInput): void {
    for (const effect of this.#machine.step(this.nowMs, input)) {
      if (effect.kind === 'schedule' && effect.timer.kind === 'joinBatch') this.#timers.push(effect);
      if (effect.kind === 'reply' && effect.message.kind === 'syncViewReply') {
        this.#replies.push(`n${effect.call} learns of ${effect.message.claims.length}`);
      }
    }
  }
}

describe('the join coordinator', () => {
  it('replies at once to a joiner that comes alone, and to a later one', () => {
    const harness = new CoordinatorHarness();
    harness.receivesRequest(2);
    assert.deepEqual(harness.takeReplies(), ['n2 learns of 2']);
    harness.advance(gossipIntervalMs);
    harness.receivesRequest(3);
    assert.deepEqual(harness.takeReplies(), ['n3 learns of 3']);
  });

  it('replies to a batch when no further joiner comes, and names all members to each', () => {
    const harness = new CoordinatorHarness();
    for (const n of [2, 3, 4, 5]) harness.receivesRequest(n);
    assert.deepEqual(harness.takeReplies(), ['n2 learns of 2'], 'the first joiner does not wait');
    harness.advance(gossipIntervalMs / 8);
    harness.receivesRequest(6);
    assert.deepEqual(harness.takeReplies(), []);
    harness.advance(gossipIntervalMs / 4);
    assert.deepEqual(
      harness.takeReplies(),
      [3, 4, 5, 6].map((n) => `n${n} learns of 6`),
    );
  });

  it('delays no reply for long, even while joiners keep coming', () => {
    const harness = new CoordinatorHarness();
    harness.receivesRequest(2);
    harness.receivesRequest(3);
    const stepMs = gossipIntervalMs / 8;
    for (let n = 4; n < 16; n++) {
      harness.advance(stepMs);
      harness.receivesRequest(n);
    }
    assert.equal(harness.takeReplies()[1], 'n3 learns of 14', 'after one and a half gossip intervals');
  });

  it('replies at once to a member that only compares views', () => {
    const harness = new CoordinatorHarness();
    harness.receivesRequest(2);
    harness.receivesRequest(3);
    harness.takeReplies();
    harness.receivesRequest(4, 'alive');
    assert.deepEqual(harness.takeReplies(), ['n4 learns of 4']);
  });
});
