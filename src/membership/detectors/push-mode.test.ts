/** The membership machine with members without datagrams: as the watcher of one, and as such a member itself. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { claim, identity, PushMemberHarness, worker } from '../../../test/support/membership/push-member-harness.ts';
import type { Identity } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import { encodeMessage } from '../../messages/catalogue.ts';
import { heartbeatTiming } from './heartbeat-timing.ts';
import { Membership, type MembershipInput } from '../membership.ts';
import { lanMembershipOptions } from '../state/options.ts';

const timing = heartbeatTiming(lanMembershipOptions.probeIntervalMs);
const { timeoutMs, graceMs, pingIntervalMs } = timing;

describe('a watcher of members without datagrams', () => {
  const [self, other, third] = [identity(1), identity(2), identity(3)];

  it('adds a member at its first heartbeat, with its report, and names itself as its watcher', () => {
    const subject = new PushMemberHarness(self, 'swim');
    const state = [{ role: 'worker', state: new Uint8Array([7]) }] as const;
    const ack = subject.receivesPing(worker, { health: 3, stuck: true, lagMs: 40, stateVersion: 2, state });
    assert.ok(typeof ack === 'object');
    assert.deepEqual([ack.verdict, ack.stateVersion], ['member', 2]);
    const member = subject.machine.member(worker.id);
    assert.equal(member?.entry.watchedBy, self.id);
    assert.deepEqual([member?.health, member?.stuck, member?.lagMs], [3, true, 40]);
    assert.deepEqual(
      subject.take('embedded').map(({ version, parts }) => [version, parts]),
      [[2, state]],
    );
    assert.deepEqual(subject.events(), ['member.alive n9:0 it joined', 'member.stuck n9:0 its main loop is blocked']);
  });

  it('sends the member no datagram, no probe and no ping request', () => {
    const subject = new PushMemberHarness(self, 'swim');
    subject.receivesPing(worker);
    subject.receives(other, claim('join', third));
    for (let times = 0; times < 20; times++) {
      subject.advance(pingIntervalMs);
      subject.receivesPing(worker);
    }
    const receivers = subject.take('datagram').map(({ to }) => to.id);
    assert.ok(receivers.includes(other.id));
    assert.ok(!receivers.includes(worker.id));
    assert.ok(!subject.take('request').some(({ to }) => to.port === worker.port));
  });

  it('HE-4: declares a silent member dead at its deadline, once, with the evidence', () => {
    const subject = new PushMemberHarness(self, 'swim');
    subject.receivesPing(worker);
    subject.advance(timeoutMs - 1);
    assert.deepEqual(subject.events(), ['member.alive n9:0 it joined']);
    subject.advance(1);
    subject.advance(10 * timeoutMs);
    assert.deepEqual(subject.events(), [`member.dead n9:0 no heartbeat for ${timeoutMs} ms`]);
    const back = subject.receivesPing(worker);
    assert.ok(typeof back === 'object' && back.verdict === 'accused');
    assert.equal(subject.machine.member(worker.id)?.state, 'dead');
    subject.receivesPing(worker, { incarnation: 1 });
    assert.equal(subject.machine.member(worker.id)?.state, 'alive');
  });

  it('HE-5: does not declare a member dead that has left', () => {
    const subject = new PushMemberHarness(self, 'swim');
    subject.receivesPing(worker);
    subject.feed({
      kind: 'request',
      from: worker,
      call: 2,
      message: { kind: 'leave', incarnation: 0, reason: 'maintenance' },
    });
    subject.advance(10 * timeoutMs);
    assert.deepEqual(subject.events(), ['member.alive n9:0 it joined', 'member.left n9:0 it announced its leave']);
  });

  it('adopts a member with grace only when its watcher is dead', () => {
    const subject = new PushMemberHarness(self, 'swim');
    subject.receives(other, claim('join', worker, 0, other));
    subject.advance(0);
    subject.receives(third, { ...claim('dead', other), by: third.id, refused: true });
    subject.advance(graceMs - 1);
    subject.receives(third);
    assert.equal(subject.machine.member(worker.id)?.state, 'alive');
    subject.advance(1);
    assert.equal(subject.machine.member(worker.id)?.state, 'dead');
    assert.ok(subject.events().includes(`member.dead n9:0 no heartbeat for ${graceMs} ms`));
    // It has never received a ping of the member, so the claim does not count at once everywhere.
    const sent = subject.take('datagram').flatMap(({ message }) => ('claims' in message ? message.claims : []));
    assert.ok(sent.filter(({ id, kind }) => id === worker.id && kind === 'dead').every(({ refused }) => !refused));
  });

  it('releases a member that has another watcher, and one whose watcher has returned', () => {
    const subject = new PushMemberHarness(self, 'swim');
    subject.receivesPing(worker);
    subject.receives(other, claim('alive', worker, 1, other));
    subject.advance(timeoutMs + 1);
    assert.equal(subject.machine.member(worker.id)?.state, 'alive');
    subject.receives(third, { ...claim('dead', other), by: third.id, refused: true });
    subject.feed({ kind: 'datagram', from: other, message: { kind: 'gossip', incarnation: 9, claims: [] } });
    subject.advance(graceMs + 1);
    assert.notEqual(subject.machine.member(worker.id)?.state, 'dead');
  });

  it('H4: waits with grace for members that it watched in an earlier generation', () => {
    const subject = new PushMemberHarness(identity(1, { generation: 2 }), 'swim');
    subject.receives(other, claim('alive', worker, 0, self));
    subject.advance(graceMs - 1);
    assert.equal(subject.machine.member(worker.id)?.state, 'alive');
    subject.advance(1);
    assert.equal(subject.machine.member(worker.id)?.state, 'dead');
  });

  it('declares no member dead for its own pause or for its blocked main loop', () => {
    const paused = new PushMemberHarness(self, 'swim');
    paused.receivesPing(worker);
    paused.nowMs += 10 * timeoutMs;
    paused.advance(0);
    assert.equal(paused.machine.member(worker.id)?.state, 'alive');
    paused.advance(timeoutMs);
    assert.equal(paused.machine.member(worker.id)?.state, 'dead');

    const blocked = new PushMemberHarness(self, 'swim', true);
    blocked.feed({ kind: 'beat' });
    blocked.receivesPing(worker);
    blocked.advance(3 * timeoutMs);
    assert.equal(blocked.machine.member(worker.id)?.state, 'alive');
    for (let beats = 0; beats <= (timeoutMs + 1_000) / 500; beats++) {
      blocked.feed({ kind: 'beat' });
      blocked.advance(500);
    }
    assert.equal(blocked.machine.member(worker.id)?.state, 'dead');
  });

  it('refuses heartbeats when it has no datagrams itself or is leaving', () => {
    assert.equal(new PushMemberHarness(identity(8), 'push').receivesPing(worker), 'NOT_LEADER');
    const leaving = new PushMemberHarness(self, 'swim');
    leaving.feed({ kind: 'leave', reason: 'maintenance' });
    assert.equal(leaving.receivesPing(worker), 'NOT_LEADER');
  });
});

describe('a node without datagrams', () => {
  const managers = [identity(1), identity(2), identity(3)];

  /** A client that knows three managers from a view. */
  function clientWithManagers(): PushMemberHarness {
    const subject = new PushMemberHarness(worker, 'push');
    const [first] = managers as [Identity];
    const claims = managers.map((manager) => claim('alive', manager));
    const message = { kind: 'syncViewReply', viewHash: 0, claims, id: first.id } as const;
    subject.feed({ kind: 'response', purpose: { kind: 'greet', address: first }, message });
    return subject;
  }

  it('pings one manager, twice at first, and never sends a datagram', () => {
    const subject = clientWithManagers();
    assert.equal(subject.pings().length, 1);
    subject.receivesAck();
    assert.equal(subject.pings().length, 1);
    for (let times = 0; times < 100; times++) {
      subject.receivesAck();
      subject.advance(pingIntervalMs);
      assert.equal(subject.pings().length, 1);
    }
    assert.deepEqual(subject.take('datagram'), []);
  });

  it('never claims itself alive: only its watcher does', () => {
    const subject = clientWithManagers();
    subject.receivesAck();
    subject.advance(60_000);
    const claimed = subject.take('request').flatMap(({ message }) => ('claims' in message ? message.claims : []));
    assert.ok(!claimed.some(({ id }) => id === worker.id));
  });

  it('changes to the next manager after three misses, with a higher incarnation, and suspects the first at its ack', () => {
    const subject = clientWithManagers();
    const [first] = subject.pings();
    subject.receivesAck();
    subject.advance(3.5 * pingIntervalMs);
    const pings = subject.pings();
    const [second] = pings.slice(-1);
    assert.equal(second?.endsWith(':1'), true);
    assert.notEqual(second?.split(':')[0], first?.split(':')[0]);
    const silent = managers.find(({ name }) => name === first?.split(':')[0]) as Identity;
    assert.equal(subject.machine.member(silent.id)?.state, 'alive');
    subject.receivesAck();
    assert.equal(subject.machine.member(silent.id)?.state, 'suspect');
    assert.ok(subject.events().includes(`member.suspect ${silent.name}:0 3 heartbeats were not acknowledged`));
  });

  it('suspects no member while no manager replies, and requests the view of dead members', () => {
    const subject = clientWithManagers();
    subject.receivesAck({ claims: [{ ...claim('dead', managers[0] as Identity), by: (managers[1] as Identity).id }] });
    subject.advance(30 * pingIntervalMs);
    assert.ok(subject.take('request').some(({ purpose }) => purpose.kind === 'greet'));
    subject.advance(pingIntervalMs);
    subject.receivesAck();
    assert.ok(!subject.events().some((event) => event.includes('suspect')));
  });

  it('changes to the next manager without a suspicion when one refuses, and resends when only a queue was full', () => {
    const subject = clientWithManagers();
    const [first] = subject.pings();
    subject.failsPing('CAPACITY');
    subject.advance(pingIntervalMs / 4);
    const [second] = subject.pings();
    assert.notEqual(second?.split(':')[0], first?.split(':')[0]);
    subject.receivesAck();
    subject.failsPing('CAPACITY');
    subject.advance(pingIntervalMs / 4);
    assert.deepEqual(subject.pings(), [second]);
    subject.failsPing('DRAINED');
    subject.advance(pingIntervalMs / 4);
    assert.notEqual(subject.pings()[0]?.split(':')[0], second?.split(':')[0]);
    assert.ok(!subject.events().some((event) => event.includes('suspect')));
  });

  it('raises its incarnation at once when it learns that it was declared dead', () => {
    const subject = clientWithManagers();
    subject.receivesAck();
    subject.receivesAck({
      verdict: 'accused',
      known: 4,
      claims: [{ ...claim('dead', worker, 4), by: managers[0]!.id }],
    });
    assert.equal(subject.machine.self.incarnation, 5);
    assert.ok(subject.pings().at(-1)?.endsWith(':5'));
  });

  it('declares no suspect dead while no manager replies', () => {
    const subject = clientWithManagers();
    const [first] = subject.pings();
    const suspect = managers.find(({ name }) => name !== first?.split(':')[0]) as Identity;
    subject.receivesAck({ claims: [{ ...claim('suspect', suspect), by: managers[0]!.id }] });
    subject.advance(60_000);
    assert.equal(subject.machine.member(suspect.id)?.state, 'suspect');
    for (let times = 0; times < 40; times++) {
      subject.receivesAck();
      subject.advance(pingIntervalMs);
    }
    assert.equal(subject.machine.member(suspect.id)?.state, 'dead');
  });

  it('believes the deaths that other members declared', () => {
    const subject = clientWithManagers();
    const dead = { ...claim('dead', managers[2] as Identity), by: managers[1]!.id };
    subject.receivesAck({ claims: [dead] });
    assert.equal(subject.machine.member(managers[2]!.id)?.state, 'dead');
  });

  it('sends its embedded state until the manager has acknowledged it, within the size of a message', () => {
    const subject = clientWithManagers();
    subject.feed({ kind: 'embed', role: 'worker', state: new Uint8Array(500) });
    const states = () =>
      subject.take('request').flatMap(({ message }) => {
        if (message.kind !== 'pushPing') return [];
        assert.ok(encodeMessage(message).length <= 1_300);
        return [message.state.length];
      });
    subject.receivesAck();
    assert.deepEqual(states(), [1]);
    subject.advance(pingIntervalMs);
    subject.receivesAck({ stateVersion: 1 });
    subject.advance(pingIntervalMs);
    assert.deepEqual(states(), [0]);
  });

  it('announces its leave to its manager and its neighbours, and stops its pings', () => {
    const subject = clientWithManagers();
    subject.receivesAck();
    subject.take('request');
    subject.feed({ kind: 'leave', reason: 'maintenance' });
    const sent = subject.take('request').map(({ message }) => message.kind);
    assert.deepEqual(new Set(sent), new Set(['leave']));
    assert.equal(sent.length, 3);
    subject.advance(60_000);
    assert.deepEqual(subject.pings(), []);
  });

  it('reports that it has joined when a manager confirms it as a member', () => {
    const subject = new PushMemberHarness(worker, 'push');
    assert.equal(subject.take('joined').length, 1, 'without seeds it waits for no reply');
    const seeded = new Membership(worker, 0, { ...lanMembershipOptions, membership: 'push' }, new Random('seeded'));
    const [seed] = managers as [Identity];
    const steps = (input: MembershipInput) => seeded.step(0, input).map(({ kind }) => kind);
    assert.ok(!steps({ kind: 'start', seeds: [seed] }).includes('joined'));
    const message = { kind: 'syncViewReply', viewHash: 0, claims: [claim('alive', seed)], id: seed.id } as const;
    const view = { kind: 'response', purpose: { kind: 'join', seed, attempt: 0 }, message } as const;
    assert.ok(!steps(view).includes('joined'));
    const ack = { kind: 'pushAck', seq: 1, incarnation: 0, claims: [], verdict: 'member', known: 0 } as const;
    const purpose = { kind: 'push', id: seed.id, seq: 1 } as const;
    const reply = { ...ack, viewHash: 0, stateVersion: undefined };
    assert.ok(steps({ kind: 'response', purpose, message: reply }).includes('joined'));
  });
});
