/** Each property must be able to fail: it is shown what it is there to find. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Observation, WorkloadRun } from '../../checking/workload.ts';
import { recreationProperties } from './recreation-properties.ts';

function judge(name: keyof typeof recreationProperties, steps: readonly Observation[]): string | undefined {
  const checker = recreationProperties[name]({} as WorkloadRun);
  for (const step of steps) {
    const wrong = checker.observe?.(step);
    if (wrong !== undefined) return wrong;
  }
  return checker.atEnd?.();
}

const created: Observation = { kind: 'poolCreated', pool: 'p#2', node: 'n1' };
const refused = (code: 'DEADLINE' | 'UNKNOWN_POOL', isDeleting = false): Observation => ({
  ...{ kind: 'creatorRefused', pool: 'p#2', node: 'n1', call: 'a', code, isDeleting },
});
const deletion = (code: 'DEADLINE' | 'UNKNOWN_POOL'): Observation => ({ kind: 'deletionRefused', pool: 'p#2', code });
const ran = (goneMs: number, isWrite = true): Observation => ({
  ...{ kind: 'executed', pool: 'p#1', container: 0, node: 'n4', fence: 5n, call: 'a', isWrite, tag: 'p#1/0' },
  ...{ wasExecuted: false, hasLease: true, alsoServedBy: [], goneMs },
});
const done: Observation = { kind: 'acknowledged', pool: 'p#1', container: 0, call: 'a' };
const healed: Observation = { kind: 'healed' };
const missing = (...names: readonly string[]): Observation => ({ kind: 'poolsMissing', names });

type Case = readonly [keyof typeof recreationProperties, RegExp | undefined, readonly Observation[]];

const cases: readonly Case[] = [
  ['createdIsKnown', undefined, [created, refused('DEADLINE'), refused('UNKNOWN_POOL', true), deletion('DEADLINE')]],
  ['createdIsKnown', /n1 refuses a with UNKNOWN_POOL, and has told of p#2/, [created, refused('UNKNOWN_POOL')]],
  ['createdIsKnown', /p#2 cannot be deleted/, [created, deletion('UNKNOWN_POOL')]],
  ['createdIsKnown', /no pool was ever created/, []],
  ['theGoneTakeNothing', undefined, [ran(-Infinity), done, ran(4_000), done, ran(9_000)]],
  ['theGoneTakeNothing', undefined, [ran(9_000, false)]],
  ['theGoneTakeNothing', /a is done in p#1, which was gone for 9000 ms/, [ran(9_000), done]],
  ['poolsComeAgain', undefined, [healed, created, missing()]],
  ['poolsComeAgain', /there is no pool p although/, [healed, created, missing('p')]],
  ['poolsComeAgain', /no pool was made since/, [created, healed, missing()]],
  ['poolsComeAgain', /nobody was asked/, [healed, created]],
];

describe('properties of pools that are made again', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'is content' : `says ${wrong}`}`, () => {
      if (wrong === undefined) assert.equal(judge(name, steps), undefined);
      else assert.match(judge(name, steps) ?? 'nothing', wrong);
    });
  }

  it('are all tried in both ways', () => {
    for (const name of Object.keys(recreationProperties)) {
      const own = cases.filter(([property]) => property === name);
      assert.ok(own.some(([, wrong]) => wrong === undefined) && own.some(([, wrong]) => wrong !== undefined), name);
    }
  });
});
