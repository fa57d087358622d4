import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';
import { GroupAutopilot } from './group-autopilot.ts';

const idOf = (letter: string): NodeId => letter.repeat(32) as NodeId;

/** A leader `a` with an autopilot. Each change of the group succeeds, and syncing members catch up at once. */
function world(options: { votersMax?: number; replaceAfterMs?: number } = {}) {
  const autopilot = new GroupAutopilot({ intervalMs: 1_000, votersMax: 5, replaceAfterMs: 0, ...options });
  const alive = new Set(['a']);
  const foreign = new Set<string>();
  const effects: string[] = [];
  let group: GroupMember[] = [memberOf('a', 'voter')];
  let nowMs = 0;
  const known = new Set(['a']);
  const snapshot = () => ({
    isLeading: true,
    self: idOf('a'),
    group,
    caughtUp: new Set(group.filter(({ standing }) => standing === 'syncing').map(({ id }) => id)),
    managers: [...known].map((name) => Object.assign(memberOf(name, 'voter'), { isAlive: alive.has(name) })),
  });
  const perform = (effect: ReturnType<GroupAutopilot['step']>[number]): void => {
    if (effect.kind === 'inspect') feed({ kind: 'snapshot', snapshot: snapshot() });
    if (effect.kind === 'foreign') effects.push(`foreign ${effect.name}`);
    if (effect.kind === 'check')
      feed({ kind: 'checked', id: effect.manager.id, isFree: !foreign.has(effect.manager.name) });
    if (effect.kind !== 'change') return;
    const { change } = effect;
    const id = change.kind === 'add' ? change.member.id : change.id;
    effects.push(`${change.kind} ${id[0]}`);
    if (change.kind === 'add') group.push({ ...change.member, standing: 'syncing' });
    else if (change.kind === 'remove') group = group.filter((member) => member.id !== id);
    else group = group.map((member) => (member.id === id ? { ...member, standing: 'voter' as const } : member));
    feed({ kind: 'changed', id, ok: true });
  };
  const feed = (input: Parameters<GroupAutopilot['step']>[1]): void => {
    for (const effect of autopilot.step(nowMs, input)) perform(effect);
  };
  return {
    effects,
    join: (...names: string[]) => {
      for (const name of names) {
        known.add(name);
        alive.add(name);
      }
    },
    joinOtherGroup: (name: string) => foreign.add(name),
    die: (name: string) => alive.delete(name),
    runRounds: (rounds: number) => {
      for (let i = 0; i < rounds; i++) {
        nowMs += 1_000;
        feed({ kind: 'expired', timer: 'poll' });
      }
    },
    voters: () =>
      group
        .filter(({ standing }) => standing === 'voter')
        .map(({ name }) => name)
        .join(''),
  };
}

function memberOf(name: string, standing: GroupMember['standing']): GroupMember {
  return { id: idOf(name), name, host: '127.0.0.1', port: name.charCodeAt(0), standing };
}

describe('the group autopilot', () => {
  it('adds a manager, then promotes it, because two voters are safer than one', () => {
    const { effects, join, runRounds, voters } = world();
    runRounds(2);
    join('b');
    runRounds(3);
    assert.deepEqual(effects, ['add b', 'promote b']);
    assert.equal(voters(), 'ab');
  });

  it('keeps the number of voters odd beyond two, and within its maximum', () => {
    const { join, runRounds, voters } = world();
    join('b', 'c', 'd');
    runRounds(9);
    assert.equal(voters().length, 3);
    join('e', 'f', 'g', 'h');
    runRounds(20);
    assert.equal(voters().length, 5);
  });

  it('does not add a manager of another group, and reports it once', () => {
    const { effects, join, joinOtherGroup, runRounds } = world();
    joinOtherGroup('b');
    join('b');
    runRounds(5);
    assert.deepEqual(effects, ['foreign b']);
  });

  it('replaces a voter that has been dead for long: promotes the spare, then removes the dead voter', () => {
    const { effects, join, die, runRounds, voters } = world({ replaceAfterMs: 10_000 });
    join('b', 'c', 'd');
    runRounds(9);
    effects.length = 0;
    const spare = ['b', 'c', 'd'].find((name) => !voters().includes(name)) as string;
    const dead = voters()[1] as string;
    die(dead);
    runRounds(9);
    assert.deepEqual(effects, []);
    runRounds(5);
    assert.deepEqual(effects, [`promote ${spare}`, `remove ${dead}`]);
    assert.equal(voters().length, 3);
  });

  it('keeps a dead voter when no manager can replace it', () => {
    const { effects, join, die, runRounds } = world({ replaceAfterMs: 1_000 });
    join('b', 'c');
    runRounds(9);
    effects.length = 0;
    die('c');
    runRounds(20);
    assert.deepEqual(effects, []);
  });
});
