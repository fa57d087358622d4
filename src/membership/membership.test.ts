/** The machine, asked directly: what it says and believes when one thing happens to it. */
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

/** Node 1, which remembers what it was told to do. */
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

  hears(from: Identity, ...claims: Claim[]): void {
    this.feed({ kind: 'datagram', from, message: { kind: 'gossip', incarnation: 0, claims } });
  }

  /** Lets the timers of one kind run that are due within so long. */
  pass(durationMs: number, kind: MembershipTimer['kind']): void {
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

describe('lives', () => {
  it('a later life ends the earlier one, and both are told', () => {
    const subject = new Subject();
    subject.hears(identity(2));
    subject.hears(identity(3), claim('join', identity(2, { generation: 2 })));
    assert.deepEqual(subject.events(), [
      'member.alive n2 1/0',
      'member.alive n3 1/0',
      'member.dead n2 1/0',
      'member.alive n2 2/0',
    ]);
  });

  it('a death is proven by a closed port, also if others found it, but not by the silence of one without datagrams', () => {
    const subject = new Subject();
    const silent = { ...identity(4), watchedBy: identity(3).id };
    subject.hears(identity(3), claim('join', identity(2)), { ...claim('join', silent), entry: silent });
    subject.take('event');
    for (const dead of [identity(2), silent])
      subject.hears(identity(3), { ...claim('dead', dead, 0, identity(3)), refused: true });
    assert.deepEqual(
      subject.take('event').map(({ event }) => `${event.type} ${event.name} ${event.portIsClosed}`),
      ['member.dead n2 true', 'member.dead n4 false'],
    );
  });

  it('an obituary introduces nobody', () => {
    const subject = new Subject();
    subject.hears(identity(2), claim('dead', identity(3)), claim('left', identity(4)));
    assert.deepEqual(subject.events(), ['member.alive n2 1/0']);
  });

  it('one that speaks after it was forgotten is told what it was, and may come back', () => {
    const subject = new Subject({ reapAfterMs: 50_000 });
    subject.feed({ kind: 'start', seeds: [] });
    const zombie = identity(2);
    subject.hears(zombie);
    subject.hears(identity(3), { ...claim('dead', zombie, 0, identity(3)), refused: true });
    subject.pass(100_000, 'reap');
    assert.equal(subject.state(zombie), undefined, 'it is forgotten');
    subject.take('datagram');
    subject.hears(zombie);
    assert.equal(subject.state(zombie), undefined, 'its old life is over');
    const told = subject
      .take('datagram')
      .map(({ to, message }) => [to.id, 'claims' in message && message.claims[0]?.kind]);
    assert.deepEqual(told, [[zombie.id, 'dead']]);
    subject.feed({ kind: 'datagram', from: zombie, message: { kind: 'gossip', incarnation: 1, claims: [] } });
    assert.equal(subject.state(zombie), 'alive');
  });
});

describe('names', () => {
  it('two of one name stay members; it is told once, and the lower id keeps the name', () => {
    const subject = new Subject();
    subject.hears(identity(2, { name: 'same' }));
    subject.hears(identity(3, { name: 'same' }));
    subject.hears(identity(3, { name: 'same' }));
    const conflicts = subject.take('event').filter(({ event }) => event.type === 'member.conflict');
    assert.equal(conflicts.length, 1);
    assert.match(conflicts[0]?.event.why ?? '', new RegExp(`${identity(2).id} keeps the name`));
    assert.deepEqual([subject.state(identity(2)), subject.state(identity(3))], ['alive', 'alive']);
  });
});

describe('accusations of ourselves', () => {
  it('are refuted by a higher incarnation, which is remembered and said to the face of the accuser', () => {
    const subject = new Subject();
    subject.hears(identity(2));
    subject.take('datagram');
    subject.hears(identity(2), claim('suspect', identity(1), 4, identity(2)));
    assert.equal(subject.machine.self.incarnation, 5);
    assert.equal(subject.take('remember').length, 1);
    const [said] = subject.take('datagram');
    assert.equal(said?.to.id, identity(2).id);
    subject.hears(identity(2), claim('suspect', identity(1), 4, identity(2)));
    assert.equal(subject.machine.self.incarnation, 5, 'an old accusation only needs to be answered again');
    assert.equal(subject.take('datagram').length, 1);
  });

  it('that leap too far are ignored', () => {
    const subject = new Subject();
    subject.hears(identity(2), claim('dead', identity(1), 2_000_000_000, identity(2)));
    assert.equal(subject.machine.self.incarnation, 0);
  });
});

describe('connections', () => {
  const evidence: [string, ConnectionChange, boolean][] = [
    ['a closed port', { kind: 'refused', address: identity(2), reason: 'refused' }, true],
    ['a host that does not answer', { kind: 'refused', address: identity(2), reason: 'ETIMEDOUT' }, false],
    ['a broken connection', { kind: 'disconnected', peer: identity(2), reason: 'reset', graceful: false }, true],
    [
      'a connection that was let go',
      { kind: 'disconnected', peer: identity(2), reason: 'idle', graceful: true },
      false,
    ],
    [
      'one of an earlier life',
      { kind: 'disconnected', peer: identity(2, { generation: 0 }), reason: '', graceful: false },
      false,
    ],
    ['one of a stranger', { kind: 'disconnected', peer: identity(9), reason: 'reset', graceful: false }, false],
  ];
  for (const [what, change, starts] of evidence) {
    it(`${what} ${starts ? 'starts a probe, and is no verdict' : 'says nothing'}`, () => {
      const subject = new Subject();
      subject.hears(identity(2));
      subject.take('datagram');
      subject.feed({ kind: 'connection', change });
      assert.equal(subject.take('datagram').filter(({ message }) => message.kind === 'ping').length, starts ? 1 : 0);
      assert.equal(subject.state(identity(2)), 'alive');
    });
  }

  it('of one that left says nothing', () => {
    const subject = new Subject();
    subject.hears(identity(2));
    subject.feed({
      kind: 'asked',
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

describe('leaving', () => {
  it('tells the neighbours over connections and others by gossip, and is over when they have answered', () => {
    const subject = new Subject();
    subject.hears(identity(2));
    subject.hears(identity(3));
    subject.effects = [];
    subject.feed({ kind: 'leave', reason: 'maintenance' });
    const asked = subject.take('request');
    assert.deepEqual(new Set(asked.map(({ message }) => message.kind)), new Set(['leave']));
    assert.equal(asked.length, 2);
    assert.ok(subject.take('datagram').length >= 2);
    const answer = { kind: 'streamPong', generation: 1, incarnation: 0 } as const;
    subject.feed({ kind: 'answered', purpose: asked[0]!.purpose, message: answer });
    assert.deepEqual(subject.take('departed'), []);
    subject.feed({ kind: 'unanswered', purpose: asked[1]!.purpose });
    assert.equal(subject.take('departed').length, 1);
    subject.pass(10_000, 'leaving');
    assert.deepEqual(subject.take('departed'), []);
  });

  it('does not wait for ever, and not at all when nobody is there', () => {
    const alone = new Subject();
    alone.feed({ kind: 'leave', reason: '' });
    assert.equal(alone.take('departed').length, 1);
    const subject = new Subject();
    subject.hears(identity(2));
    subject.feed({ kind: 'leave', reason: '' });
    subject.pass(lanMembershipOptions.leaveTimeoutMs, 'leaving');
    assert.equal(subject.take('departed').length, 1);
  });
});

describe('restraint', () => {
  const others = Array.from({ length: 9 }, (_, i) => identity(i + 2));

  /** Accused by six in turn, the subject refutes five times. */
  function tired(): Subject {
    const subject = new Subject();
    for (const other of others) subject.hears(other);
    for (let incarnation = 0; incarnation < 6; incarnation++) {
      const by = others[incarnation]!;
      subject.hears(by, claim('suspect', identity(1), incarnation, by));
    }
    return subject;
  }

  function saidOfItself(subject: Subject): string[] {
    const claims = subject.take('datagram').flatMap(({ message }) => ('claims' in message ? message.claims : []));
    return claims.filter(({ id }) => id === identity(1).id).map(({ kind, incarnation }) => `${kind} ${incarnation}`);
  }

  it('says of itself that it is dead, to whoever asks, and refutes nothing any more', () => {
    const subject = tired();
    assert.ok(subject.events().includes('self.withdrew n1 1/5'));
    subject.take('datagram');
    const ping = { kind: 'ping', incarnation: 0, seq: 1, claims: [], stateVersion: undefined } as const;
    subject.feed({ kind: 'datagram', from: others[0]!, message: ping });
    assert.deepEqual(saidOfItself(subject), ['dead 5']);
    subject.hears(others[1]!, claim('dead', identity(1), 5, others[1]));
    assert.deepEqual(saidOfItself(subject), []);
    assert.equal(subject.machine.localView().state, 'dead');
  });

  it('comes back by itself', () => {
    const subject = tired();
    subject.events();
    subject.pass(89_000, 'return');
    assert.deepEqual(subject.events(), []);
    subject.pass(2_000, 'return');
    assert.deepEqual(subject.events(), ['self.returned n1 1/6']);
    subject.pass(1_000, 'gossip');
    assert.ok(saidOfItself(subject).includes('alive 6'));
    assert.equal(subject.machine.localView().state, 'alive');
  });

  it('is believed at once, other than what somebody else says', () => {
    const subject = new Subject();
    for (const other of others) subject.hears(other);
    subject.hears(others[0]!, claim('dead', others[1]!, 0, others[0]), claim('dead', others[2]!, 0, others[2]));
    assert.deepEqual([subject.state(others[1]!), subject.state(others[2]!)], ['suspect', 'dead']);
  });
});

describe('doubts', () => {
  it('whoever hears of a death in a view looks for itself', () => {
    const subject = new Subject();
    for (let n = 2; n < 7; n++) subject.hears(identity(n));
    subject.take('datagram');
    const claims = [claim('dead', identity(2), 0, identity(3))];
    const message = { kind: 'syncView', viewHash: 1, reply: 'nothing', claims } as const;
    subject.feed({ kind: 'asked', from: identity(3), call: 1, message });
    assert.equal(subject.state(identity(2)), 'suspect');
    const pinged = subject.take('datagram').filter(({ message: { kind } }) => kind === 'ping');
    assert.deepEqual(
      pinged.map(({ to }) => to.id),
      [identity(2).id],
    );
  });

  it('a helper that has given a member up still tells who asks that its port is closed', () => {
    const subject = new Subject();
    for (let n = 2; n < 5; n++) subject.hears(identity(n));
    subject.hears(identity(3), { ...claim('dead', identity(2), 0, identity(3)), refused: true });
    const target = identity(2).id;
    const message = { kind: 'pingRequest', incarnation: 0, seq: 7, claims: [], target, timeoutMs: 100 } as const;
    subject.feed({ kind: 'datagram', from: identity(4), message });
    const address = { host: '10.0.0.1', port: 2 };
    subject.feed({ kind: 'connection', change: { kind: 'refused', address, reason: portClosedReason } });
    const nacks = subject.take('datagram').flatMap(({ message: said }) => (said.kind === 'nack' ? [said] : []));
    assert.deepEqual(
      nacks.map(({ seq, refused }) => [seq, refused]),
      [[7, true]],
    );
  });
});

describe('gossip', () => {
  it('tells what nobody was told at once, then in the rhythm of its ticks', () => {
    const subject = new Subject();
    for (let n = 2; n < 12; n++) subject.hears(identity(n));
    subject.pass(5_000, 'gossip');
    subject.take('datagram');
    subject.hears(identity(2), claim('suspect', identity(3), 0, identity(2)));
    const tellings = (): number => subject.take('datagram').filter(({ message }) => message.kind === 'gossip').length;
    subject.pass(1, 'gossip');
    assert.equal(tellings(), lanMembershipOptions.gossipFanoutCount);
    subject.pass(lanMembershipOptions.gossipIntervalMs / 2, 'gossip');
    assert.equal(tellings(), 0);
    subject.pass(lanMembershipOptions.gossipIntervalMs / 2, 'gossip');
    assert.equal(tellings(), lanMembershipOptions.gossipFanoutCount);
  });
});

describe('the main loop', () => {
  it('is stuck when it has not beaten for long, and well again with the next beat', () => {
    const subject = new Subject({ stuckAfterMs: 2_000 });
    subject.feed({ kind: 'start', seeds: [], watchMainLoop: true });
    for (let beats = 0; beats < 10; beats++) {
      subject.pass(500, 'mainLoop');
      subject.feed({ kind: 'beat' });
    }
    assert.deepEqual(subject.events(), []);
    subject.pass(2_600, 'mainLoop');
    assert.deepEqual(subject.events(), ['member.stuck n1 1/0']);
    assert.ok(subject.machine.self.stuck && subject.machine.health > 0);
    subject.feed({ kind: 'beat' });
    assert.deepEqual(subject.events(), ['member.unstuck n1 1/0']);
  });
});

describe('joining', () => {
  it('is over when a seed has answered, or at once without seeds but ourselves', () => {
    const first = new Subject();
    first.feed({ kind: 'start', seeds: [identity(1)] });
    assert.equal(first.take('joined').length, 1);
    const second = new Subject();
    second.feed({ kind: 'start', seeds: [identity(2)], known: [identity(2), identity(3)] });
    const asked = second.take('request');
    assert.deepEqual(
      asked.map(({ to, purpose }) => `${purpose.kind} ${to.port}`),
      ['join 2', 'greet 3'],
    );
    assert.deepEqual(second.take('joined'), []);
    const message = {
      kind: 'syncViewReply',
      viewHash: 1,
      claims: [claim('alive', identity(2))],
      id: identity(2).id,
    } as const;
    second.feed({ kind: 'answered', purpose: asked[0]!.purpose, message });
    assert.equal(second.take('joined').length, 1);
    assert.equal(second.state(identity(2)), 'alive');
  });

  it('never suspects a seed that has not answered', () => {
    const subject = new Subject();
    subject.feed({ kind: 'start', seeds: [identity(2)] });
    for (const { purpose } of subject.take('request')) subject.feed({ kind: 'unanswered', purpose });
    assert.deepEqual([...subject.machine.members], []);
    subject.pass(60_000, 'join');
    assert.ok(subject.take('request').length > 0, 'it is asked again');
  });
});
