import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isRemusterError } from '../base/errors.ts';
import { module } from './module.ts';
import { type KnownModule, ModuleCatalog } from './module-catalog.ts';

const counter = module('counter', { methods: { get: () => 1 } });
const other = module('counter', { methods: { get: () => 2 } });

test('a module catalog finds modules by name and version, and notifies watchers of new ones', () => {
  const known = new ModuleCatalog();
  const added: KnownModule[] = [];
  const cancel = known.watch((one) => added.push(one));
  known.add(counter);
  known.add(counter);
  known.add(other, 2);
  cancel();
  known.add(module('kv', { methods: { get: () => 1 } }));
  assert.equal(known.get('counter', 0), counter);
  assert.equal(known.get('counter', 2), other);
  assert.equal(known.get('counter', 1), undefined);
  assert.equal(known.get('none', 0), undefined);
  assert.deepEqual(known.names(), ['counter', 'kv']);
  assert.deepEqual(known.versions('counter'), [0, 2]);
  assert.deepEqual(added, [
    { definition: counter, version: 0 },
    { definition: other, version: 2 },
  ]);
});

test('a module catalog refuses a second module of one name and version, and too many modules', () => {
  const known = new ModuleCatalog();
  known.add(counter);
  assert.throws(
    () => known.add(other),
    (error) => isRemusterError(error, 'PRECONDITION'),
  );
  for (let version = 1; version < 1_000; version++) known.add(counter, version);
  assert.throws(
    () => known.add(counter, 1_000),
    (error) => isRemusterError(error, 'CAPACITY'),
  );
});
