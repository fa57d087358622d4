import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RegistryEntry } from '../../base/registry.ts';
import { changesToJson, entryToJson } from './registry-json.ts';

function entry(key: string, value: Uint8Array): RegistryEntry {
  return { key, value, createRevision: 3, modRevision: 5, version: 2, lease: undefined };
}

test('a value is text, or marked hexadecimal digits', () => {
  const shown = { key: '/a', version: 2, createRevision: 3, modRevision: 5, lease: null };
  assert.deepEqual(entryToJson(entry('/a', new TextEncoder().encode('\u00e9'))), { ...shown, value: '\u00e9' });
  assert.deepEqual(entryToJson(entry('/a', Uint8Array.of(255, 0))), { ...shown, value: 'ff00', encoding: 'hex' });
});

test('an event has all changes, and values up to its size limit', () => {
  const put = (key: string, bytes: number) =>
    ({ kind: 'put', entry: entry(key, new Uint8Array(bytes).fill(65)) }) as const;
  const shown = changesToJson([
    put('/a', 1),
    put('/b', 1_000_000),
    { kind: 'delete', key: '/c', modRevision: 5 },
  ]) as readonly Readonly<Record<string, unknown>>[];
  assert.deepEqual(
    shown.map(({ kind, key, value, cut, valueBytes }) => [kind, key, value, cut, valueBytes]),
    [
      ['put', '/a', 'A', undefined, undefined],
      ['put', '/b', undefined, true, 1_000_000],
      ['delete', '/c', undefined, undefined, undefined],
    ],
  );
});
