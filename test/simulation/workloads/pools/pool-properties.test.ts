/** Each property must be able to fail: it is shown what it is there to find. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Observation, WorkloadRun } from '../../checking/workload.ts';
import type { CallExecution } from '../../checking/pool-observations.ts';
import { poolProperties } from './pool-properties.ts';

function judge(name: keyof typeof poolProperties, steps: readonly Observation[]): string | undefined {
  const checker = poolProperties[name]({} as WorkloadRun);
  for (const step of steps) {
    const wrong = checker.observe?.(step);
    if (wrong !== undefined) return wrong;
  }
  return checker.atEnd?.();
}

const here = { pool: 'p', container: 3 } as const;
const executed = (call: string, more: Partial<CallExecution> = {}): CallExecution => ({
  ...{ kind: 'executed', ...here, node: 'n4', fence: 5n, call, isWrite: true, tag: 'p/3', wasExecuted: false },
  ...{ hasLease: true, alsoServedBy: [], goneMs: -Infinity },
  ...more,
});
const acknowledged = (call: string): Observation => ({ kind: 'acknowledged', ...here, call });
const dumped = (...done: readonly string[]): Observation => ({ kind: 'dumped', ...here, tag: 'p/3', done });
const looked = (...calls: readonly string[]): Observation => ({
  ...{ kind: 'copiesLooked', ...here, lacks: calls.map((call) => ({ node: 'n5', call })) },
});
const opened = (fence: bigint): Observation => ({ kind: 'opened', ...here, node: 'n4', fence, how: 'recover' });
const table = (node: string, version: number, hash: string) => ({ node, version, hash });
const failed = (code: 'DEADLINE' | 'CALL_FAILED'): Observation => ({
  kind: 'callFailed',
  call: 'a',
  code,
  message: 'x',
});
const answered = (saw: string): Observation => ({ kind: 'answered', order: { client: 'c', number: 1 }, saw });
const again = (text: string): Observation => ({ kind: 'answeredAgain', call: 'a', first: '<a>', again: text });
const refused = (call: string): Observation => ({ kind: 'refused', call, orders: [{ client: 'c', number: 1 }] });
const deleted: Observation = { kind: 'poolDeleted', pool: 'p' };
const poolsSeen = (...pools: readonly string[]): Observation => ({ kind: 'poolsSeen', node: 'n1', pools });
const logLooked = (known: number, logged: number): Observation => ({
  ...{ kind: 'logLooked', ...here, node: 'n1', known, logged },
});
const silent: Observation = { kind: 'silent', ...here, by: 'n1', why: 'DEADLINE' };

type Case = readonly [keyof typeof poolProperties, RegExp | undefined, readonly Observation[]];

const cases: readonly Case[] = [
  ['oneOwnerEach', undefined, [executed('a'), executed('b')]],
  ['refusalsHaveNoEffect', undefined, [refused('a'), dumped('b')]],
  ['refusalsHaveNoEffect', /nothing was to happen of a, and p\/3 has it/, [refused('a'), dumped('a')]],
  ['oneOwnerEach', /while n5 serves it too/, [executed('a', { alsoServedBy: [{ node: 'n5', fence: 4n }] })]],
  ['oneOwnerEach', /its lease is over/, [executed('a', { hasLease: false })]],
  ['fencesNeverFall', undefined, [executed('a'), executed('b', { fence: 6n }), acknowledged('b'), acknowledged('a')]],
  [
    'fencesNeverFall',
    /b ran under fence 4, a before it under 5/,
    [...[executed('a'), executed('b', { fence: 4n }), acknowledged('a'), acknowledged('b')]],
  ],
  [
    'fencesNeverFall',
    /a ran under fence 5, b after it under 4/,
    [...[executed('a'), executed('b', { fence: 4n }), acknowledged('b'), acknowledged('a')]],
  ],
  // Only what was acknowledged counts, and of a call that ran twice the last run.
  ['fencesNeverFall', undefined, [executed('a', { fence: 9n }), executed('b'), acknowledged('b')]],
  [
    'fencesNeverFall',
    undefined,
    [
      ...[executed('a', { fence: 1n }), executed('b', { fence: 2n }), executed('a', { fence: 2n })],
      ...[acknowledged('b'), acknowledged('a')],
    ],
  ],
  ['fencesNeverFall', /where it never ran/, [acknowledged('a')]],
  ['inSyncHasAll', undefined, [looked()]],
  ['inSyncHasAll', /n5 is in sync for p\/3, but its disk lacks a/, [looked('a')]],
  ['callsAreDoneOnce', undefined, [executed('a'), executed('a'), answered('<a><b>'), again('<a>')]],
  ['callsAreDoneOnce', /a runs again/, [executed('a'), executed('a', { wasExecuted: true })]],
  ['callsAreDoneOnce', /<a> was written twice/, [answered('<a><b><a>')]],
  ['callsAreDoneOnce', /sent again with <a><a>/, [again('<a><a>')]],
  ['acknowledgedStays', undefined, [acknowledged('a'), dumped('b', 'a')]],
  ['acknowledgedStays', undefined, [acknowledged('a'), { kind: 'dumping' }, acknowledged('b'), dumped('a')]],
  ['acknowledgedStays', /a was acknowledged by p\/3 and is gone/, [acknowledged('a'), dumped('b')]],
  ['acknowledgedStays', /and is gone/, [acknowledged('a')]],
  ['acknowledgedStays', /nothing was ever/, [dumped('b')]],
  ['acknowledgedStays', undefined, [acknowledged('a'), deleted]],
  ['acknowledgedStays', undefined, [acknowledged('a'), deleted, { ...deleted, pool: 'p#2' }]],
  ['statesAreNotMixed', undefined, [executed('a'), dumped('a')]],
  ['statesAreNotMixed', /p\/3 has the state of p\/2/, [executed('a', { tag: 'p/2' })]],
  ['statesAreNotMixed', /p\/3 has the state of nobody/, [executed('a', { tag: undefined })]],
  ['openedBeforeCalled', undefined, [opened(5n), executed('a'), opened(6n)]],
  ['openedBeforeCalled', /recover after the first call/, [executed('a'), opened(5n)]],
  ['openedBeforeCalled', /nothing was ever opened/, [executed('a')]],
  ['tablesAreLogged', undefined, [logLooked(7, 7), logLooked(7, 9), deleted, logLooked(7, 0)]],
  ['tablesAreLogged', /n1 knew version 7 of p\/3, but its log has 6/, [logLooked(7, 6)]],
  ['tablesAgree', undefined, [{ kind: 'tables', tables: [table('n1', 7, 'x'), table('n2', 7, 'x')] }]],
  ['tablesAgree', /n2 at 6 x/, [{ kind: 'tables', tables: [table('n1', 7, 'x'), table('n2', 6, 'x')] }]],
  ['tablesAgree', /n2 at 7 y/, [{ kind: 'tables', tables: [table('n1', 7, 'x'), table('n2', 7, 'y')] }]],
  ['tablesAgree', /nobody has a table/, []],
  ['deletedStaysDeleted', undefined, [deleted, poolsSeen('q')]],
  ['deletedStaysDeleted', /n1 still knows p/, [deleted, poolsSeen('q', 'p')]],
  ['deletedStaysDeleted', /nobody was asked/, [deleted]],
  ['everyContainerServes', undefined, [dumped()]],
  ['everyContainerServes', /p\/3 does not answer n1/, [dumped(), silent]],
  ['everyContainerServes', /no container was asked/, []],
  ['everyCallSucceeds', undefined, [answered('')]],
  ['everyCallSucceeds', /a failed with DEADLINE/, [answered(''), failed('DEADLINE')]],
  ['everyCallSucceeds', /no call was answered/, []],
  ['failuresAreTemporary', undefined, [failed('DEADLINE')]],
  ['failuresAreTemporary', /failed for good with CALL_FAILED/, [failed('CALL_FAILED')]],
];

describe('properties of pools', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'is content' : `says ${wrong}`}`, () => {
      if (wrong === undefined) assert.equal(judge(name, steps), undefined);
      else assert.match(judge(name, steps) ?? 'nothing', wrong);
    });
  }

  it('are all tried in both ways', () => {
    for (const name of Object.keys(poolProperties)) {
      const own = cases.filter(([property]) => property === name);
      assert.ok(own.some(([, wrong]) => wrong === undefined) && own.some(([, wrong]) => wrong !== undefined), name);
    }
  });
});
