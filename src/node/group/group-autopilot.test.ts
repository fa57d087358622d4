import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeId } from '../../base/ids.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';
import { GroupAutopilot } from './group-autopilot.ts';

const idOf = (letter: string): NodeId => letter.repeat(32) as NodeId;

/** A leader `a` with a keeper; the group changes as it asks for it, and everybody has caught up at once. */
function world(options: { votersMax?: number; replaceAfterMs?: number } = {}) {
  const keeper = new GroupAutopilot({ intervalMs: 1_000, votersMax: 5, replaceAfterMs: 0, ...options });
  const alive = new Set(['a']);
  const foreign = new Set<string>();
  const said: string[] = [];
  let group: GroupMember[] = [memberOf('a', 'voter')];
  let nowMs = 0;
  const known = new Set(['a']);
  const look = () => ({
    isLeading: true,
    self: idOf('a'),
    group,
    caughtUp: new Set(group.filter(({ standing }) => standing === 'syncing').map(({ id }) => id)),
    managers: [...known].map((name) => Object.assign(memberOf(name, 'voter'), { isAlive: alive.has(name) })),
  });
  const perform = (effect: ReturnType<GroupAutopilot['step']>[number]): void => {
    if (effect.kind === 'see') feed({ kind: 'look', look: look() });
    if (effect.kind === 'foreign') said.push(`foreign ${effect.name}`);
    if (effect.kind === 'check')
      feed({ kind: 'checked', id: effect.manager.id, isFree: !foreign.has(effect.manager.name) });
    if (effect.kind !== 'change') return;
    const { change } = effect;
    const id = change.kind === 'add' ? change.member.id : change.id;
    said.push(`${change.kind} ${id[0]}`);
    if (change.kind === 'add') group.push({ ...change.member, standing: 'syncing' });
    else if (change.kind === 'remove') group = group.filter((member) => member.id !== id);
    else group = group.map((member) => (member.id === id ? { ...member, standing: 'voter' as const } : member));
    feed({ kind: 'changed', id, ok: true });
  };
  const feed = (input: Parameters<GroupAutopilot['step']>[1]): void => {
    for (const effect of keeper.step(nowMs, input)) perform(effect);
  };
  return {
    said,
    arrive: (...names: string[]) => {
      for (const name of names) {
        known.add(name);
        alive.add(name);
      }
    },
    alienate: (name: string) => foreign.add(name),
    die: (name: string) => alive.delete(name),
    pass: (rounds: number) => {
      for (let i = 0; i < rounds; i++) {
        nowMs += 1_000;
        feed({ kind: 'expired', timer: 'keep' });
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

describe('group keeper', () => {
  it('adds a manager, then lets it vote; two are better than one', () => {
    const { said, arrive, pass, voters } = world();
    pass(2);
    arrive('b');
    pass(3);
    assert.deepEqual(said, ['add b', 'promote b']);
    assert.equal(voters(), 'ab');
  });

  it('keeps the number of voters odd beyond two, and below its bound', () => {
    const { arrive, pass, voters } = world();
    arrive('b', 'c', 'd');
    pass(9);
    assert.equal(voters().length, 3);
    arrive('e', 'f', 'g', 'h');
    pass(20);
    assert.equal(voters().length, 5);
  });

  it('adds nobody that belongs to another group, and says so once', () => {
    const { said, arrive, alienate, pass } = world();
    alienate('b');
    arrive('b');
    pass(5);
    assert.deepEqual(said, ['foreign b']);
  });

  it('replaces a voter that has been dead for long: first the new one, then without the dead', () => {
    const { said, arrive, die, pass, voters } = world({ replaceAfterMs: 10_000 });
    arrive('b', 'c', 'd');
    pass(9);
    said.length = 0;
    const spare = ['b', 'c', 'd'].find((name) => !voters().includes(name)) as string;
    const dead = voters()[1] as string;
    die(dead);
    pass(9);
    assert.deepEqual(said, []);
    pass(5);
    assert.deepEqual(said, [`promote ${spare}`, `remove ${dead}`]);
    assert.equal(voters().length, 3);
  });

  it('leaves a dead voter alone when nobody can take its place', () => {
    const { said, arrive, die, pass } = world({ replaceAfterMs: 1_000 });
    arrive('b', 'c');
    pass(9);
    said.length = 0;
    die('c');
    pass(20);
    assert.deepEqual(said, []);
  });
});
