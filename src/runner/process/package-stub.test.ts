import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as door from '../../index.ts';
import * as provided from './package-stub.ts';

test('in a runner the package has the same names as elsewhere, so that every import of it links', () => {
  const names = Object.keys(door).toSorted();
  assert.ok(names.includes('workflow') && names.includes('connect'));
  assert.deepEqual(
    Object.keys(provided)
      .filter((name) => name !== 'packageStubUrl')
      .toSorted(),
    names,
  );
});

test('what needs a node says so', () => {
  for (const call of [provided.connect, provided.startNode, provided.nodeOptions])
    assert.throws(() => call(), /does not work in a workflow/);
  assert.deepEqual(provided.module('counter', { methods: {} }), { methods: {}, name: 'counter' });
  assert.equal(provided.isJobFailure(), false);
  assert.equal(provided.workflow('w', { items: 1, each: () => 1 }).name, 'w');
});
