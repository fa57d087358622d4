/** A manager that push members ping, with the real table and suspicion policy. */
import assert from 'node:assert/strict';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Identity, Role } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { Claim } from '../../../src/membership/state/claim.ts';
import { GossipQueue } from '../../../src/membership/state/gossip-queue.ts';
import { type MembershipContext, MembershipOutbox } from '../../../src/membership/state/context.ts';
import { heartbeatTiming } from '../../../src/membership/detectors/heartbeat-timing.ts';
import { SuspicionPolicy } from '../../../src/membership/suspicion/suspicion-policy.ts';
import { LocalHealth } from '../../../src/membership/state/local-health.ts';
import { MemberTable } from '../../../src/membership/state/member-table.ts';
import { lanMembershipOptions } from '../../../src/membership/state/options.ts';
import { type PushAck, PushServer, type PushPing } from '../../../src/membership/detectors/push-server.ts';
import { LocalMember } from '../../../src/membership/state/local-member.ts';
import { MembershipCounters } from '../../../src/membership/state/membership-counters.ts';

export const pushTiming = heartbeatTiming(5_000);
export const names = ['m1', 'm2', 'w1', 'w2', 'w3'];

export function identity(name: string, role: Role, generation = 1): Identity {
  const number = names.indexOf(name) + 1;
  const id = nodeIdFrom(new Uint8Array(16).fill(number));
  return { id, name, host: `10.0.0.${number}`, port: 7_400, generation, roles: [role], dc: 'dc1' };
}

/** One manager: the claims that it makes, the events that it emits, and the wake-ups that it requests. */
export class PushManagerHarness {
  readonly self: Identity;
  readonly server: PushServer;
  readonly claims: Claim[] = [];
  readonly events: string[] = [];
  readonly wakesMs: number[] = [];
  readonly #context: MembershipContext;
  readonly #policy: SuspicionPolicy;

  constructor(name: string, { workersMax = 10, membersMax = 100 } = {}) {
    this.self = identity(name, 'manager');
    const random = new Random(name);
    this.#context = {
      options: lanMembershipOptions,
      random,
      self: new LocalMember(this.self, 0),
      table: new MemberTable(this.self.id, membersMax, random),
      gossip: new GossipQueue(100, () => {}),
      health: new LocalHealth(),
      counters: new MembershipCounters(),
      outbox: new MembershipOutbox(),
    };
    this.#policy = new SuspicionPolicy(this.#context);
    const { table } = this.#context;
    this.server = new PushServer(this.self.id, pushTiming, workersMax, {
      lastKnown: (id) => table.lastKnown(id),
      applyClaim: (claim, why) => {
        this.claims.push(claim);
        this.receiveClaim(claim, why);
      },
      ackContent: () => ({ incarnation: 0, claims: [], viewHash: table.viewHash, stateVersion: undefined }),
      wake: (atMs) => this.wakesMs.push(atMs),
      log: () => {},
    });
  }

  receiveClaim(claim: Claim, why: string): void {
    this.#policy.applyClaim(claim, this.self.id);
    for (const effect of this.#context.outbox.takeAll()) {
      if (effect.kind === 'event') this.events.push(`${effect.event.name} ${effect.event.type} (${why})`);
    }
  }

  ping(nowMs: number, from: Identity, ping: Partial<PushPing> = {}): PushAck {
    const outcome = this.server.onPing(nowMs, from, pingOf(ping));
    assert.ok(outcome.ok, 'the ping is answered');
    return outcome.value;
  }

  stateOf({ id }: Identity): string {
    const known = this.#context.table.lastKnown(id);
    return known === undefined ? 'unknown' : `${known.state} ${known.generation}.${known.incarnation}`;
  }
}

export function pingOf(ping: Partial<PushPing>): PushPing {
  const own = { incarnation: 0, claims: [], datagrams: false, health: 0, stuck: false, lagMs: 0, viewHash: 0 };
  return { kind: 'pushPing', seq: 1, hearsYou: false, ...own, stateVersion: undefined, state: [], ...ping };
}
