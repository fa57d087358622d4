/** What a joiner does with the reply of a seed: which claims it gossips, and how often it rechecks the view. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import type { Claim } from '../state/claim.ts';
import type { RequestPurpose } from '../state/context.ts';
import { Membership, type MembershipInput } from '../membership.ts';
import { lanMembershipOptions } from '../state/options.ts';

function identity(n: number): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation: 1, roles: ['worker'], dc: 'dc1' };
}

function aliveClaim(n: number): Claim {
  const entry = identity(n);
  const { id, generation } = entry;
  return { kind: 'alive', id, generation, incarnation: 0, by: id, refused: false, entry };
}

/** Node 1, which joins with node 2 as its seed. */
class JoinerHarness {
  readonly machine = new Membership(identity(1), 0, lanMembershipOptions, new Random('joining'));
  #rechecks: { readonly atMs: number; readonly timer: unknown }[] = [];
  readonly #ticks: { readonly atMs: number; readonly timer: unknown }[] = [];
  readonly #requested: RequestPurpose[] = [];
  readonly #gossiped = new Set<string>();
  nowMs = 0;

  constructor() {
    this.#step({ kind: 'start', seeds: [identity(2)] });
  }

  receives(from: number, ...about: number[]): void {
    const message = { kind: 'gossip', incarnation: 0, claims: about.map(aliveClaim) } as const;
    this.#step({ kind: 'datagram', from: identity(from), message });
  }

  /** Node 2 replies to the last request. */
  receivesView(...about: number[]): void {
    const claims = about.map(aliveClaim);
    const message = {
      kind: 'syncViewReply',
      viewHash: about.length === 0 ? this.machine.viewHash : 1,
      claims,
    } as const;
    this.#step({ kind: 'response', purpose: this.#requested.at(-1)!, message: { ...message, id: identity(2).id } });
  }

  /** Fires the next recheck; false if there is none. */
  recheck(): boolean {
    const next = this.#rechecks.shift();
    if (next === undefined) return false;
    this.nowMs = next.atMs;
    this.#step({ kind: 'expired', timer: next.timer } as never);
    return true;
  }

  /** Fires all gossip ticks; returns the names in the claims that were sent. */
  gossip(): readonly string[] {
    for (let next = this.#ticks.shift(); next !== undefined; next = this.#ticks.shift()) {
      this.nowMs = Math.max(this.nowMs, next.atMs);
      this.#step({ kind: 'expired', timer: next.timer } as never);
    }
    const gossiped = [...this.#gossiped].toSorted();
    this.#gossiped.clear();
    return gossiped;
  }

  #step(input: MembershipInput): void {
    for (const effect of this.machine.step(this.nowMs, input)) {
      if (effect.kind === 'schedule' && effect.timer.kind === 'recheckView') this.#rechecks.push(effect);
      if (effect.kind === 'schedule' && effect.timer.kind === 'gossip') this.#ticks.push(effect);
      if (effect.kind === 'request') this.#requested.push(effect.purpose);
      if (effect.kind !== 'datagram' || effect.message.kind !== 'gossip') continue;
      for (const { entry } of effect.message.claims) this.#gossiped.add(entry?.name ?? '');
    }
  }
}

describe('a joiner', () => {
  it('rechecks the view until it finds nothing new', () => {
    const joiner = new JoinerHarness();
    joiner.receivesView(2, 3);
    assert.ok(joiner.recheck());
    joiner.receivesView(2, 3, 4);
    assert.ok(joiner.recheck());
    joiner.receivesView();
    assert.equal(joiner.recheck(), false);
    assert.equal([...joiner.machine.members].length, 3);
  });

  it('stops its rechecks even if the views never agree', () => {
    const joiner = new JoinerHarness();
    joiner.receivesView(2, 3);
    let rechecks = 0;
    for (; joiner.recheck() && rechecks < 100; rechecks++) joiner.receivesView(2, 3, 4 + rechecks);
    assert.equal(rechecks, 4);
  });

  it('does not gossip the view of its seed, which the seed gossips', () => {
    const joiner = new JoinerHarness();
    joiner.receives(2, 3);
    const before = joiner.gossip();
    joiner.receivesView(2, 3, 4, 5);
    assert.equal([...joiner.machine.members].length, 4);
    assert.deepEqual([before, joiner.gossip()], [['n2', 'n3'], []]);
  });

  it('joins two groups: it gossips the view to the members that it knew before', () => {
    const joiner = new JoinerHarness();
    joiner.receives(7, 8);
    joiner.gossip();
    joiner.receivesView(2, 3);
    assert.deepEqual(joiner.gossip(), ['n2', 'n3']);
  });
});
