/**
 * State survives kills: writers keep writing while nodes are killed and restarted, and at the end every write is
 * accounted for. This is a slice of the proof `node scripts/proofs/survival.ts --minutes 10`.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../src/base/random.ts';
import { checkByKey } from '../simulation/checking/linearizability.ts';
import { absentKey, type KvAction, kvModel } from '../support/processes/kv-history.ts';
import { runSurvival } from '../support/processes/survival.ts';

const durationMs = 60_000;
const killEveryMs = 5_000;

function resultOf(...actions: readonly (KvAction | { readonly unreplied: KvAction })[]): string {
  const operations = actions.map((action, at) =>
    'unreplied' in action
      ? { key: 'k', action: action.unreplied, calledAt: 2 * at, endedAt: Infinity }
      : { key: 'k', action, calledAt: 2 * at, endedAt: 2 * at + 1 },
  );
  return checkByKey(kvModel, operations)?.result.kind ?? 'linearizable';
}

test('the kv model accepts possible histories and refuses impossible ones', () => {
  const put = (value: string, version: number): KvAction => ({ kind: 'put', value, version });
  const get = (value: string, version: number): KvAction => ({ kind: 'get', returned: { value, version } });
  const unreplied = { unreplied: { kind: 'put', value: 'b' } } as const;
  assert.equal(resultOf(put('a', 1), get('a', 1), put('b', 2), get('b', 2)), 'linearizable');
  assert.equal(
    resultOf({ kind: 'get', returned: absentKey }, put('a', 4), unreplied, get('b', 6), put('c', 7)),
    'linearizable',
  );
  assert.equal(resultOf(put('a', 4), unreplied, get('a', 4), get('b', 5)), 'linearizable', 'it may take effect late');
  assert.equal(resultOf(put('a', 1), put('b', 2), get('a', 1)), 'violated', 'a lost write');
  assert.equal(resultOf(put('a', 1), get('a', 2)), 'violated', 'applied twice');
  assert.equal(
    resultOf(put('a', 1), unreplied, get('b', 2), get('b', 3)),
    'violated',
    'applied twice, without a reply',
  );
  assert.equal(
    resultOf(put('a', 1), unreplied, get('b', 2), get('a', 1), get('b', 2)),
    'violated',
    'an overwritten value returns',
  );
  assert.equal(resultOf(put('a', 3), put('b', 2)), 'violated', 'versions grow');
  const swap = { kind: 'put', value: 'c', at: { value: 'a', version: 1 } } as const;
  assert.equal(resultOf(put('a', 1), { ...swap, version: 2 }, get('c', 2)), 'linearizable');
  assert.equal(resultOf(put('a', 1), put('b', 2), { ...swap, version: 3 }), 'violated', 'not the required item');
  assert.equal(resultOf(put('a', 1), put('b', 2), { ...swap, refused: true }), 'linearizable');
  assert.equal(resultOf(put('a', 1), { ...swap, refused: true }), 'violated', 'refused without a reason');
  assert.equal(resultOf(put('a', 1), unreplied, { ...swap, refused: true }), 'linearizable', 'the reason has no reply');
});

test('no acknowledged write is lost or repeated while a node is killed every 5 seconds', async (context) => {
  const random = new Random('survival slice');
  const report = (line: string): void => context.diagnostic(line);
  await runSurvival(context, { durationMs, killEveryMs, random: () => random.fraction(), report });
});
