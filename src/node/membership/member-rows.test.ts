import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIdFrom } from '../../base/ids.ts';
import { initialLocalView } from '../../membership/state/member-view.ts';
import { memberRows } from './member-rows.ts';

const id = nodeIdFrom(new Uint8Array(16));
const view = initialLocalView({ id, name: 'w1', generation: 1, host: 'h', port: 1, roles: ['worker'], dc: 'dc1' });

function registrationShown(state: typeof view.state, mode: string | undefined): string | null | undefined {
  const known = { registrationOf: () => mode, registrationReasonOf: () => undefined, noticeOf: () => undefined };
  return memberRows([{ ...view, state }], known)[0]?.registration;
}

test('a node that is dead or has left is not shown as active, whatever its record still says', () => {
  const shown = (['alive', 'suspect', 'dead', 'left'] as const).map((state) => registrationShown(state, 'active'));
  assert.deepEqual(shown, ['active', 'active', 'lost', 'lost']);
});

test('a drained node stays drained when it dies, because that is how it returns', () => {
  assert.equal(registrationShown('dead', 'drained'), 'drained');
  assert.equal(registrationShown('dead', undefined), null);
});
