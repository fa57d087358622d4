/** When a member opens connections to its ring neighbours: soon after the view has changed, once it is stable. */
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

/** Node 1 with only the timer of its crash observers running. */
class ObserverHarness {
  readonly #machine = new Membership(identity(1), 0, lanMembershipOptions, new Random('observer'));
  #timers: { readonly atMs: number; readonly timer: unknown }[] = [];
  #pinged: number[] = [];
  nowMs = 0;

  receives(from: Identity, ...claims: Claim[]): void {
    this.#step({ kind: 'datagram', from, message: { kind: 'gossip', incarnation: 0, claims } });
  }

  /** Lets time pass; returns the ports of the members that were pinged. */
  pingedAfter(durationMs: number): number[] {
    const untilMs = this.nowMs + durationMs;
    for (;;) {
      const next = this.#timers.filter(({ atMs }) => atMs <= untilMs).toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.nowMs = next.atMs;
      this.#step({ kind: 'expired', timer: next.timer } as never);
    }
    this.nowMs = untilMs;
    return this.#pinged.splice(0).toSorted((a, b) => a - b);
  }

  #step(input: MembershipInput): void {
    for (const effect of this.#machine.step(this.nowMs, input)) {
      if (effect.kind === 'schedule' && effect.timer.kind === 'observe') this.#timers.push(effect);
      if (effect.kind === 'request' && effect.purpose.kind === 'watch') this.#pinged.push(effect.to.port);
    }
  }
}

function suspicionOf({ id, generation }: Identity, by: Identity): Claim {
  return { kind: 'suspect', id, generation, incarnation: 0, by: by.id, refused: false, entry: undefined };
}

/** Half of the time between two checks. */
const halfMs = syncPauseMs / 2;

describe('connections to ring neighbours', () => {
  it('are opened when the view has not changed between two checks', () => {
    const observer = new ObserverHarness();
    observer.receives(identity(2));
    assert.deepEqual(observer.pingedAfter(halfMs), []);
    observer.receives(identity(3));
    assert.deepEqual(observer.pingedAfter(syncPauseMs), [], 'the first check saw a new member');
    assert.deepEqual(observer.pingedAfter(syncPauseMs), [2, 3]);
  });

  it('are opened nevertheless in a group that changes all the time', () => {
    const observer = new ObserverHarness();
    const pinged: number[] = [];
    for (let n = 2; n < 32; n++) {
      observer.receives(identity(n));
      pinged.push(...observer.pingedAfter(halfMs));
    }
    assert.ok(pinged.length >= 3);
  });

  it('carry a ping from time to time, and are neither opened nor used for a mere suspicion', () => {
    const observer = new ObserverHarness();
    observer.receives(identity(2));
    observer.receives(identity(3));
    assert.deepEqual(observer.pingedAfter(2 * syncPauseMs), [2, 3]);
    observer.receives(identity(2), suspicionOf(identity(3), identity(2)));
    assert.deepEqual(observer.pingedAfter(3 * syncPauseMs), []);
    assert.deepEqual(observer.pingedAfter(1.2 * watchIntervalMs), [2, 3]);
  });

  it('are opened again to a member that has restarted', () => {
    const observer = new ObserverHarness();
    observer.receives(identity(2));
    observer.receives(identity(3));
    assert.deepEqual(observer.pingedAfter(2 * syncPauseMs), [2, 3]);
    observer.receives(identity(3, 2));
    assert.deepEqual(observer.pingedAfter(2 * syncPauseMs), [3]);
  });
});
