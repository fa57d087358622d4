import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIdFrom } from '../../base/ids.ts';
import { initialLocalView } from '../../membership/state/member-view.ts';
import { memberRows } from './member-rows.ts';

const id = nodeIdFrom(new Uint8Array(16));
const view = initialLocalView({ id, name: 'w1', generation: 1, host: 'h', port: 1, roles: ['worker'], dc: 'dc1' });

function registrationShown(state: typeof view.state, mode: string | undefined): string | null | undefined {
  const sources = { registrationOf: () => mode, registrationReasonOf: () => undefined, summaryOf: () => undefined };
  return memberRows([{ ...view, state }], sources)[0]?.registration;
}

test('the row of a dead or departed node shows lost although its record is still active', () => {
  const shown = (['alive', 'suspect', 'dead', 'left'] as const).map((state) => registrationShown(state, 'active'));
  assert.deepEqual(shown, ['active', 'active', 'lost', 'lost']);
});

test('the row of a drained node stays drained when it dies, because it returns drained', () => {
  assert.equal(registrationShown('dead', 'drained'), 'drained');
  assert.equal(registrationShown('dead', undefined), null);
});
