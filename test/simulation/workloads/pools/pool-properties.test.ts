/** Every property is shown a violation that it must find, and a history that it must accept. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Observation, WorkloadRun } from '../../checking/workload.ts';
import type { CallExecution } from '../../checking/pool-observations.ts';
import { poolProperties } from './pool-properties.ts';

function violationOf(name: keyof typeof poolProperties, steps: readonly Observation[]): string | undefined {
  const checker = poolProperties[name]({} as WorkloadRun);
  for (const step of steps) {
    const violation = checker.observe?.(step);
    if (violation !== undefined) return violation;
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
const replicasRead = (...calls: readonly string[]): Observation => ({
  ...{ kind: 'replicasRead', ...here, missing: calls.map((call) => ({ node: 'n5', call })) },
});
const opened = (fence: bigint): Observation => ({ kind: 'opened', ...here, node: 'n4', fence, opening: 'recover' });
const table = (node: string, version: number, hash: string) => ({ node, version, hash });
const failed = (code: 'DEADLINE' | 'CALL_FAILED'): Observation => ({
  kind: 'callFailed',
  call: 'a',
  code,
  message: 'x',
});
const replied = (returned: string): Observation => ({ kind: 'replied', command: { client: 'c', number: 1 }, returned });
const repliedAgain = (text: string): Observation => ({ kind: 'repliedAgain', call: 'a', first: '<a>', second: text });
const refused = (call: string): Observation => ({ kind: 'callRefused', call, commands: [{ client: 'c', number: 1 }] });
const deleted: Observation = { kind: 'poolDeleted', pool: 'p' };
const poolsRead = (...pools: readonly string[]): Observation => ({ kind: 'poolsRead', node: 'n1', pools });
const tableLogRead = (known: number, logged: number): Observation => ({
  ...{ kind: 'tableLogRead', ...here, node: 'n1', known, logged },
});
const stopped = (...kept: readonly number[]): Observation => ({
  ...{ kind: 'nodeStopped', node: 'n4', owned: 2, kept: kept.map((container) => ({ pool: 'p', container })) },
});
const unreachable: Observation = { kind: 'containerUnreachable', ...here, by: 'n1', reason: 'DEADLINE' };

type Case = readonly [keyof typeof poolProperties, RegExp | undefined, readonly Observation[]];

const cases: readonly Case[] = [
  ['oneOwnerPerContainer', undefined, [executed('a'), executed('b')]],
  ['stopsHandOver', undefined, [stopped()]],
  ['stopsHandOver', /n4 stopped in order and did not hand p\/3 over/, [stopped(3)]],
  ['stopsHandOver', /no node that stopped owned/, []],
  ['refusalsHaveNoEffect', undefined, [refused('a'), dumped('b')]],
  ['refusalsHaveNoEffect', /a was refused, but p\/3 has it/, [refused('a'), dumped('a')]],
  ['oneOwnerPerContainer', /while n5 serves it too/, [executed('a', { alsoServedBy: [{ node: 'n5', fence: 4n }] })]],
  ['oneOwnerPerContainer', /its lease has expired/, [executed('a', { hasLease: false })]],
  [
    'fencesAreMonotonic',
    undefined,
    [executed('a'), executed('b', { fence: 6n }), acknowledged('b'), acknowledged('a')],
  ],
  [
    'fencesAreMonotonic',
    /b ran under fence 4, a before it under 5/,
    [...[executed('a'), executed('b', { fence: 4n }), acknowledged('a'), acknowledged('b')]],
  ],
  [
    'fencesAreMonotonic',
    /a ran under fence 5, b after it under 4/,
    [...[executed('a'), executed('b', { fence: 4n }), acknowledged('b'), acknowledged('a')]],
  ],
  // Only acknowledged writes count, and of a call that ran twice the last run.
  ['fencesAreMonotonic', undefined, [executed('a', { fence: 9n }), executed('b'), acknowledged('b')]],
  [
    'fencesAreMonotonic',
    undefined,
    [
      ...[executed('a', { fence: 1n }), executed('b', { fence: 2n }), executed('a', { fence: 2n })],
      ...[acknowledged('b'), acknowledged('a')],
    ],
  ],
  ['fencesAreMonotonic', /where it never ran/, [acknowledged('a')]],
  ['isrHasAllWrites', undefined, [replicasRead()]],
  ['isrHasAllWrites', /n5 is in sync for p\/3, but its disk lacks a/, [replicasRead('a')]],
  ['callsExecuteOnce', undefined, [executed('a'), executed('a'), replied('<a><b>'), repliedAgain('<a>')]],
  ['callsExecuteOnce', /a runs again/, [executed('a'), executed('a', { wasExecuted: true })]],
  ['callsExecuteOnce', /<a> was written twice/, [replied('<a><b><a>')]],
  ['callsExecuteOnce', /to its retry <a><a>/, [repliedAgain('<a><a>')]],
  ['acknowledgedWritesAreDurable', undefined, [acknowledged('a'), dumped('b', 'a')]],
  [
    'acknowledgedWritesAreDurable',
    undefined,
    [acknowledged('a'), { kind: 'dumpStarted' }, acknowledged('b'), dumped('a')],
  ],
  ['acknowledgedWritesAreDurable', /a was acknowledged by p\/3 and is gone/, [acknowledged('a'), dumped('b')]],
  ['acknowledgedWritesAreDurable', /and is gone/, [acknowledged('a')]],
  ['acknowledgedWritesAreDurable', /nothing was ever/, [dumped('b')]],
  ['acknowledgedWritesAreDurable', undefined, [acknowledged('a'), deleted]],
  ['acknowledgedWritesAreDurable', undefined, [acknowledged('a'), deleted, { ...deleted, pool: 'p#2' }]],
  ['statesAreIsolated', undefined, [executed('a'), dumped('a')]],
  ['statesAreIsolated', /p\/3 has the state of p\/2/, [executed('a', { tag: 'p/2' })]],
  ['statesAreIsolated', /p\/3 has the state of no container/, [executed('a', { tag: undefined })]],
  ['openedBeforeCalled', undefined, [opened(5n), executed('a'), opened(6n)]],
  ['openedBeforeCalled', /recover after the first call/, [executed('a'), opened(5n)]],
  ['openedBeforeCalled', /nothing was ever opened/, [executed('a')]],
  ['tablesAreLogged', undefined, [tableLogRead(7, 7), tableLogRead(7, 9), deleted, tableLogRead(7, 0)]],
  ['tablesAreLogged', /n1 knew version 7 of p\/3, but its log has 6/, [tableLogRead(7, 6)]],
  ['tablesAgree', undefined, [{ kind: 'tables', tables: [table('n1', 7, 'x'), table('n2', 7, 'x')] }]],
  ['tablesAgree', /n2 at 6 x/, [{ kind: 'tables', tables: [table('n1', 7, 'x'), table('n2', 6, 'x')] }]],
  ['tablesAgree', /n2 at 7 y/, [{ kind: 'tables', tables: [table('n1', 7, 'x'), table('n2', 7, 'y')] }]],
  ['tablesAgree', /no node has a table/, []],
  ['deletedStaysDeleted', undefined, [deleted, poolsRead('q')]],
  ['deletedStaysDeleted', /n1 still knows p/, [deleted, poolsRead('q', 'p')]],
  ['deletedStaysDeleted', /no pools were read/, [deleted]],
  ['allContainersServe', undefined, [dumped()]],
  ['allContainersServe', /p\/3 does not reply to n1/, [dumped(), unreachable]],
  ['allContainersServe', /no container was read/, []],
  ['everyCallSucceeds', undefined, [replied('')]],
  ['everyCallSucceeds', /a failed with DEADLINE/, [replied(''), failed('DEADLINE')]],
  ['everyCallSucceeds', /no call got a reply/, []],
  ['failuresAreRetryable', undefined, [failed('DEADLINE')]],
  ['failuresAreRetryable', /failed permanently with CALL_FAILED/, [failed('CALL_FAILED')]],
];

describe('a property of pools', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'accepts a correct history' : `reports ${wrong.source}`}`, () => {
      if (wrong === undefined) assert.equal(violationOf(name, steps), undefined);
      else assert.match(violationOf(name, steps) ?? 'nothing', wrong);
    });
  }

  it('is shown both a correct history and a violation', () => {
    for (const name of Object.keys(poolProperties)) {
      const own = cases.filter(([property]) => property === name);
      assert.ok(own.some(([, wrong]) => wrong === undefined) && own.some(([, wrong]) => wrong !== undefined), name);
    }
  });
});
