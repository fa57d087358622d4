/**
 * Content that survives: writers go on while nodes are killed and come back, and in the end everything is accounted for.
 * This is a slice; `node scripts/proofs/survival.ts --minutes 10` is the whole of it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../src/base/random.ts';
import { checkByKey } from '../simulation/checking/linearizability.ts';
import { absentKey, type KvAction, kvModel } from '../support/processes/kv-history.ts';
import { runSurvival } from '../support/processes/survival.ts';

const durationMs = 60_000;
const killEveryMs = 5_000;

function verdictOf(...actions: readonly (KvAction | { readonly silent: KvAction })[]): string {
  const operations = actions.map((action, at) =>
    'silent' in action
      ? { key: 'k', action: action.silent, calledAt: 2 * at, endedAt: Infinity }
      : { key: 'k', action, calledAt: 2 * at, endedAt: 2 * at + 1 },
  );
  return checkByKey(kvModel, operations)?.result.kind ?? 'linearizable';
}

test('the model knows what can have happened from what cannot', () => {
  const put = (value: string, version: number): KvAction => ({ kind: 'put', value, version });
  const get = (value: string, version: number): KvAction => ({ kind: 'get', saw: { value, version } });
  const silent = { silent: { kind: 'put', value: 'b' } } as const;
  assert.equal(verdictOf(put('a', 1), get('a', 1), put('b', 2), get('b', 2)), 'linearizable');
  assert.equal(
    verdictOf({ kind: 'get', saw: absentKey }, put('a', 4), silent, get('b', 6), put('c', 7)),
    'linearizable',
  );
  assert.equal(verdictOf(put('a', 4), silent, get('a', 4), get('b', 5)), 'linearizable', 'it may come late');
  assert.equal(verdictOf(put('a', 1), put('b', 2), get('a', 1)), 'violated', 'a lost write');
  assert.equal(verdictOf(put('a', 1), get('a', 2)), 'violated', 'applied twice');
  assert.equal(verdictOf(put('a', 1), silent, get('b', 2), get('b', 3)), 'violated', 'applied twice, unanswered');
  assert.equal(verdictOf(put('a', 1), silent, get('b', 2), get('a', 1), get('b', 2)), 'violated', 'it came back');
  assert.equal(verdictOf(put('a', 3), put('b', 2)), 'violated', 'versions grow');
  const swap = { kind: 'put', value: 'c', at: { value: 'a', version: 1 } } as const;
  assert.equal(verdictOf(put('a', 1), { ...swap, version: 2 }, get('c', 2)), 'linearizable');
  assert.equal(verdictOf(put('a', 1), put('b', 2), { ...swap, version: 3 }), 'violated', 'not the item it was for');
  assert.equal(verdictOf(put('a', 1), put('b', 2), { ...swap, refused: true }), 'linearizable');
  assert.equal(verdictOf(put('a', 1), { ...swap, refused: true }), 'violated', 'refused without a reason');
  assert.equal(verdictOf(put('a', 1), silent, { ...swap, refused: true }), 'linearizable', 'the reason is unanswered');
});

test('every 5 seconds a node is killed and restarted, and no acknowledged write is lost or doubled', async (context) => {
  const random = new Random('survival slice');
  const say = (line: string): void => context.diagnostic(line);
  await runSurvival(context, { durationMs, killEveryMs, random: () => random.fraction(), say });
});
