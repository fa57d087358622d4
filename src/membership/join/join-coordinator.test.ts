/** Who comes alone is answered at once; who comes in a crowd hears of all of it. */
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

/** Node 1, of which only the timer of its door is let run; who was answered, and how many it was told of. */
class Door {
  readonly #machine = new Membership(identity(1), 0, lanMembershipOptions, new Random('door'));
  #timers: { readonly atMs: number; readonly timer: unknown }[] = [];
  #answered: string[] = [];
  nowMs = 0;

  asks(n: number, kind: 'join' | 'alive' = 'join'): void {
    const from = identity(n);
    const message = { kind: 'syncView', viewHash: 1, claims: [claimOf(from, kind)], reply: 'differences' } as const;
    this.#step({ kind: 'asked', from, call: n, message });
  }

  pass(durationMs: number): void {
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

  answered(): string[] {
    return this.#answered.splice(0);
  }

  #step(input: MembershipInput): void {
    for (const effect of this.#machine.step(this.nowMs, input)) {
      if (effect.kind === 'schedule' && effect.timer.kind === 'crowd') this.#timers.push(effect);
      if (effect.kind === 'reply' && effect.message.kind === 'syncViewReply') {
        this.#answered.push(`n${effect.call} hears of ${effect.message.claims.length}`);
      }
    }
  }
}

describe('the front door', () => {
  it('answers who comes alone at once, and again who comes later', () => {
    const door = new Door();
    door.asks(2);
    assert.deepEqual(door.answered(), ['n2 hears of 2']);
    door.pass(gossipIntervalMs);
    door.asks(3);
    assert.deepEqual(door.answered(), ['n3 hears of 3']);
  });

  it('answers a crowd when nobody else comes, and tells each of all', () => {
    const door = new Door();
    for (const n of [2, 3, 4, 5]) door.asks(n);
    assert.deepEqual(door.answered(), ['n2 hears of 2'], 'nobody knew that a crowd was coming');
    door.pass(gossipIntervalMs / 8);
    door.asks(6);
    assert.deepEqual(door.answered(), []);
    door.pass(gossipIntervalMs / 4);
    assert.deepEqual(
      door.answered(),
      [3, 4, 5, 6].map((n) => `n${n} hears of 6`),
    );
  });

  it('lets nobody wait for long, even if people never stop coming', () => {
    const door = new Door();
    door.asks(2);
    door.asks(3);
    const stepMs = gossipIntervalMs / 8;
    for (let n = 4; n < 16; n++) {
      door.pass(stepMs);
      door.asks(n);
    }
    assert.equal(door.answered()[1], 'n3 hears of 14', 'after one and a half gossip intervals');
  });

  it('does not let members wait who only compare views', () => {
    const door = new Door();
    door.asks(2);
    door.asks(3);
    door.answered();
    door.asks(4, 'alive');
    assert.deepEqual(door.answered(), ['n4 hears of 4']);
  });
});
