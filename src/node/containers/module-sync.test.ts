import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakeFiles } from '../../../test/fakes/fake-files.ts';
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import { type LeaseId, onlyKey } from '../../base/registry.ts';
import { module } from '../../containers/module.ts';
import { ModuleCatalog } from '../../containers/module-catalog.ts';
import type { DeployedModule } from '../../placement/modules/module-deployment.ts';
import { loadedModulesKey, modulePartKey } from '../../placement/modules/module-keys.ts';
import { ModuleOperations } from '../../placement/modules/module-operations.ts';
import { moduleLimits, readLoadedModules } from '../../placement/modules/module-records.ts';
import { type BundleImporter, ModuleSync } from './module-sync.ts';
import { publishLoadedModules } from './loaded-modules.ts';

/** In these tests the code of a module is its name and a version text. */
class Scene {
  readonly cluster: DrainTestCluster;
  readonly files: FakeFiles;
  readonly known = new ModuleCatalog();
  readonly events: string[] = [];
  readonly sync: ModuleSync;
  readonly loads: string[] = [];
  readonly operations: ModuleOperations;

  constructor(cluster: DrainTestCluster = startedCluster(1)) {
    this.cluster = cluster;
    this.files = new FakeFiles(cluster.clock);
    this.operations = new ModuleOperations(cluster.registry, cluster.clock);
    this.sync = new ModuleSync({
      registry: cluster.registry,
      clock: cluster.clock,
      files: this.files.port,
      modules: this.known,
      bundles: this.#bundles(),
      emit: ({ kind, module: name, version }) => this.events.push(`${kind} ${String(name)} ${String(version)}`),
    });
  }

  #bundles(): BundleImporter {
    const namesIn = (path: string): string[] => this.files.text(path).split(' ');
    return {
      sha256,
      load: (path, done) =>
        this.cluster.clock.schedule(0, () => {
          this.loads.push(this.files.text(path));
          const [name = ''] = namesIn(path);
          done(name === 'broken' ? failure('BAD_ARGUMENT') : success([1, module(name, { methods: { a: () => 1 } })]));
        }),
      check: (path, done) =>
        this.cluster.clock.schedule(0, () => done(success(namesIn(path).map((name) => ({ name }))))),
    };
  }

  ask<T>(start: (done: Done<T>) => void): T {
    const outcome = this.cluster.await(start);
    assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
    return outcome.value;
  }

  deploy(name: string, version: string): DeployedModule {
    const code = new TextEncoder().encode(`${name} ${version}`);
    return this.ask<DeployedModule>((done) => this.operations.deploy({ name, code, sha256: sha256(code) }, done));
  }

  until(what: string, holds: () => boolean): void {
    this.cluster.until(holds, 120_000, what);
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

test('modules that are deployed before or after the start are loaded, newest first, and stored on disk', () => {
  const scene = new Scene();
  scene.deploy('a', 'one');
  scene.cluster.run(10);
  scene.deploy('a', 'two');
  scene.sync.start();
  scene.until('two versions', () => scene.known.versions('a').length === 2);
  assert.deepEqual(scene.loads, ['a two', 'a one']);
  assert.equal(scene.known.get('a', 2)?.name, 'a');
  scene.deploy('b', 'one');
  scene.until('another module', () => scene.known.get('b', 1) !== undefined);
  assert.equal(scene.files.names('modules').length, 3);
  assert.deepEqual(scene.events, ['module.loaded a 2', 'module.loaded a 1', 'module.loaded b 1']);
});

test('a stored bundle is not fetched again unless it is damaged', () => {
  const first = new Scene();
  first.deploy('a', 'one');
  first.sync.start();
  first.until('it', () => first.known.get('a', 1) !== undefined);
  first.sync.stop();
  const again = new Scene(first.cluster);
  for (const [path, bytes] of first.files.content) again.files.content.set(path, bytes);
  const part = onlyKey(modulePartKey('a', 1, 0));
  again.ask((done) =>
    again.cluster.registry.transact({ compare: [], then: [{ kind: 'delete', range: part }], otherwise: [] }, {}, done),
  );
  again.sync.start();
  again.until('it', () => again.known.get('a', 1) !== undefined);
  const damaged = new Scene(first.cluster);
  for (const path of first.files.content.keys()) damaged.files.content.set(path, new Uint8Array([1]));
  damaged.sync.start();
  damaged.until('a failure', () => damaged.events.includes('module.failed a 1'));
  assert.equal(damaged.known.get('a', 1), undefined);
});

test('a module that fails to load is retried and does not delay other modules', () => {
  const scene = new Scene();
  scene.sync.start();
  scene.deploy('broken', 'one');
  scene.deploy('a', 'one');
  scene.until('the other', () => scene.known.get('a', 1) !== undefined);
  scene.until('three attempts', () => scene.loads.filter((text) => text.startsWith('broken')).length === 3);
  scene.files.fails = true;
  scene.deploy('a', 'two');
  scene.until('a failing disk', () => scene.events.includes('module.failed a 2'));
  scene.files.fails = false;
  scene.until('the disk to work', () => scene.known.get('a', 2) !== undefined);
});

test('a version that the registry removes is removed here, with its file', () => {
  const scene = new Scene();
  scene.sync.start();
  for (let version = 1; version <= moduleLimits.unusedKeptMax + 3; version++) scene.deploy('a', `v${version}`);
  const kept = [3, 4, 5, 6, 7, 8];
  scene.until('the last', () => scene.known.get('a', 8) !== undefined);
  scene.until('few files', () => scene.files.names('modules').length === kept.length);
  assert.deepEqual(scene.known.versions('a'), kept);
});

test('a bundle is checked before it is deployed', () => {
  const scene = new Scene();
  scene.sync.start();
  const check = (text: string, name?: string): Outcome<{ readonly name: string; readonly sha256: string }> =>
    scene.cluster.await((done: Done<{ name: string; sha256: string }>) =>
      scene.sync.check(new TextEncoder().encode(text), name, done),
    );
  const refused = (text: string, name?: string): string => {
    const outcome = check(text, name);
    return outcome.ok ? 'ok' : `${outcome.error.code} ${outcome.error.message}`;
  };
  const one = check('a');
  assert.ok(one.ok && one.value.name === 'a' && one.value.sha256 === sha256(new TextEncoder().encode('a')));
  assert.ok(check('a b', 'b').ok);
  assert.match(refused('b a'), /^BUNDLE_INVALID the bundle exports the modules a, b: name one of them/);
  assert.match(refused('a b', 'c'), /^BUNDLE_INVALID .*none of them is c/);
  assert.match(refused('x'.repeat(moduleLimits.bundleBytesMax + 1)), /^TOO_LARGE/);
  scene.cluster.run(100);
  assert.equal(scene.files.content.size, 0, 'the file of a rejected bundle must be removed');
});

test('a node publishes its loaded modules under the lease of its registration, and again under each new lease', () => {
  const { cluster, known } = new Scene();
  const self = cluster.node('a').id;
  let lease: LeaseId | undefined;
  known.add(module('kv', { methods: { a: () => 1 } }));
  const cancel = publishLoadedModules(self, {
    registry: cluster.registry,
    clock: cluster.clock,
    modules: known,
    lease: () => lease,
  });
  const written = () => {
    const outcome = cluster.await<{ entries: readonly { value: Uint8Array; lease: LeaseId | undefined }[] }>((done) =>
      cluster.registry.range(onlyKey(loadedModulesKey(self)), {}, done),
    );
    assert.ok(outcome.ok);
    const [entry] = outcome.value.entries;
    return entry && { lease: entry.lease, modules: Object.fromEntries(readLoadedModules(entry.value)) };
  };
  const granted = (): LeaseId => {
    const outcome = cluster.await<{ lease: LeaseId }>((done) => cluster.registry.grant(60_000, {}, done));
    assert.ok(outcome.ok);
    return outcome.value.lease;
  };
  cluster.run(3_000);
  assert.equal(written(), undefined);
  lease = granted();
  cluster.run(1_500);
  assert.deepEqual(written(), { lease, modules: { kv: [0] } });
  known.add(module('kv', { methods: { a: () => 2 } }), 3);
  cluster.run(10);
  assert.deepEqual(written(), { lease, modules: { kv: [0, 3] } });
  lease = granted();
  cluster.run(1_500);
  assert.deepEqual(written(), { lease, modules: { kv: [0, 3] } });
  cancel();
});
