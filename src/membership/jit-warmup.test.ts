/** Pretended members find each other and are gone, without a word that is left over. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIdFrom } from '../base/ids.ts';
import type { Clock, Datagrams, Identity, Peer } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import { lanMembershipOptions } from './state/options.ts';
import { type WarmupMember, warmUpMembership } from './jit-warmup.ts';

/** Time that passes from one thing to the next one. */
class HandClock implements Clock {
  #now = 0;
  #due: { readonly atMs: number; readonly run: () => void }[] = [];

  nowMs(): number {
    return this.#now;
  }

  wallMs(): number {
    return this.#now;
  }

  schedule(delayMs: number, run: () => void): () => void {
    const one = { atMs: this.#now + delayMs, run };
    this.#due.push(one);
    return () => {
      this.#due = this.#due.filter((other) => other !== one);
    };
  }

  runAll(): void {
    while (this.#due.length > 0) {
      const next = this.#due.reduce((a, b) => (b.atMs < a.atMs ? b : a));
      this.#due = this.#due.filter((one) => one !== next);
      this.#now = Math.max(this.#now, next.atMs);
      next.run();
    }
  }
}

function actors(clock: Clock, said: (name: string) => void): WarmupMember[] {
  const receivers = new Map<number, Parameters<Datagrams['receive']>[0]>();
  return [1, 2, 3, 4].map((n) => {
    const id = nodeIdFrom(new Uint8Array(16).fill(n));
    const identity: Identity = { id, name: `p${n}`, host: '10.0.0.1', port: n, generation: 1, roles: [], dc: 'dc1' };
    const send = (to: Peer, body: Uint8Array): void => {
      said(identity.name);
      clock.schedule(1, () => receivers.get(to.port)?.(identity, body));
    };
    return { identity, datagrams: { send, receive: (handler) => void receivers.set(n, handler) } };
  });
}

test('everybody sees everybody, then there is silence', () => {
  const clock = new HandClock();
  const said: string[] = [];
  let seen: readonly number[] = [];
  const cast = actors(clock, (name) => said.push(name));
  warmUpMembership({ clock, random: new Random('stage') }, cast, lanMembershipOptions, (counts) => {
    seen = counts;
    assert.ok(said.length > 40, 'they have talked');
    said.length = 0;
  });
  clock.runAll();
  assert.deepEqual(seen, [3, 3, 3, 3]);
  assert.deepEqual(said, []);
});
