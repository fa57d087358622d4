import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import { type Done, type Outcome, failure } from '../../base/errors.ts';
import { type RegistryOp, withPrefix } from '../../base/registry.ts';
import { PoolOperations } from '../operations/pool-operations.ts';
import type { ModuleBundle, DeployedModule } from './module-deployment.ts';
import { loadedModulesKey, moduleKey } from './module-keys.ts';
import { ModuleOperations } from './module-operations.ts';
import { ModuleReader } from './module-reader.ts';
import type { ModuleRow, ModuleDetails } from './module-views.ts';
import { encodeLoadedModules, encodeModule, moduleLimits, readLoadedModules, readModule } from './module-records.ts';

function bundle(text: string, name = 'counter'): ModuleBundle {
  const code = new TextEncoder().encode(text);
  return { name, code, sha256: createHash('sha256').update(code).digest('hex') };
}

class Scene {
  readonly cluster: DrainTestCluster = startedCluster(3, { mode: 'off' });
  readonly modules = new ModuleOperations(this.cluster.registry, this.cluster.clock);
  readonly pools = new PoolOperations(this.cluster.registry, this.cluster.clock);

  ask<T>(start: (done: Done<T>) => void): T {
    const outcome = this.cluster.ask(start);
    assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
    return outcome.value;
  }

  refused(start: (done: Done<unknown>) => void): string {
    const outcome = this.cluster.ask(start);
    assert.ok(!outcome.ok);
    return `${outcome.error.code}: ${outcome.error.message}`;
  }

  deploy(text: string, name?: string): DeployedModule {
    return this.ask<DeployedModule>((done) => this.modules.deploy(bundle(text, name), done));
  }

  show(name = 'counter'): ModuleDetails {
    return this.ask<ModuleDetails>((done) => this.modules.show(name, done));
  }

  load(node: string, modules: Readonly<Record<string, readonly number[]>>): void {
    const value = encodeLoadedModules(new Map(Object.entries(modules)));
    this.write([{ kind: 'put', key: loadedModulesKey(this.cluster.node(node).id), value }]);
  }

  write(then: readonly RegistryOp[]): void {
    this.ask((done) => this.cluster.registry.transact({ compare: [], then, otherwise: [] }, {}, done));
  }

  parts(): readonly string[] {
    const range = withPrefix('/module-parts/');
    return this.ask<{ readonly entries: readonly { readonly key: string }[] }>((done) =>
      this.cluster.registry.range(range, { limit: 1_000 }, done),
    ).entries.map(({ key }) => key.slice('/module-parts/'.length));
  }

  code(version: number): string {
    const { versions } = this.ask<{ record: { versions: readonly { version: number }[] } }>((done) =>
      new ModuleReader(this.cluster.registry, this.cluster.clock).find('counter', done),
    ).record as NonNullable<ReturnType<typeof readModule>>;
    const found = versions.find((one) => one.version === version);
    assert.ok(found);
    return new TextDecoder().decode(
      this.ask<Uint8Array>((done) =>
        new ModuleReader(this.cluster.registry, this.cluster.clock).code('counter', found, done),
      ),
    );
  }
}

describe('deploying', () => {
  test('numbers from 1, keeps the code in parts, and the newest again is no error', () => {
    const scene = new Scene();
    const first = scene.deploy('one');
    assert.deepEqual([first.version, first.deployed, first.bytes, first.parts], [1, true, 3, 1]);
    assert.equal(scene.deploy('one').deployed, false);
    const long = 'x'.repeat(moduleLimits.partBytesMax * 2 + 1);
    assert.deepEqual([scene.deploy(long).version, scene.deploy(long).parts], [2, 3]);
    assert.deepEqual([scene.code(1), scene.code(2) === long], ['one', true]);
    // What was newest once is another deployment now.
    assert.deepEqual([scene.deploy('one').version, scene.deploy('one').deployed], [3, false]);
  });

  test('keeps versions that pools and containers run, and five others; the rest goes with its code', () => {
    const scene = new Scene();
    const placer = new FakePlacer(scene.cluster, 2);
    for (let version = 1; version <= 3; version++) scene.deploy(`v${version}`);
    scene.ask((done) => scene.pools.create({ name: 'p', module: 'counter', containers: 1, moduleVersion: 2 }, done));
    for (let version = 4; version <= 10; version++) scene.deploy(`v${version}`);
    assert.deepEqual(
      scene.show().versions.map(({ version }) => version),
      [2, 5, 6, 7, 8, 9, 10],
    );
    assert.deepEqual(
      scene.parts(),
      [2, 5, 6, 7, 8, 9, 10].map((version) => `counter/${String(version).padStart(8, '0')}/0`),
    );
    assert.ok(placer);
  });

  test('what broke off leaves a number that is not used, and code that the next one removes', () => {
    const scene = new Scene();
    scene.deploy('one');
    let outcome: Outcome<DeployedModule> | undefined;
    const { registry } = scene.cluster;
    const stingy = {
      range: registry.range.bind(registry),
      transact: (...[transaction, options, done]: Parameters<typeof registry.transact>) => {
        // The part is written; the record is not.
        const isLast = transaction.compare.length > 1;
        if (isLast) scene.cluster.clock.schedule(0, () => done(failure('NO_QUORUM')));
        else registry.transact(transaction, options, done);
      },
    };
    new ModuleOperations(stingy, scene.cluster.clock).deploy(bundle('two'), (ended) => {
      outcome = ended;
    });
    scene.cluster.until(() => outcome !== undefined, 5_000, 'an ending');
    assert.equal(outcome?.ok, false);
    assert.deepEqual(scene.parts(), ['counter/00000001/0', 'counter/00000002/0']);
    assert.equal(scene.deploy('three').version, 3);
    assert.deepEqual(scene.parts(), ['counter/00000001/0', 'counter/00000003/0']);
  });

  test('two at the same time get two numbers, or the earlier one is refused', () => {
    const scene = new Scene();
    const ended: Outcome<DeployedModule>[] = [];
    for (const text of ['a', 'b', 'c']) scene.modules.deploy(bundle(text), (outcome) => ended.push(outcome));
    scene.cluster.until(() => ended.length === 3, 5_000, 'three endings');
    const versions = ended.flatMap((outcome) => (outcome.ok ? [outcome.value.version] : []));
    assert.equal(new Set(versions).size, versions.length);
    assert.ok(versions.includes(scene.show().version));
    for (const outcome of ended) if (!outcome.ok) assert.equal(outcome.error.code, 'PRECONDITION');
    for (const { version } of scene.show().versions) assert.equal(scene.code(version).length, 1);
  });

  test('what is too large, or too much, is refused', () => {
    const scene = new Scene();
    const deploying = (text: string, name?: string) => (done: Done<DeployedModule>) =>
      scene.modules.deploy(bundle(text, name), done);
    assert.match(scene.refused(deploying('x'.repeat(moduleLimits.bundleBytesMax + 1))), /TOO_LARGE/);
    const big = { version: 1, sha256: '0'.repeat(64), bytes: moduleLimits.allBytesMax, parts: 1, deployedWallMs: 0 };
    scene.write([{ kind: 'put', key: moduleKey('big'), value: encodeModule({ last: 1, versions: [big] }) }]);
    assert.match(scene.refused(deploying('y')), /CAPACITY: all modules together/);
  });
});

describe('looking at modules', () => {
  test('a list has what was deployed and what nodes load by themselves', () => {
    const scene = new Scene();
    scene.load('a', { kv: [0], counter: [0, 1] });
    scene.load('b', { kv: [0] });
    scene.deploy('one');
    const rows = scene.ask<readonly ModuleRow[]>((done) => scene.modules.list(done));
    assert.deepEqual(
      rows.map(({ name, version, versions, loadedBy }) => [name, version, versions, loadedBy]),
      [
        ['counter', 1, 1, ['a']],
        ['kv', 0, 0, ['a', 'b']],
      ],
    );
    assert.deepEqual([...scene.ask<ReadonlySet<string>>((done) => scene.modules.knownNames(done))].toSorted(), [
      'counter',
      'kv',
    ]);
    assert.match(
      scene.refused((done) => scene.modules.show('nothing', done)),
      /UNKNOWN_MODULE/,
    );
  });

  test('pools are rolled when every worker has it, never back, and show which container fails', () => {
    const scene = new Scene();
    const create = (name: string, moduleVersion: number): void =>
      void scene.ask((done) => scene.pools.create({ name, module: 'counter', containers: 1, moduleVersion }, done));
    scene.deploy('one');
    scene.deploy('two');
    create('p', 1);
    create('later', 7);
    for (const node of ['a', 'b']) scene.load(node, { counter: [1, 2] });
    const roll = (done: Done<unknown>): void => scene.modules.roll('counter', undefined, done);
    assert.match(scene.refused(roll), /PRECONDITION: c cannot run version 2/);
    scene.load('c', { counter: [1, 2] });
    scene.ask(roll);
    assert.deepEqual(
      scene.show().pools.map(({ name, moduleVersion }) => [name, moduleVersion]),
      [
        ['later', 7],
        ['p', 2],
      ],
    );
    assert.match(
      scene.refused((done) => scene.modules.roll('counter', 9, done)),
      /PRECONDITION: there is no deployed version 9/,
    );
  });

  test('shows how far a pool has got, and the container that cannot be opened', () => {
    const scene = new Scene();
    const placer = new FakePlacer(scene.cluster, 2);
    placer.replacesCopies = false;
    placer.create(3, 'abc');
    placer.change('1', { phase: 'opening', failures: 2, note: 'a said no' });
    const module = scene.ask<readonly { readonly module: string }[]>((done) => scene.pools.list(done))[0]?.module ?? '';
    scene.load('a', { [module]: [0] });
    const { pools } = scene.show(module);
    assert.deepEqual(
      pools.map(({ current, containers, failing }) => [current, containers, failing]),
      [[2, 3, { container: 1, failures: 2, note: 'a said no' }]],
    );
  });
});

describe('records', () => {
  test('that cannot be read are none', () => {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    for (const text of ['', '[]', '{"last":1}', '{"last":1,"versions":[{}]}', '{"last":-1,"versions":[]}'])
      assert.equal(readModule(bytes(text)), undefined, text);
    assert.deepEqual([...readLoadedModules(bytes('{"a":[1,2],"b":"x","c":["y"]}'))], [['a', [1, 2]]]);
    assert.deepEqual([...readLoadedModules(bytes('nothing'))], []);
  });
});
