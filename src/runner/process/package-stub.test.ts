import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as entryPoint from '../../index.ts';
import * as stub from './package-stub.ts';

test('the package stub exports the names of the package, so that every import of it links', () => {
  const names = Object.keys(entryPoint).toSorted();
  assert.ok(names.includes('workflow') && names.includes('connect'));
  assert.deepEqual(
    Object.keys(stub)
      .filter((name) => name !== 'packageStubUrl')
      .toSorted(),
    names,
  );
});

test('a function of the stub that needs a node throws', () => {
  for (const call of [stub.connect, stub.startNode, stub.nodeOptions])
    assert.throws(() => call(), /is not available in a workflow/);
  assert.deepEqual(stub.module('counter', { methods: {} }), { methods: {}, name: 'counter' });
  assert.equal(stub.isJobFailure(), false);
  assert.equal(stub.workflow('w', { items: 1, each: () => 1 }).name, 'w');
});
