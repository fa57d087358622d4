import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import { GroupFormation } from './group-formation.ts';

type Output = ReturnType<GroupFormation['step']>[number];

const idOf = (n: number): NodeId => String(n).repeat(32).slice(0, 32) as NodeId;
const at = (port: number): Address => ({ host: '127.0.0.1', port });

function kinds(effects: readonly Output[]): string[] {
  return effects.map((effect) => (effect.kind === 'waiting' ? `waiting: ${effect.why}` : effect.kind));
}

function started(self: number, seeds: readonly Address[], bootstrap = false) {
  const machine = new GroupFormation(idOf(self), 500);
  const first = machine.step(0, { kind: 'start', seeds, bootstrap });
  return { machine, first };
}

const fresh = (id: number) => ({ id: idOf(id), eligible: true, hasGroup: false, managers: [] });

describe('group formation', () => {
  it('creates the group at once if there is no other node or the operator demands it', () => {
    assert.deepEqual(kinds(started(2, [at(1)], true).first), ['bootstrap']);
    const { machine, first } = started(2, []);
    assert.deepEqual(kinds(first), ['listManagers']);
    assert.deepEqual(kinds(machine.step(0, { kind: 'managers', managers: [] })), ['bootstrap']);
  });

  it('waits for a seed that has never replied', () => {
    const { machine } = started(1, [at(7)]);
    assert.deepEqual(kinds(machine.step(0, { kind: 'managers', managers: [] })), ['request']);
    const silence = machine.step(10, { kind: 'requestFailed', round: 1, from: at(7) });
    assert.deepEqual(kinds(silence), ['waiting: seed', 'schedule']);
    assert.deepEqual(kinds(machine.step(510, { kind: 'expired', timer: 'round' })), ['listManagers']);
    machine.step(510, { kind: 'managers', managers: [] });
    assert.deepEqual(kinds(machine.step(520, { kind: 'replied', round: 2, from: at(7), reply: fresh(3) })), [
      'schedule',
    ]);
    machine.step(1_020, { kind: 'managers', managers: [] });
    assert.deepEqual(kinds(machine.step(1_030, { kind: 'replied', round: 3, from: at(7), reply: fresh(3) })), [
      'bootstrap',
    ]);
  });

  it('waits for a dead manager that may have created the group alone', () => {
    const { machine } = started(2, [at(7)]);
    const known = { ...at(4), id: idOf(3) };
    machine.step(0, { kind: 'managers', managers: [known] });
    machine.step(10, { kind: 'replied', round: 1, from: at(7), reply: { ...fresh(9), eligible: false } });
    machine.step(10, { kind: 'replied', round: 1, from: at(4), reply: fresh(3) });
    // Membership has removed it; this machine still knows it.
    assert.deepEqual(kinds(machine.step(510, { kind: 'managers', managers: [] })), ['request', 'request']);
    machine.step(520, { kind: 'replied', round: 2, from: at(7), reply: { ...fresh(9), eligible: false } });
    const silence = machine.step(530, { kind: 'requestFailed', round: 2, from: at(4) });
    assert.deepEqual(kinds(silence), ['waiting: silent', 'schedule']);
    machine.step(1_030, { kind: 'managers', managers: [] });
    machine.step(1_040, { kind: 'replied', round: 3, from: at(7), reply: { ...fresh(9), eligible: false } });
    const returned = machine.step(1_050, {
      kind: 'replied',
      round: 3,
      from: at(4),
      reply: { ...fresh(3), hasGroup: true },
    });
    assert.deepEqual(kinds(returned), ['waiting: found', 'schedule']);
  });

  it('sends a request to a manager that a reply names, and does not wait for it when another node has its address', () => {
    const { machine } = started(2, [at(7)]);
    const worker = { id: idOf(9), eligible: false, hasGroup: false, managers: [{ ...at(4), id: idOf(3) }] };
    for (const round of [1, 2]) {
      machine.step(0, { kind: 'managers', managers: [] });
      machine.step(10, { kind: 'replied', round, from: at(7), reply: worker });
      const output = machine.step(20, { kind: 'replied', round, from: at(4), reply: fresh(8) });
      assert.deepEqual(kinds(output), [round === 1 ? 'schedule' : 'bootstrap']);
    }
  });

  it('waits for a group that exists, and for a manager with a lower id', () => {
    const { machine } = started(2, [at(7)]);
    machine.step(0, { kind: 'managers', managers: [] });
    const reply = { ...fresh(3), hasGroup: true };
    const found = machine.step(10, { kind: 'replied', round: 1, from: at(7), reply });
    assert.deepEqual(kinds(found), ['waiting: found', 'schedule']);
    const { machine: second } = started(2, [at(7)]);
    second.step(0, { kind: 'managers', managers: [] });
    const lower = second.step(20, { kind: 'replied', round: 1, from: at(7), reply: fresh(1) });
    assert.deepEqual(kinds(lower), ['waiting: lower', 'schedule']);
    second.step(20, { kind: 'joined' });
    assert.deepEqual(second.step(520, { kind: 'expired', timer: 'round' }), []);
  });

  it('never creates another group after it found one, although all its members are gone', () => {
    const { machine } = started(1, [at(7)]);
    machine.step(0, { kind: 'managers', managers: [] });
    machine.step(10, { kind: 'replied', round: 1, from: at(7), reply: { ...fresh(3), hasGroup: true } });
    machine.step(510, { kind: 'expired', timer: 'round' });
    machine.step(510, { kind: 'managers', managers: [] });
    assert.deepEqual(kinds(machine.step(510, { kind: 'replied', round: 2, from: at(7), reply: fresh(5) })), [
      'schedule',
    ]);
    const other = started(1, []).machine;
    other.step(0, { kind: 'groupFound' });
    assert.deepEqual(kinds(other.step(0, { kind: 'managers', managers: [] })), ['waiting: found', 'schedule']);
  });

  it('sends a request to a manager that sent one, before it creates the group', () => {
    const { machine } = started(2, [at(7)]);
    const worker = { id: idOf(9), eligible: false, hasGroup: false, managers: [] };
    machine.step(0, { kind: 'managers', managers: [] });
    machine.step(10, { kind: 'replied', round: 1, from: at(7), reply: worker });
    machine.step(500, { kind: 'managers', managers: [] });
    machine.step(505, { kind: 'requestedBy', manager: { ...at(4), id: idOf(1) } });
    const evaluated = machine.step(510, { kind: 'replied', round: 2, from: at(7), reply: worker });
    assert.deepEqual(kinds(evaluated), ['request']);
    const lower = machine.step(520, { kind: 'replied', round: 2, from: at(4), reply: fresh(1) });
    assert.deepEqual(kinds(lower), ['waiting: lower', 'schedule']);
  });

  it('lets exactly one of many managers create the group, in any order of starts and replies', () => {
    for (let seed = 0; seed < 300; seed++) formOnce(new Random(`formation/${seed}`));
  });
});

/**
 * Managers that share a seed and know no other manager: only the seed remembers its requesters. Messages take random
 * times, and membership reveals some of the others to each manager at random.
 */
function formOnce(random: Random): void {
  const count = 2 + random.below(4);
  const machines = Array.from({ length: count }, (_, i) => new GroupFormation(idOf(i + 1), 500));
  const queue: { atMs: number; run: () => void }[] = [];
  const seedRequesters = new Set<number>();
  const formed: number[] = [];
  let nowMs = 0;
  const peer = (i: number) => Object.assign(at(i), { id: idOf(i + 1) });
  const after = (delayMs: number, run: () => void) => queue.push({ atMs: nowMs + delayMs, run });
  const feed = (i: number, input: Parameters<GroupFormation['step']>[1]): void => {
    for (const effect of (machines[i] as GroupFormation).step(nowMs, input)) perform(i, effect);
  };
  const asked = (to: number, by: number) => {
    if (to !== 99) {
      feed(to, { kind: 'requestedBy', manager: peer(by) });
      return { id: idOf(to + 1), eligible: true, hasGroup: formed.includes(to), managers: [] };
    }
    seedRequesters.add(by);
    return { id: 'f'.repeat(32) as NodeId, eligible: false, hasGroup: false, managers: [...seedRequesters].map(peer) };
  };
  const perform = (i: number, effect: Output): void => {
    if (effect.kind === 'bootstrap') formed.push(i);
    if (effect.kind === 'schedule') after(effect.atMs - nowMs, () => feed(i, { kind: 'expired', timer: 'round' }));
    if (effect.kind === 'listManagers') {
      const others = [...seedRequesters].filter((other) => other !== i && random.chance(0.3));
      feed(i, { kind: 'managers', managers: others.map(peer) });
    }
    if (effect.kind !== 'request') return;
    after(random.between(0, 300), () => {
      const reply = asked(effect.to.port, i);
      after(random.between(0, 300), () => feed(i, { kind: 'replied', round: effect.round, from: effect.to, reply }));
    });
  };
  for (let i = 0; i < count; i++) {
    after(random.between(0, 1_000), () => feed(i, { kind: 'start', seeds: [at(99)], bootstrap: false }));
  }
  for (let steps = 0; steps < 2_000 && queue.length > 0 && formed.length === 0; steps++) take();
  for (let steps = 0; steps < 200 && queue.length > 0; steps++) take();
  assert.equal(formed.length, 1, `${formed.length} of ${count} created a group`);

  function take(): void {
    queue.sort((a, b) => a.atMs - b.atMs);
    const next = queue.shift() as { atMs: number; run: () => void };
    nowMs = next.atMs;
    next.run();
  }
}
