/** When connections to neighbours are made: once the group is at rest, soon after it has changed. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import type { Claim } from '../state/claim.ts';
import { Membership, type MembershipInput } from '../membership.ts';
import { lanMembershipOptions } from '../state/options.ts';

const { syncPauseMs, watchIntervalMs } = lanMembershipOptions;

function identity(n: number, generation = 1): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation, roles: ['worker'], dc: 'dc1' };
}

/** Node 1, of which only the looks at its neighbours are let run. */
class Observer {
  readonly #machine = new Membership(identity(1), 0, lanMembershipOptions, new Random('observer'));
  #looks: { readonly atMs: number; readonly timer: unknown }[] = [];
  #spoken: number[] = [];
  nowMs = 0;

  /** Whoever is new to us comes with its entry. */
  hears(from: Identity, ...claims: Claim[]): void {
    this.#step({ kind: 'datagram', from, message: { kind: 'gossip', incarnation: 0, claims } });
  }

  /** Ports of the members to whom it has spoken meanwhile. */
  spokenAfter(durationMs: number): number[] {
    const untilMs = this.nowMs + durationMs;
    for (;;) {
      const next = this.#looks.filter(({ atMs }) => atMs <= untilMs).toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#looks = this.#looks.filter((look) => look !== next);
      this.nowMs = next.atMs;
      this.#step({ kind: 'expired', timer: next.timer } as never);
    }
    this.nowMs = untilMs;
    return this.#spoken.splice(0).toSorted((a, b) => a - b);
  }

  #step(input: MembershipInput): void {
    for (const effect of this.#machine.step(this.nowMs, input)) {
      if (effect.kind === 'schedule' && effect.timer.kind === 'watch') this.#looks.push(effect);
      if (effect.kind === 'request' && effect.purpose.kind === 'watch') this.#spoken.push(effect.to.port);
    }
  }
}

function suspicionOf({ id, generation }: Identity, by: Identity): Claim {
  return { kind: 'suspect', id, generation, incarnation: 0, by: by.id, refused: false, entry: undefined };
}

/** Half of the time between two looks. */
const halfMs = syncPauseMs / 2;

describe('connections to neighbours', () => {
  it('are made when the group has not changed between two looks', () => {
    const observer = new Observer();
    observer.hears(identity(2));
    assert.deepEqual(observer.spokenAfter(halfMs), []);
    observer.hears(identity(3));
    assert.deepEqual(observer.spokenAfter(syncPauseMs), [], 'the first look saw somebody new');
    assert.deepEqual(observer.spokenAfter(syncPauseMs), [2, 3]);
  });

  it('are made all the same in a group that never rests', () => {
    const observer = new Observer();
    const spoken: number[] = [];
    for (let n = 2; n < 32; n++) {
      observer.hears(identity(n));
      spoken.push(...observer.spokenAfter(halfMs));
    }
    assert.ok(spoken.length >= 3);
  });

  it('carry a word from time to time, and are neither made nor used for a mere suspicion', () => {
    const observer = new Observer();
    observer.hears(identity(2));
    observer.hears(identity(3));
    assert.deepEqual(observer.spokenAfter(2 * syncPauseMs), [2, 3]);
    observer.hears(identity(2), suspicionOf(identity(3), identity(2)));
    assert.deepEqual(observer.spokenAfter(3 * syncPauseMs), []);
    assert.deepEqual(observer.spokenAfter(1.2 * watchIntervalMs), [2, 3]);
  });

  it('are made anew to one that has started again', () => {
    const observer = new Observer();
    observer.hears(identity(2));
    observer.hears(identity(3));
    assert.deepEqual(observer.spokenAfter(2 * syncPauseMs), [2, 3]);
    observer.hears(identity(3, 2));
    assert.deepEqual(observer.spokenAfter(2 * syncPauseMs), [3]);
  });
});
