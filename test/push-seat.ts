/**
 * A manager that members without datagrams ping, with the real table and the real judge behind it, for the tests of
 * push-membership.ts and push-link.ts.
 */
import assert from 'node:assert/strict';
import { nodeIdFrom } from '../src/base/ids.ts';
import type { Identity, Role } from '../src/base/ports.ts';
import { Random } from '../src/base/random.ts';
import type { Claim } from '../src/membership/claim.ts';
import { GossipBuffer } from '../src/membership/gossip-buffer.ts';
import { type Group, Outbox } from '../src/membership/group.ts';
import { heartbeatTiming } from '../src/membership/heartbeat-timing.ts';
import { Judge } from '../src/membership/judge.ts';
import { LocalHealth } from '../src/membership/local-health.ts';
import { MemberTable } from '../src/membership/member-table.ts';
import { lanMembership } from '../src/membership/options.ts';
import { type PushAck, PushMembership, type PushPing } from '../src/membership/push-membership.ts';
import { Self } from '../src/membership/self.ts';
import { Tally } from '../src/membership/tally.ts';

export const timing = heartbeatTiming(5_000);
export const names = ['m1', 'm2', 'w1', 'w2', 'w3'];

export function identity(name: string, role: Role, generation = 1): Identity {
  const number = names.indexOf(name) + 1;
  const id = nodeIdFrom(new Uint8Array(16).fill(number));
  return { id, name, host: `10.0.0.${number}`, port: 7_400, generation, roles: [role], dc: 'dc1' };
}

/** One manager: its judge, what it says to others, and what it saw. */
export class Seat {
  readonly self: Identity;
  readonly push: PushMembership;
  readonly said: Claim[] = [];
  readonly saw: string[] = [];
  readonly wakesMs: number[] = [];
  readonly #group: Group;
  readonly #judge: Judge;

  constructor(name: string, { workersMax = 10, membersMax = 100 } = {}) {
    this.self = identity(name, 'manager');
    const random = new Random(name);
    this.#group = {
      options: lanMembership,
      random,
      self: new Self(this.self, 0),
      table: new MemberTable(this.self.id, membersMax, random),
      gossip: new GossipBuffer(100, () => {}),
      health: new LocalHealth(),
      tally: new Tally(),
      out: new Outbox(),
    };
    this.#judge = new Judge(this.#group);
    const { table } = this.#group;
    this.push = new PushMembership(this.self.id, timing, workersMax, {
      standing: (id) => table.standing(id),
      hear: (claim, why) => {
        this.said.push(claim);
        this.hear(claim, why);
      },
      own: () => ({ incarnation: 0, claims: [], viewHash: table.viewHash, stateVersion: undefined }),
      wake: (atMs) => this.wakesMs.push(atMs),
      log: () => {},
    });
  }

  hear(claim: Claim, why: string): void {
    this.#judge.hear(claim, this.self.id);
    for (const effect of this.#group.out.take()) {
      if (effect.kind === 'event') this.saw.push(`${effect.event.name} ${effect.event.type} (${why})`);
    }
  }

  ping(nowMs: number, from: Identity, ping: Partial<PushPing> = {}): PushAck {
    const outcome = this.push.pinged(nowMs, from, pingOf(ping));
    assert.ok(outcome.ok, 'the ping is answered');
    return outcome.value;
  }

  stateOf({ id }: Identity): string {
    const known = this.#group.table.standing(id);
    return known === undefined ? 'unknown' : `${known.state} ${known.generation}.${known.incarnation}`;
  }
}

export function pingOf(ping: Partial<PushPing>): PushPing {
  const own = { incarnation: 0, claims: [], datagrams: false, health: 0, stuck: false, lagMs: 0, viewHash: 0 };
  return { kind: 'pushPing', seq: 1, hearsYou: false, ...own, stateVersion: undefined, state: [], ...ping };
}
