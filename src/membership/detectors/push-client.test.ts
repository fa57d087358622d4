/**
 * Whole conversations of a member without datagrams and two managers, printed line by line. Messages are encoded and
 * decoded; each takes 5 ms.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  identity,
  names,
  pingOf,
  PushManagerHarness,
  pushTiming,
} from '../../../test/support/membership/push-manager-harness.ts';
import { createCodec } from '../../messages/codec/codec.ts';
import { pushAck, pushPing } from '../../messages/membership.ts';
import { PushClient } from './push-client.ts';
import type { PushPing } from './push-server.ts';

const delayMs = 5;
const codec = createCodec([pushPing, pushAck]);

type Step = { readonly atMs: number; readonly order: number; readonly run: () => void };

/** One worker and two managers. A cut link loses every message; the managers exchange their claims at once. */
class PushConversation {
  readonly lines: string[] = [];
  readonly harnesses = [new PushManagerHarness('m1'), new PushManagerHarness('m2')];
  readonly worker = identity('w1', 'worker');
  readonly client: PushClient;
  readonly cuts = new Set<string>();
  /** The managers that the worker knows. */
  managers = this.harnesses.map(({ self }) => self);
  #incarnation = 0;
  #nowMs = 0;
  #order = 0;
  #steps: Step[] = [];

  constructor() {
    this.client = new PushClient(pushTiming, {
      managers: () => this.managers,
      pingContent: () => pingOf({ incarnation: this.#incarnation }),
      send: (to, ping) => this.#send(to.id, ping),
      raiseAbove: (incarnation) => {
        this.#incarnation = Math.max(this.#incarnation, incarnation) + 1;
        this.#trace(`w1 raises its incarnation to ${this.#incarnation}`);
      },
      accuse: (manager, why) => this.#trace(`w1 accuses ${nameOf(manager.id)}: ${why}`),
      superseded: () => this.#trace('w1 is superseded'),
      log: () => {},
    });
    for (const harness of this.harnesses) harness.server.start(0);
  }

  runTo(untilMs: number): readonly string[] {
    for (;;) {
      this.#scheduleWakes();
      const next = this.#steps.toSorted((a, b) => a.atMs - b.atMs || a.order - b.order)[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.#steps = this.#steps.filter((step) => step !== next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.run();
      this.#deliverClaims();
    }
    this.#nowMs = untilMs;
    return this.lines.splice(0);
  }

  start(): void {
    this.client.start(this.#nowMs);
  }

  #scheduleWakes(): void {
    for (const harness of this.harnesses) {
      for (const atMs of harness.wakesMs.splice(0)) this.#at(atMs, () => harness.server.expire(this.#nowMs));
    }
    const { nextMs } = this.client;
    if (nextMs !== undefined && !this.#steps.some(({ atMs, order }) => atMs === nextMs && order < 0)) {
      this.#steps.push({ atMs: nextMs, order: -1, run: () => this.client.expire(this.#nowMs) });
    }
  }

  #deliverClaims(): void {
    for (const harness of this.harnesses) {
      for (const claim of harness.claims.splice(0)) {
        this.#trace(`${harness.self.name} claims w1 ${claim.kind} in incarnation ${claim.incarnation}`);
        for (const other of this.harnesses) if (other !== harness) other.receiveClaim(claim, 'gossip');
      }
      for (const line of harness.events.splice(0)) this.#trace(`${harness.self.name} sees ${line.split(' (')[0]}`);
    }
  }

  #send(to: string, ping: PushPing): void {
    const harness = this.harnesses.find(({ self }) => self.id === to) ?? assert.fail('the ping has no receiver');
    const { name } = harness.self;
    this.#trace(
      `w1 -> ${name} ping ${ping.seq} of incarnation ${ping.incarnation}${ping.hearsYou ? ', acks arrive' : ''}`,
    );
    this.#carry(`w1 ${name}`, () => {
      const arrived = codec.decode(codec.encode(ping));
      assert.ok(arrived.kind === 'pushPing');
      const outcome = harness.server.onPing(this.#nowMs, this.worker, arrived);
      assert.ok(outcome.ok);
      const ack = codec.decode(codec.encode(outcome.value));
      assert.ok(ack.kind === 'pushAck');
      if (ack.verdict !== 'member') this.#trace(`${name} -> w1 ${ack.verdict}`);
      this.#carry(`${name} w1`, () => this.client.onAck(this.#nowMs, ack));
    });
  }

  #carry(way: string, arrive: () => void): void {
    this.#at(this.#nowMs + delayMs, () => this.cuts.has(way) || arrive());
  }

  #at(atMs: number, run: () => void): void {
    this.#steps.push({ atMs, order: this.#order++, run });
  }

  #trace(text: string): void {
    this.lines.push(`${this.#nowMs} ${text}`);
  }
}

function nameOf(id: string): string {
  return names[Number.parseInt(id.slice(0, 2), 16) - 1] ?? 'unknown';
}

describe('a worker without datagrams and its managers', () => {
  it('connect: the worker joins, and is dispatchable one round trip later', () => {
    const world = new PushConversation();
    world.start();
    assert.deepEqual(world.runTo(4_000), [
      '0 w1 -> m1 ping 1 of incarnation 0',
      '5 m1 claims w1 join in incarnation 0',
      '5 m1 sees w1 member.alive',
      '5 m2 sees w1 member.alive',
      '10 w1 -> m1 ping 2 of incarnation 0, acks arrive',
      '3010 w1 -> m1 ping 3 of incarnation 0, acks arrive',
    ]);
    assert.equal(world.harnesses[0]?.server.isDispatchable(4_000, world.worker.id), true);
  });

  it('stay alive and connected: the worker changes to the next manager before the old one declares it dead', () => {
    const world = new PushConversation();
    world.start();
    world.runTo(4_000);
    world.cuts.add('w1 m1').add('m1 w1');
    assert.deepEqual(world.runTo(20_000), [
      '6010 w1 -> m1 ping 4 of incarnation 0, acks arrive',
      '9010 w1 -> m1 ping 5 of incarnation 0',
      '12010 w1 -> m1 ping 6 of incarnation 0',
      '15010 w1 accuses m1: 3 heartbeats were not acknowledged',
      '15010 w1 raises its incarnation to 1',
      '15010 w1 -> m2 ping 7 of incarnation 1',
      '15015 m2 claims w1 alive in incarnation 1',
      '15020 w1 -> m2 ping 8 of incarnation 1, acks arrive',
      '18015 m1 claims w1 dead in incarnation 0',
      '18020 w1 -> m2 ping 9 of incarnation 1, acks arrive',
    ]);
    for (const harness of world.harnesses) assert.equal(harness.stateOf(world.worker), 'alive 1.1');
  });

  it('recover: a worker that was declared dead returns by itself when the link heals', () => {
    const world = new PushConversation();
    world.start();
    world.runTo(4_000);
    for (const manager of ['m1', 'm2']) world.cuts.add(`w1 ${manager}`);
    const lines = world.runTo(25_000);
    assert.ok(lines.includes('18015 m1 claims w1 dead in incarnation 0'));
    assert.ok(lines.includes('18015 m2 sees w1 member.dead'));
    world.cuts.clear();
    assert.deepEqual(world.runTo(28_000), [
      '27010 w1 -> m1 ping 11 of incarnation 2',
      '27015 m1 claims w1 alive in incarnation 2',
      '27015 m1 sees w1 member.alive',
      '27015 m2 sees w1 member.alive',
      '27020 w1 -> m1 ping 12 of incarnation 2, acks arrive',
    ]);
    for (const harness of world.harnesses) assert.equal(harness.stateOf(world.worker), 'alive 1.2');
  });

  it('agree that the worker is alive and dispatchable soon after any history of cuts', () => {
    const way = fc.constantFrom('w1 m1', 'm1 w1', 'w1 m2', 'm2 w1');
    const cut = fc.record({ way, forMs: fc.integer({ min: 1, max: 30_000 }), heals: fc.boolean() });
    let deaths = 0;
    fc.assert(
      fc.property(fc.array(cut, { maxLength: 12 }), (cuts) => {
        const world = new PushConversation();
        let nowMs = 0;
        world.start();
        for (const { way: one, forMs, heals } of cuts) {
          if (heals) world.cuts.delete(one);
          else world.cuts.add(one);
          nowMs += forMs;
          deaths += world.runTo(nowMs).filter((line) => line.includes('member.dead')).length;
        }
        world.cuts.clear();
        // Each side may have counted two misses already; then follow a ping, an ack, and the ping that confirms it.
        nowMs += 2 * pushTiming.timeoutMs;
        world.runTo(nowMs);
        const views = world.harnesses.map((harness) => harness.stateOf(world.worker));
        assert.match(views[0] ?? '', /^alive/);
        assert.equal(views[1], views[0]);
        assert.ok(world.harnesses.some((harness) => harness.server.isDispatchable(nowMs, world.worker.id)));
        assert.deepEqual(
          world.runTo(nowMs + 60_000).filter((line) => line.includes('member.dead')),
          [],
        );
      }),
      { numRuns: 150 },
    );
    assert.ok(deaths > 0, 'no history was bad enough for a death');
  });

  it('agree again after a false death: the worker raises its incarnation', () => {
    const world = new PushConversation();
    world.start();
    world.runTo(4_000);
    const { id, generation } = world.worker;
    const by = identity('m2', 'manager').id;
    for (const harness of world.harnesses) {
      harness.receiveClaim(
        { kind: 'dead', id, generation, incarnation: 0, by, refused: false, entry: undefined },
        'a mistake',
      );
    }
    assert.deepEqual(
      world.runTo(7_000).filter((line) => !line.includes('sees')),
      [
        '6010 w1 -> m1 ping 4 of incarnation 0, acks arrive',
        '6015 m1 -> w1 accused',
        '6020 w1 raises its incarnation to 1',
        '6020 w1 -> m1 ping 5 of incarnation 1, acks arrive',
        '6025 m1 claims w1 alive in incarnation 1',
      ],
    );
  });

  it('find each other late: the worker retries until it knows a manager', () => {
    const world = new PushConversation();
    const all = world.managers;
    world.managers = [];
    world.start();
    assert.deepEqual(world.runTo(4_000), []);
    assert.equal(world.client.manager, undefined);
    world.managers = all.slice(1);
    assert.equal(world.runTo(6_005)[0], '6000 w1 -> m2 ping 1 of incarnation 0');
    world.client.start(6_005);
    world.client.stop();
    assert.equal(world.client.nextMs, undefined);
  });

  it('H9: exchange no work while acks do not reach the worker, though its pings arrive', () => {
    const world = new PushConversation();
    world.cuts.add('m1 w1');
    world.start();
    world.runTo(8_000);
    const [m1] = world.harnesses;
    assert.deepEqual(m1?.server.detector.directions(8_000, world.worker.id), { heardByUs: true, hearsUs: false });
    assert.equal(m1?.server.isDispatchable(8_000, world.worker.id), false);
  });

  it('part when the managers have seen a higher generation of the worker', () => {
    const world = new PushConversation();
    world.harnesses[0]?.ping(0, identity('w1', 'worker', 2));
    world.start();
    assert.ok(world.runTo(100).includes('10 w1 is superseded'));
    assert.equal(world.client.nextMs, undefined);
  });
});
