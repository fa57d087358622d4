/** Every property is shown a violation that it must find, and a history that it must accept. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Observation, WorkloadRun } from '../../checking/workload.ts';
import { recreationProperties } from './recreation-properties.ts';

function violationOf(name: keyof typeof recreationProperties, steps: readonly Observation[]): string | undefined {
  const checker = recreationProperties[name]({} as WorkloadRun);
  for (const step of steps) {
    const violation = checker.observe?.(step);
    if (violation !== undefined) return violation;
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
  [
    'createdPoolsAreCallable',
    undefined,
    [created, refused('DEADLINE'), refused('UNKNOWN_POOL', true), deletion('DEADLINE')],
  ],
  ['createdPoolsAreCallable', /n1 refuses a with UNKNOWN_POOL, but it created p#2/, [created, refused('UNKNOWN_POOL')]],
  ['createdPoolsAreCallable', /p#2 cannot be deleted/, [created, deletion('UNKNOWN_POOL')]],
  ['createdPoolsAreCallable', /no pool was ever created/, []],
  ['deletedPoolsAcceptNothing', undefined, [ran(-Infinity), done, ran(4_000), done, ran(9_000)]],
  ['deletedPoolsAcceptNothing', undefined, [ran(9_000, false)]],
  ['deletedPoolsAcceptNothing', /a ran in p#1, which had been deleted for 9000 ms/, [ran(9_000), done]],
  ['poolsAreRecreated', undefined, [healed, created, missing()]],
  ['poolsAreRecreated', /there is no pool p after/, [healed, created, missing('p')]],
  ['poolsAreRecreated', /no pool was created since/, [created, healed, missing()]],
  ['poolsAreRecreated', /no pool was read/, [healed, created]],
];

describe('a property of recreated pools', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'accepts a correct history' : `reports ${wrong.source}`}`, () => {
      if (wrong === undefined) assert.equal(violationOf(name, steps), undefined);
      else assert.match(violationOf(name, steps) ?? 'nothing', wrong);
    });
  }

  it('is shown both a correct history and a violation', () => {
    for (const name of Object.keys(recreationProperties)) {
      const own = cases.filter(([property]) => property === name);
      assert.ok(own.some(([, wrong]) => wrong === undefined) && own.some(([, wrong]) => wrong !== undefined), name);
    }
  });
});
