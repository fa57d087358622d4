import assert from 'node:assert/strict';
import { test } from 'node:test';
import { success } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import { type RangeResult, type Registry, type RegistryEpoch, withPrefix } from '../base/registry.ts';
import { registryEpoch } from '../base/registry-epoch.ts';
import { startInformer } from './informer.ts';

test('an informer lists again when the registry is restored between two pages', () => {
  const [before, after] = [registryEpoch('aaaaaaaaaaaaaaaa', 0), registryEpoch('aaaaaaaaaaaaaaaa', 1)];
  const entry = (key: string): RangeResult['entries'][number] => {
    return { key, value: new Uint8Array(), createRevision: 1, modRevision: 1, version: 1, lease: undefined };
  };
  // The first page is that of the registry before the restore.
  const pages: RangeResult[] = [
    { epoch: before, entries: [entry('/a')], more: true, revision: 9 },
    { epoch: after, entries: [entry('/b')], more: false, revision: 10 },
    { epoch: after, entries: [entry('/b')], more: false, revision: 10 },
  ];
  const registry: Pick<Registry, 'range' | 'watch'> = {
    range: (_range, _options, done) => done(success(pages.shift() ?? assert.fail('too many reads'))),
    watch: () => () => {},
  };
  const loads: { readonly keys: readonly string[]; readonly revision: number; readonly epoch: RegistryEpoch }[] = [];
  startInformer(registry, {} as Clock, withPrefix('/'), {
    loaded: (entries, revision, epoch) => loads.push({ keys: entries.map(({ key }) => key), revision, epoch }),
    changed: () => assert.fail('nothing changes'),
  });
  assert.deepEqual(loads, [{ keys: ['/b'], revision: 10, epoch: after }]);
});
