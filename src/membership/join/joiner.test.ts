/** What a node does with the answer to its join: whom it tells, and how often it looks again. */
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

/** Node 1, which asks node 2. */
class Joining {
  readonly machine = new Membership(identity(1), 0, lanMembershipOptions, new Random('joining'));
  #looks: { readonly atMs: number; readonly timer: unknown }[] = [];
  readonly #ticks: { readonly atMs: number; readonly timer: unknown }[] = [];
  readonly #asked: RequestPurpose[] = [];
  readonly #told = new Set<string>();
  nowMs = 0;

  constructor() {
    this.#step({ kind: 'start', seeds: [identity(2)] });
  }

  hears(from: number, ...about: number[]): void {
    const message = { kind: 'gossip', incarnation: 0, claims: about.map(aliveClaim) } as const;
    this.#step({ kind: 'datagram', from: identity(from), message });
  }

  /** Node 2 answers the question that was asked last. */
  answered(...about: number[]): void {
    const claims = about.map(aliveClaim);
    const message = {
      kind: 'syncViewReply',
      viewHash: about.length === 0 ? this.machine.viewHash : 1,
      claims,
    } as const;
    this.#step({ kind: 'answered', purpose: this.#asked.at(-1)!, message: { ...message, id: identity(2).id } });
  }

  /** Lets the next look come; false if there is none. */
  look(): boolean {
    const next = this.#looks.shift();
    if (next === undefined) return false;
    this.nowMs = next.atMs;
    this.#step({ kind: 'expired', timer: next.timer } as never);
    return true;
  }

  /** Lets it tell all that is news; about whom that was. */
  gossips(): readonly string[] {
    for (let next = this.#ticks.shift(); next !== undefined; next = this.#ticks.shift()) {
      this.nowMs = Math.max(this.nowMs, next.atMs);
      this.#step({ kind: 'expired', timer: next.timer } as never);
    }
    const told = [...this.#told].toSorted();
    this.#told.clear();
    return told;
  }

  #step(input: MembershipInput): void {
    for (const effect of this.machine.step(this.nowMs, input)) {
      if (effect.kind === 'schedule' && effect.timer.kind === 'look') this.#looks.push(effect);
      if (effect.kind === 'schedule' && effect.timer.kind === 'gossip') this.#ticks.push(effect);
      if (effect.kind === 'request') this.#asked.push(effect.purpose);
      if (effect.kind !== 'datagram' || effect.message.kind !== 'gossip') continue;
      for (const { entry } of effect.message.claims) this.#told.add(entry?.name ?? '');
    }
  }
}

describe('a newcomer', () => {
  it('looks again until it finds nothing new', () => {
    const joining = new Joining();
    joining.answered(2, 3);
    assert.ok(joining.look());
    joining.answered(2, 3, 4);
    assert.ok(joining.look());
    joining.answered();
    assert.equal(joining.look(), false);
    assert.equal([...joining.machine.members].length, 3);
  });

  it('does not look for ever where views never agree', () => {
    const joining = new Joining();
    joining.answered(2, 3);
    let looks = 0;
    for (; joining.look() && looks < 100; looks++) joining.answered(2, 3, 4 + looks);
    assert.equal(looks, 4);
  });

  it('does not tell others what the one that took it in tells them', () => {
    const joining = new Joining();
    joining.hears(2, 3);
    const before = joining.gossips();
    joining.answered(2, 3, 4, 5);
    assert.equal([...joining.machine.members].length, 4);
    assert.deepEqual([before, joining.gossips()], [['n2', 'n3'], []]);
  });

  it('brings two groups together: who knows others tells them', () => {
    const joining = new Joining();
    joining.hears(7, 8);
    joining.gossips();
    joining.answered(2, 3);
    assert.deepEqual(joining.gossips(), ['n2', 'n3']);
  });
});
