/** One membership machine with its timers. Collects its effects until the test takes them. */
import assert from 'node:assert/strict';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Identity } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { Claim } from '../../../src/membership/state/claim.ts';
import type { MembershipEffect, MembershipMessageOf } from '../../../src/membership/state/context.ts';
import { Membership, type MembershipInput } from '../../../src/membership/membership.ts';
import { lanMembershipOptions } from '../../../src/membership/state/options.ts';
import type { PushPing } from '../../../src/membership/detectors/push-server.ts';
import { pingOf } from './push-manager-harness.ts';

type Effect = ReturnType<Membership['step']>[number];
type Of<K extends MembershipEffect['kind']> = Extract<MembershipEffect, { readonly kind: K }>;

export function identity(n: number, more: Partial<Identity> = {}): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation: 1, roles: ['manager'], dc: 'dc1', ...more };
}

export const worker = identity(9, { roles: ['worker'] });

export function claim(kind: Claim['kind'], of: Identity, incarnation = 0, watchedBy?: Identity): Claim {
  const { id, generation } = of;
  const entry = kind === 'join' || kind === 'alive' ? { ...of, watchedBy: watchedBy?.id } : undefined;
  return { kind, id, generation, incarnation, by: watchedBy?.id ?? id, refused: false, entry };
}

export class PushMemberHarness {
  readonly machine: Membership;
  nowMs = 0;
  #effects: MembershipEffect[] = [];
  #timers: Extract<Effect, { readonly kind: 'schedule' }>[] = [];

  constructor(self: Identity, membership: 'swim' | 'push', watchMainLoop = false) {
    this.machine = new Membership(self, 0, { ...lanMembershipOptions, membership }, new Random('subject'));
    this.feed({ kind: 'start', seeds: [], watchMainLoop });
  }

  feed(input: MembershipInput): void {
    this.#collect(this.machine.step(this.nowMs, input));
  }

  /** Lets time pass and fires every timer that is due, in order. */
  advance(durationMs: number): void {
    const untilMs = this.nowMs + durationMs;
    for (;;) {
      const due = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (due === undefined || due.atMs > untilMs) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.nowMs = Math.max(this.nowMs, due.atMs);
      this.#collect(this.machine.step(this.nowMs, { kind: 'expired', timer: due.timer }));
    }
    this.nowMs = untilMs;
  }

  take<K extends MembershipEffect['kind']>(kind: K): Of<K>[] {
    const found = this.#effects.filter((effect) => effect.kind === kind);
    this.#effects = this.#effects.filter((effect) => effect.kind !== kind);
    return found as Of<K>[];
  }

  events(): string[] {
    return this.take('event').map(({ event }) => `${event.type} ${event.name}:${event.incarnation} ${event.why}`);
  }

  receives(from: Identity, ...claims: Claim[]): void {
    this.feed({ kind: 'datagram', from, message: { kind: 'gossip', incarnation: 0, claims } });
  }

  receivesPing(from: Identity, ping: Partial<PushPing> = {}): MembershipMessageOf<'pushAck'> | string | undefined {
    this.feed({ kind: 'request', from, call: 1, message: pingOf(ping) });
    const [reply] = this.take('reply');
    if (reply?.message.kind === 'pushAck') return reply.message;
    return this.take('replyError')[0]?.code;
  }

  /** The heartbeats since the last call, as `receiver:incarnation`. */
  pings(): string[] {
    return this.#heartbeats().map(({ purpose, message }) => `${this.nameOf(purpose.id)}:${message.incarnation}`);
  }

  /** Acknowledges the last heartbeat. */
  receivesAck(ack: Partial<MembershipMessageOf<'pushAck'>> = {}): void {
    this.#heartbeats();
    assert.ok(this.#lastPurpose !== undefined, 'a heartbeat was sent');
    const { seq } = this.#lastPurpose;
    const own = { incarnation: 0, claims: [], verdict: 'member', known: 0, viewHash: this.machine.viewHash } as const;
    const message = { kind: 'pushAck', seq, ...own, stateVersion: undefined, ...ack } as const;
    this.feed({ kind: 'response', purpose: this.#lastPurpose, message });
  }

  failsPing(code?: 'CAPACITY' | 'DRAINED'): void {
    this.#heartbeats();
    assert.ok(this.#lastPurpose !== undefined, 'a heartbeat was sent');
    this.feed({ kind: 'requestFailed', purpose: this.#lastPurpose, code });
  }

  #lastPurpose: { readonly kind: 'push'; readonly id: Identity['id']; readonly seq: number } | undefined;

  #heartbeats() {
    const found = this.take('request').flatMap(({ purpose, message }) =>
      purpose.kind === 'push' && message.kind === 'pushPing' ? [{ purpose, message }] : [],
    );
    this.#lastPurpose = found.at(-1)?.purpose ?? this.#lastPurpose;
    return found;
  }

  nameOf(id: string): string {
    return this.machine.member(id as Identity['id'])?.entry.name ?? id;
  }

  #collect(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.kind === 'schedule') this.#timers.push(effect);
      else if (effect.kind !== 'cancelTimer') this.#effects.push(effect);
    }
  }
}
