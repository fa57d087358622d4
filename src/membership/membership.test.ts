/** The membership machine, one input at a time: what it sends and believes after it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeIdFrom } from '../base/ids.ts';
import { type ConnectionChange, type Identity, portClosedReason } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import type { Claim } from './state/claim.ts';
import type { MembershipEffect, MembershipTimer } from './state/context.ts';
import { Membership, type MembershipInput } from './membership.ts';
import { lanMembershipOptions, type MembershipOptions } from './state/options.ts';

type Effect = ReturnType<Membership['step']>[number];

function identity(n: number, more: Partial<Identity> = {}): Identity {
  const id = nodeIdFrom(new Uint8Array(16).fill(n));
  return { id, name: `n${n}`, host: '10.0.0.1', port: n, generation: 1, roles: ['worker'], dc: 'dc1', ...more };
}

function claim(kind: Claim['kind'], of: Identity, incarnation = 0, by: Identity = of): Claim {
  const { id, generation } = of;
  const entry = kind === 'join' || kind === 'alive' ? of : undefined;
  return { kind, id, generation, incarnation, by: by.id, refused: false, entry };
}

/** Node 1; collects its effects until the test takes them. */
class Subject {
  readonly machine: Membership;
  effects: Effect[] = [];
  nowMs = 0;

  constructor(options: Partial<MembershipOptions> = {}) {
    this.machine = new Membership(identity(1), 0, { ...lanMembershipOptions, ...options }, new Random('subject'));
  }

  feed(input: MembershipInput): void {
    this.effects.push(...this.machine.step(this.nowMs, input));
  }

  receives(from: Identity, ...claims: Claim[]): void {
    this.feed({ kind: 'datagram', from, message: { kind: 'gossip', incarnation: 0, claims } });
  }

  /** Lets time pass and fires the due timers of one kind. */
  advance(durationMs: number, kind: MembershipTimer['kind']): void {
    const untilMs = this.nowMs + durationMs;
    for (;;) {
      const due = this.effects.findIndex(
        (one) => one.kind === 'schedule' && one.timer.kind === kind && one.atMs <= untilMs,
      );
      const [effect] = due < 0 ? [] : this.effects.splice(due, 1);
      if (effect?.kind !== 'schedule') break;
      this.nowMs = Math.max(this.nowMs, effect.atMs);
      this.effects.push(...this.machine.step(this.nowMs, { kind: 'expired', timer: effect.timer } as never));
    }
    this.nowMs = untilMs;
  }

  take<K extends MembershipEffect['kind']>(kind: K): (MembershipEffect & { kind: K })[] {
    const found = this.effects.filter((effect) => effect.kind === kind);
    this.effects = this.effects.filter((effect) => effect.kind !== kind);
    return found as (MembershipEffect & { kind: K })[];
  }

  events(): string[] {
    return this.take('event').map(
      ({ event }) => `${event.type} ${event.name} ${event.generation}/${event.incarnation}`,
    );
  }

  state(of: Identity): string | undefined {
    return this.machine.member(of.id)?.state;
  }
}

describe('a generation', () => {
  it('ends when a higher one appears, with an event for each', () => {
    const subject = new Subject();
    subject.receives(identity(2));
    subject.receives(identity(3), claim('join', identity(2, { generation: 2 })));
    assert.deepEqual(subject.events(), [
      'member.alive n2 1/0',
      'member.alive n3 1/0',
      'member.dead n2 1/0',
      'member.alive n2 2/0',
    ]);
  });

  it('is proven dead by a port that others found closed, but not by the silence of a member without datagrams', () => {
    const subject = new Subject();
    const silent = { ...identity(4), watchedBy: identity(3).id };
    subject.receives(identity(3), claim('join', identity(2)), { ...claim('join', silent), entry: silent });
    subject.take('event');
    for (const dead of [identity(2), silent])
      subject.receives(identity(3), { ...claim('dead', dead, 0, identity(3)), refused: true });
    assert.deepEqual(
      subject.take('event').map(({ event }) => `${event.type} ${event.name} ${event.portIsClosed}`),
      ['member.dead n2 true', 'member.dead n4 false'],
    );
  });

  it('of an unknown member is not added by a claim that it is dead or left', () => {
    const subject = new Subject();
    subject.receives(identity(2), claim('dead', identity(3)), claim('left', identity(4)));
    assert.deepEqual(subject.events(), ['member.alive n2 1/0']);
  });

  it('that sends messages after its removal gets the claim of its death, and may return', () => {
    const subject = new Subject({ reapAfterMs: 50_000 });
    subject.feed({ kind: 'start', seeds: [] });
    const zombie = identity(2);
    subject.receives(zombie);
    subject.receives(identity(3), { ...claim('dead', zombie, 0, identity(3)), refused: true });
    subject.advance(100_000, 'reap');
    assert.equal(subject.state(zombie), undefined, 'it is removed');
    subject.take('datagram');
    subject.receives(zombie);
    assert.equal(subject.state(zombie), undefined, 'its tombstone remains');
    const sent = subject
      .take('datagram')
      .map(({ to, message }) => [to.id, 'claims' in message && message.claims[0]?.kind]);
    assert.deepEqual(sent, [[zombie.id, 'dead']]);
    subject.feed({ kind: 'datagram', from: zombie, message: { kind: 'gossip', incarnation: 1, claims: [] } });
    assert.equal(subject.state(zombie), 'alive');
  });
});

describe('a name', () => {
  it('that two members have is reported once and belongs to the lower id; both stay members', () => {
    const subject = new Subject();
    subject.receives(identity(2, { name: 'same' }));
    subject.receives(identity(3, { name: 'same' }));
    subject.receives(identity(3, { name: 'same' }));
    const conflicts = subject.take('event').filter(({ event }) => event.type === 'member.conflict');
    assert.equal(conflicts.length, 1);
    assert.match(conflicts[0]?.event.why ?? '', new RegExp(`${identity(2).id} keeps the name`));
    assert.deepEqual([subject.state(identity(2)), subject.state(identity(3))], ['alive', 'alive']);
  });
});

describe('accusations of this node', () => {
  it('are refuted by a higher incarnation, which is saved and sent to the accuser', () => {
    const subject = new Subject();
    subject.receives(identity(2));
    subject.take('datagram');
    subject.receives(identity(2), claim('suspect', identity(1), 4, identity(2)));
    assert.equal(subject.machine.self.incarnation, 5);
    assert.equal(subject.take('saveHints').length, 1);
    const [sent] = subject.take('datagram');
    assert.equal(sent?.to.id, identity(2).id);
    subject.receives(identity(2), claim('suspect', identity(1), 4, identity(2)));
    assert.equal(subject.machine.self.incarnation, 5, 'an old accusation only gets the refutation again');
    assert.equal(subject.take('datagram').length, 1);
  });

  it('are ignored if they raise the incarnation too far', () => {
    const subject = new Subject();
    subject.receives(identity(2), claim('dead', identity(1), 2_000_000_000, identity(2)));
    assert.equal(subject.machine.self.incarnation, 0);
  });
});

describe('connection evidence:', () => {
  const evidence: [string, ConnectionChange, boolean][] = [
    ['a closed port', { kind: 'refused', address: identity(2), reason: 'refused' }, true],
    ['a host that does not answer', { kind: 'refused', address: identity(2), reason: 'ETIMEDOUT' }, false],
    ['a broken connection', { kind: 'disconnected', peer: identity(2), reason: 'reset', graceful: false }, true],
    [
      'a connection that was closed gracefully',
      { kind: 'disconnected', peer: identity(2), reason: 'idle', graceful: true },
      false,
    ],
    [
      'a broken connection of an earlier generation',
      { kind: 'disconnected', peer: identity(2, { generation: 0 }), reason: '', graceful: false },
      false,
    ],
    [
      'a broken connection of an unknown node',
      { kind: 'disconnected', peer: identity(9), reason: 'reset', graceful: false },
      false,
    ],
  ];
  for (const [what, change, starts] of evidence) {
    it(`${what} ${starts ? 'starts a probe, but no suspicion' : 'starts no probe'}`, () => {
      const subject = new Subject();
      subject.receives(identity(2));
      subject.take('datagram');
      subject.feed({ kind: 'connection', change });
      assert.equal(subject.take('datagram').filter(({ message }) => message.kind === 'ping').length, starts ? 1 : 0);
      assert.equal(subject.state(identity(2)), 'alive');
    });
  }

  it('a broken connection of a member that left starts no probe', () => {
    const subject = new Subject();
    subject.receives(identity(2));
    subject.feed({
      kind: 'request',
      from: identity(2),
      call: 7,
      message: { kind: 'leave', incarnation: 0, reason: '' },
    });
    assert.deepEqual(
      subject.take('reply').map(({ call, message }) => [call, message.kind]),
      [[7, 'streamPong']],
    );
    subject.take('datagram');
    subject.feed({
      kind: 'connection',
      change: { kind: 'disconnected', peer: identity(2), reason: '', graceful: false },
    });
    assert.deepEqual(subject.take('datagram'), []);
    assert.deepEqual(subject.events(), ['member.alive n2 1/0', 'member.left n2 1/0']);
  });
});

describe('a graceful leave', () => {
  it('is announced to neighbours by stream and to others by gossip, and ends when the neighbours have replied', () => {
    const subject = new Subject();
    subject.receives(identity(2));
    subject.receives(identity(3));
    subject.effects = [];
    subject.feed({ kind: 'leave', reason: 'maintenance' });
    const requests = subject.take('request');
    assert.deepEqual(new Set(requests.map(({ message }) => message.kind)), new Set(['leave']));
    assert.equal(requests.length, 2);
    assert.ok(subject.take('datagram').length >= 2);
    const reply = { kind: 'streamPong', generation: 1, incarnation: 0 } as const;
    subject.feed({ kind: 'response', purpose: requests[0]!.purpose, message: reply });
    assert.deepEqual(subject.take('left'), []);
    subject.feed({ kind: 'requestFailed', purpose: requests[1]!.purpose });
    assert.equal(subject.take('left').length, 1);
    subject.advance(10_000, 'leaving');
    assert.deepEqual(subject.take('left'), []);
  });

  it('ends at its timeout, and at once without other members', () => {
    const alone = new Subject();
    alone.feed({ kind: 'leave', reason: '' });
    assert.equal(alone.take('left').length, 1);
    const subject = new Subject();
    subject.receives(identity(2));
    subject.feed({ kind: 'leave', reason: '' });
    subject.advance(lanMembershipOptions.leaveTimeoutMs, 'leaving');
    assert.equal(subject.take('left').length, 1);
  });
});

describe('a flapping node', () => {
  const others = Array.from({ length: 9 }, (_, i) => identity(i + 2));

  /** A node that six members have accused in turn, and that has refuted five times. */
  function withdrawn(): Subject {
    const subject = new Subject();
    for (const other of others) subject.receives(other);
    for (let incarnation = 0; incarnation < 6; incarnation++) {
      const by = others[incarnation]!;
      subject.receives(by, claim('suspect', identity(1), incarnation, by));
    }
    return subject;
  }

  function claimsAboutSelf(subject: Subject): string[] {
    const claims = subject.take('datagram').flatMap(({ message }) => ('claims' in message ? message.claims : []));
    return claims.filter(({ id }) => id === identity(1).id).map(({ kind, incarnation }) => `${kind} ${incarnation}`);
  }

  it('withdraws: it replies to pings that it is dead, and refutes no claim', () => {
    const subject = withdrawn();
    assert.ok(subject.events().includes('self.withdrew n1 1/5'));
    subject.take('datagram');
    const ping = { kind: 'ping', incarnation: 0, seq: 1, claims: [], stateVersion: undefined } as const;
    subject.feed({ kind: 'datagram', from: others[0]!, message: ping });
    assert.deepEqual(claimsAboutSelf(subject), ['dead 5']);
    subject.receives(others[1]!, claim('dead', identity(1), 5, others[1]));
    assert.deepEqual(claimsAboutSelf(subject), []);
    assert.equal(subject.machine.localView().state, 'dead');
  });

  it('returns by itself when its withdrawal is over', () => {
    const subject = withdrawn();
    subject.events();
    subject.advance(89_000, 'endWithdrawal');
    assert.deepEqual(subject.events(), []);
    subject.advance(2_000, 'endWithdrawal');
    assert.deepEqual(subject.events(), ['self.returned n1 1/6']);
    subject.advance(1_000, 'gossip');
    assert.ok(claimsAboutSelf(subject).includes('alive 6'));
    assert.equal(subject.machine.localView().state, 'alive');
  });

  it('is believed at once when it claims its own death, unlike an accuser', () => {
    const subject = new Subject();
    for (const other of others) subject.receives(other);
    subject.receives(others[0]!, claim('dead', others[1]!, 0, others[0]), claim('dead', others[2]!, 0, others[2]));
    assert.deepEqual([subject.state(others[1]!), subject.state(others[2]!)], ['suspect', 'dead']);
  });
});

describe('a member', () => {
  it('probes a member itself that a view reports dead', () => {
    const subject = new Subject();
    for (let n = 2; n < 7; n++) subject.receives(identity(n));
    subject.take('datagram');
    const claims = [claim('dead', identity(2), 0, identity(3))];
    const message = { kind: 'syncView', viewHash: 1, reply: 'nothing', claims } as const;
    subject.feed({ kind: 'request', from: identity(3), call: 1, message });
    assert.equal(subject.state(identity(2)), 'suspect');
    const pinged = subject.take('datagram').filter(({ message: { kind } }) => kind === 'ping');
    assert.deepEqual(
      pinged.map(({ to }) => to.id),
      [identity(2).id],
    );
  });

  it('reports the closed port of a dead member when another member requests an indirect probe', () => {
    const subject = new Subject();
    for (let n = 2; n < 5; n++) subject.receives(identity(n));
    subject.receives(identity(3), { ...claim('dead', identity(2), 0, identity(3)), refused: true });
    const target = identity(2).id;
    const message = { kind: 'pingRequest', incarnation: 0, seq: 7, claims: [], target, timeoutMs: 100 } as const;
    subject.feed({ kind: 'datagram', from: identity(4), message });
    const address = { host: '10.0.0.1', port: 2 };
    subject.feed({ kind: 'connection', change: { kind: 'refused', address, reason: portClosedReason } });
    const nacks = subject.take('datagram').flatMap(({ message: sent }) => (sent.kind === 'nack' ? [sent] : []));
    assert.deepEqual(
      nacks.map(({ seq, refused }) => [seq, refused]),
      [[7, true]],
    );
  });
});

describe('gossip', () => {
  it('sends a new claim at once, then again at each gossip interval', () => {
    const subject = new Subject();
    for (let n = 2; n < 12; n++) subject.receives(identity(n));
    subject.advance(5_000, 'gossip');
    subject.take('datagram');
    subject.receives(identity(2), claim('suspect', identity(3), 0, identity(2)));
    const sentCount = (): number => subject.take('datagram').filter(({ message }) => message.kind === 'gossip').length;
    subject.advance(1, 'gossip');
    assert.equal(sentCount(), lanMembershipOptions.gossipFanoutCount);
    subject.advance(lanMembershipOptions.gossipIntervalMs / 2, 'gossip');
    assert.equal(sentCount(), 0);
    subject.advance(lanMembershipOptions.gossipIntervalMs / 2, 'gossip');
    assert.equal(sentCount(), lanMembershipOptions.gossipFanoutCount);
  });
});

describe('the main loop', () => {
  it('is stuck without beats for long, and recovers with the next beat', () => {
    const subject = new Subject({ stuckAfterMs: 2_000 });
    subject.feed({ kind: 'start', seeds: [], watchMainLoop: true });
    for (let beats = 0; beats < 10; beats++) {
      subject.advance(500, 'mainLoop');
      subject.feed({ kind: 'beat' });
    }
    assert.deepEqual(subject.events(), []);
    subject.advance(2_600, 'mainLoop');
    assert.deepEqual(subject.events(), ['member.stuck n1 1/0']);
    assert.ok(subject.machine.self.stuck && subject.machine.health > 0);
    subject.feed({ kind: 'beat' });
    assert.deepEqual(subject.events(), ['member.unstuck n1 1/0']);
  });
});

describe('a join', () => {
  it('ends when a seed has replied, or at once if the only seed is this node', () => {
    const first = new Subject();
    first.feed({ kind: 'start', seeds: [identity(1)] });
    assert.equal(first.take('joined').length, 1);
    const second = new Subject();
    second.feed({ kind: 'start', seeds: [identity(2)], known: [identity(2), identity(3)] });
    const requests = second.take('request');
    assert.deepEqual(
      requests.map(({ to, purpose }) => `${purpose.kind} ${to.port}`),
      ['join 2', 'greet 3'],
    );
    assert.deepEqual(second.take('joined'), []);
    const message = {
      kind: 'syncViewReply',
      viewHash: 1,
      claims: [claim('alive', identity(2))],
      id: identity(2).id,
    } as const;
    second.feed({ kind: 'response', purpose: requests[0]!.purpose, message });
    assert.equal(second.take('joined').length, 1);
    assert.equal(second.state(identity(2)), 'alive');
  });

  it('never suspects a seed that has not replied, and retries it', () => {
    const subject = new Subject();
    subject.feed({ kind: 'start', seeds: [identity(2)] });
    for (const { purpose } of subject.take('request')) subject.feed({ kind: 'requestFailed', purpose });
    assert.deepEqual([...subject.machine.members], []);
    subject.advance(60_000, 'join');
    assert.ok(subject.take('request').length > 0, 'the request is retried');
  });
});
