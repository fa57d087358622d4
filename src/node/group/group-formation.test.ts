import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import { GroupFormation } from './group-formation.ts';

type Decided = ReturnType<GroupFormation['step']>[number];

const idOf = (n: number): NodeId => String(n).repeat(32).slice(0, 32) as NodeId;
const at = (port: number): Address => ({ host: '127.0.0.1', port });

function kinds(effects: readonly Decided[]): string[] {
  return effects.map((effect) => (effect.kind === 'waiting' ? `waiting: ${effect.why}` : effect.kind));
}

function begun(self: number, seeds: readonly Address[], bootstrap = false) {
  const machine = new GroupFormation(idOf(self), 500);
  const first = machine.step(0, { kind: 'begin', seeds, bootstrap });
  return { machine, first };
}

const fresh = (id: number) => ({ id: idOf(id), eligible: true, hasGroup: false, managers: [] });

describe('formation', () => {
  it('begins at once alone, or when an operator says so', () => {
    assert.deepEqual(kinds(begun(2, [at(1)], true).first), ['form']);
    const { machine, first } = begun(2, []);
    assert.deepEqual(kinds(first), ['look']);
    assert.deepEqual(kinds(machine.step(0, { kind: 'managers', managers: [] })), ['form']);
  });

  it('waits for a seed that has never answered', () => {
    const { machine } = begun(1, [at(7)]);
    assert.deepEqual(kinds(machine.step(0, { kind: 'managers', managers: [] })), ['ask']);
    const silence = machine.step(10, { kind: 'unanswered', round: 1, from: at(7) });
    assert.deepEqual(kinds(silence), ['waiting: seed', 'schedule']);
    assert.deepEqual(kinds(machine.step(510, { kind: 'expired', timer: 'round' })), ['look']);
    machine.step(510, { kind: 'managers', managers: [] });
    assert.deepEqual(kinds(machine.step(520, { kind: 'answered', round: 2, from: at(7), answer: fresh(3) })), [
      'schedule',
    ]);
    machine.step(1_020, { kind: 'managers', managers: [] });
    assert.deepEqual(kinds(machine.step(1_030, { kind: 'answered', round: 3, from: at(7), answer: fresh(3) })), [
      'form',
    ]);
  });

  it('waits for one that was here and is dead: it may have begun alone', () => {
    const { machine } = begun(2, [at(7)]);
    const known = { ...at(4), id: idOf(3) };
    machine.step(0, { kind: 'managers', managers: [known] });
    machine.step(10, { kind: 'answered', round: 1, from: at(7), answer: { ...fresh(9), eligible: false } });
    machine.step(10, { kind: 'answered', round: 1, from: at(4), answer: fresh(3) });
    // Membership has forgotten it; this machine has not.
    assert.deepEqual(kinds(machine.step(510, { kind: 'managers', managers: [] })), ['ask', 'ask']);
    machine.step(520, { kind: 'answered', round: 2, from: at(7), answer: { ...fresh(9), eligible: false } });
    const silence = machine.step(530, { kind: 'unanswered', round: 2, from: at(4) });
    assert.deepEqual(kinds(silence), ['waiting: silent', 'schedule']);
    machine.step(1_030, { kind: 'managers', managers: [] });
    machine.step(1_040, { kind: 'answered', round: 3, from: at(7), answer: { ...fresh(9), eligible: false } });
    const returned = machine.step(1_050, {
      kind: 'answered',
      round: 3,
      from: at(4),
      answer: { ...fresh(3), hasGroup: true },
    });
    assert.deepEqual(kinds(returned), ['waiting: found', 'schedule']);
  });

  it('asks one of whom it is only told, and does not wait for it when another one has its address', () => {
    const { machine } = begun(2, [at(7)]);
    const worker = { id: idOf(9), eligible: false, hasGroup: false, managers: [{ ...at(4), id: idOf(3) }] };
    for (const round of [1, 2]) {
      machine.step(0, { kind: 'managers', managers: [] });
      machine.step(10, { kind: 'answered', round, from: at(7), answer: worker });
      const answered = machine.step(20, { kind: 'answered', round, from: at(4), answer: fresh(8) });
      assert.deepEqual(kinds(answered), [round === 1 ? 'schedule' : 'form']);
    }
  });

  it('waits for a group that exists, and for a lower id', () => {
    const { machine } = begun(2, [at(7)]);
    machine.step(0, { kind: 'managers', managers: [] });
    const answer = { ...fresh(3), hasGroup: true };
    const found = machine.step(10, { kind: 'answered', round: 1, from: at(7), answer });
    assert.deepEqual(kinds(found), ['waiting: found', 'schedule']);
    const { machine: second } = begun(2, [at(7)]);
    second.step(0, { kind: 'managers', managers: [] });
    const lower = second.step(20, { kind: 'answered', round: 1, from: at(7), answer: fresh(1) });
    assert.deepEqual(kinds(lower), ['waiting: lower', 'schedule']);
    second.step(20, { kind: 'belongs' });
    assert.deepEqual(second.step(520, { kind: 'expired', timer: 'round' }), []);
  });

  it('never begins another group after it has heard of one, although everybody in it is gone', () => {
    const { machine } = begun(1, [at(7)]);
    machine.step(0, { kind: 'managers', managers: [] });
    machine.step(10, { kind: 'answered', round: 1, from: at(7), answer: { ...fresh(3), hasGroup: true } });
    machine.step(510, { kind: 'expired', timer: 'round' });
    machine.step(510, { kind: 'managers', managers: [] });
    assert.deepEqual(kinds(machine.step(510, { kind: 'answered', round: 2, from: at(7), answer: fresh(5) })), [
      'schedule',
    ]);
    const other = begun(1, []).machine;
    other.step(0, { kind: 'heardOfGroup' });
    assert.deepEqual(kinds(other.step(0, { kind: 'managers', managers: [] })), ['waiting: found', 'schedule']);
  });

  it('asks one that asked us before it begins, although nobody told us of it', () => {
    const { machine } = begun(2, [at(7)]);
    const worker = { id: idOf(9), eligible: false, hasGroup: false, managers: [] };
    machine.step(0, { kind: 'managers', managers: [] });
    machine.step(10, { kind: 'answered', round: 1, from: at(7), answer: worker });
    machine.step(500, { kind: 'managers', managers: [] });
    machine.step(505, { kind: 'askedBy', manager: { ...at(4), id: idOf(1) } });
    const judged = machine.step(510, { kind: 'answered', round: 2, from: at(7), answer: worker });
    assert.deepEqual(kinds(judged), ['ask']);
    const lower = machine.step(520, { kind: 'answered', round: 2, from: at(4), answer: fresh(1) });
    assert.deepEqual(kinds(lower), ['waiting: lower', 'schedule']);
  });

  it('lets exactly one of many begin, in whatever order they start and answer', () => {
    for (let seed = 0; seed < 300; seed++) formOnce(new Random(`formation/${seed}`));
  });
});

/**
 * Managers that share a seed and know of nobody: only the seed remembers who asked it. Messages take random times, and
 * membership tells each of some others at random.
 */
function formOnce(random: Random): void {
  const count = 2 + random.below(4);
  const machines = Array.from({ length: count }, (_, i) => new GroupFormation(idOf(i + 1), 500));
  const queue: { atMs: number; run: () => void }[] = [];
  const askedTheSeed = new Set<number>();
  const formed: number[] = [];
  let nowMs = 0;
  const peer = (i: number) => Object.assign(at(i), { id: idOf(i + 1) });
  const after = (delayMs: number, run: () => void) => queue.push({ atMs: nowMs + delayMs, run });
  const feed = (i: number, input: Parameters<GroupFormation['step']>[1]): void => {
    for (const effect of (machines[i] as GroupFormation).step(nowMs, input)) perform(i, effect);
  };
  const asked = (to: number, by: number) => {
    if (to !== 99) {
      feed(to, { kind: 'askedBy', manager: peer(by) });
      return { id: idOf(to + 1), eligible: true, hasGroup: formed.includes(to), managers: [] };
    }
    askedTheSeed.add(by);
    return { id: 'f'.repeat(32) as NodeId, eligible: false, hasGroup: false, managers: [...askedTheSeed].map(peer) };
  };
  const perform = (i: number, effect: Decided): void => {
    if (effect.kind === 'form') formed.push(i);
    if (effect.kind === 'schedule') after(effect.atMs - nowMs, () => feed(i, { kind: 'expired', timer: 'round' }));
    if (effect.kind === 'look') {
      const others = [...askedTheSeed].filter((other) => other !== i && random.chance(0.3));
      feed(i, { kind: 'managers', managers: others.map(peer) });
    }
    if (effect.kind !== 'ask') return;
    after(random.between(0, 300), () => {
      const answer = asked(effect.to.port, i);
      after(random.between(0, 300), () => feed(i, { kind: 'answered', round: effect.round, from: effect.to, answer }));
    });
  };
  for (let i = 0; i < count; i++) {
    after(random.between(0, 1_000), () => feed(i, { kind: 'begin', seeds: [at(99)], bootstrap: false }));
  }
  for (let steps = 0; steps < 2_000 && queue.length > 0 && formed.length === 0; steps++) take();
  for (let steps = 0; steps < 200 && queue.length > 0; steps++) take();
  assert.equal(formed.length, 1, `${formed.length} of ${count} began a group`);

  function take(): void {
    queue.sort((a, b) => a.atMs - b.atMs);
    const next = queue.shift() as { atMs: number; run: () => void };
    nowMs = next.atMs;
    next.run();
  }
}
