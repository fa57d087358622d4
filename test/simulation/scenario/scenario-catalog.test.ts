/** The guide documents every name that a scenario can use. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { scenarioCatalog } from './scenario-catalog.ts';

it('the guide lists every workload, fault and property of the catalogue', () => {
  const guide = readFileSync(new URL('../../../docs/guides/simulation.md', import.meta.url), 'utf8');
  const tables = guide.split('\n').filter((line) => line.startsWith('|'));
  const names = [scenarioCatalog.workloads, scenarioCatalog.faults, scenarioCatalog.properties].flatMap((table) =>
    Object.keys(table),
  );
  assert.ok(names.length > 20);
  assert.deepEqual(
    names.filter((name) => !tables.some((line) => line.includes(`\`${name}\``))),
    [],
  );
});
