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

class ModuleScenario {
  readonly cluster: DrainTestCluster = startedCluster(3, { mode: 'off' });
  readonly modules = new ModuleOperations(this.cluster.registry, this.cluster.clock);
  readonly pools = new PoolOperations(this.cluster.registry, this.cluster.clock);

  await<T>(start: (done: Done<T>) => void): T {
    const outcome = this.cluster.await(start);
    assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
    return outcome.value;
  }

  refused(start: (done: Done<unknown>) => void): string {
    const outcome = this.cluster.await(start);
    assert.ok(!outcome.ok);
    return `${outcome.error.code}: ${outcome.error.message}`;
  }

  deploy(text: string, name?: string): DeployedModule {
    return this.await<DeployedModule>((done) => this.modules.deploy(bundle(text, name), done));
  }

  show(name = 'counter'): ModuleDetails {
    return this.await<ModuleDetails>((done) => this.modules.show(name, done));
  }

  load(node: string, modules: Readonly<Record<string, readonly number[]>>): void {
    const value = encodeLoadedModules(new Map(Object.entries(modules)));
    this.write([{ kind: 'put', key: loadedModulesKey(this.cluster.node(node).id), value }]);
  }

  write(then: readonly RegistryOp[]): void {
    this.await((done) => this.cluster.registry.transact({ compare: [], then, otherwise: [] }, {}, done));
  }

  parts(): readonly string[] {
    const range = withPrefix('/module-parts/');
    return this.await<{ readonly entries: readonly { readonly key: string }[] }>((done) =>
      this.cluster.registry.range(range, { limit: 1_000 }, done),
    ).entries.map(({ key }) => key.slice('/module-parts/'.length));
  }

  code(version: number): string {
    const { versions } = this.await<{ record: { versions: readonly { version: number }[] } }>((done) =>
      new ModuleReader(this.cluster.registry, this.cluster.clock).find('counter', done),
    ).record as NonNullable<ReturnType<typeof readModule>>;
    const found = versions.find((one) => one.version === version);
    assert.ok(found);
    return new TextDecoder().decode(
      this.await<Uint8Array>((done) =>
        new ModuleReader(this.cluster.registry, this.cluster.clock).code('counter', found, done),
      ),
    );
  }
}

describe('deploying a module', () => {
  test('numbers versions from 1, stores the code in parts, and is idempotent for the newest version', () => {
    const scenario = new ModuleScenario();
    const first = scenario.deploy('one');
    assert.deepEqual([first.version, first.deployed, first.bytes, first.parts], [1, true, 3, 1]);
    assert.equal(scenario.deploy('one').deployed, false);
    const long = 'x'.repeat(moduleLimits.partBytesMax * 2 + 1);
    assert.deepEqual([scenario.deploy(long).version, scenario.deploy(long).parts], [2, 3]);
    assert.deepEqual([scenario.code(1), scenario.code(2) === long], ['one', true]);
    // Only the newest version is compared: older code is a new version.
    assert.deepEqual([scenario.deploy('one').version, scenario.deploy('one').deployed], [3, false]);
  });

  test('keeps the versions in use and five others, and deletes the rest with its code', () => {
    const scenario = new ModuleScenario();
    const placer = new FakePlacer(scenario.cluster, 2);
    for (let version = 1; version <= 3; version++) scenario.deploy(`v${version}`);
    scenario.await((done) =>
      scenario.pools.create({ name: 'p', module: 'counter', containers: 1, moduleVersion: 2 }, done),
    );
    for (let version = 4; version <= 10; version++) scenario.deploy(`v${version}`);
    assert.deepEqual(
      scenario.show().versions.map(({ version }) => version),
      [2, 5, 6, 7, 8, 9, 10],
    );
    assert.deepEqual(
      scenario.parts(),
      [2, 5, 6, 7, 8, 9, 10].map((version) => `counter/${String(version).padStart(8, '0')}/0`),
    );
    assert.ok(placer);
  });

  test('that was aborted leaves an unused number, and parts that the next deployment removes', () => {
    const scenario = new ModuleScenario();
    scenario.deploy('one');
    let outcome: Outcome<DeployedModule> | undefined;
    const { registry } = scenario.cluster;
    const failing = {
      range: registry.range.bind(registry),
      transact: (...[transaction, options, done]: Parameters<typeof registry.transact>) => {
        // The part is written; the record is not.
        const isLast = transaction.compare.length > 1;
        if (isLast) scenario.cluster.clock.schedule(0, () => done(failure('NO_QUORUM')));
        else registry.transact(transaction, options, done);
      },
    };
    new ModuleOperations(failing, scenario.cluster.clock).deploy(bundle('two'), (ended) => {
      outcome = ended;
    });
    scenario.cluster.until(() => outcome !== undefined, 5_000, 'an outcome');
    assert.equal(outcome?.ok, false);
    assert.deepEqual(scenario.parts(), ['counter/00000001/0', 'counter/00000002/0']);
    assert.equal(scenario.deploy('three').version, 3);
    assert.deepEqual(scenario.parts(), ['counter/00000001/0', 'counter/00000003/0']);
  });

  test('gives concurrent deployments different numbers, or refuses the lower one', () => {
    const scenario = new ModuleScenario();
    const ended: Outcome<DeployedModule>[] = [];
    for (const text of ['a', 'b', 'c']) scenario.modules.deploy(bundle(text), (outcome) => ended.push(outcome));
    scenario.cluster.until(() => ended.length === 3, 5_000, 'three outcomes');
    const versions = ended.flatMap((outcome) => (outcome.ok ? [outcome.value.version] : []));
    assert.equal(new Set(versions).size, versions.length);
    assert.ok(versions.includes(scenario.show().version));
    for (const outcome of ended) if (!outcome.ok) assert.equal(outcome.error.code, 'PRECONDITION');
    for (const { version } of scenario.show().versions) assert.equal(scenario.code(version).length, 1);
  });

  test('refuses a bundle or a total that is too large', () => {
    const scenario = new ModuleScenario();
    const deploying = (text: string, name?: string) => (done: Done<DeployedModule>) =>
      scenario.modules.deploy(bundle(text, name), done);
    assert.match(scenario.refused(deploying('x'.repeat(moduleLimits.bundleBytesMax + 1))), /TOO_LARGE/);
    const big = { version: 1, sha256: '0'.repeat(64), bytes: moduleLimits.allBytesMax, parts: 1, deployedWallMs: 0 };
    scenario.write([{ kind: 'put', key: moduleKey('big'), value: encodeModule({ last: 1, versions: [big] }) }]);
    assert.match(scenario.refused(deploying('y')), /CAPACITY: all modules together/);
  });
});

describe('reading modules', () => {
  test('lists deployed modules and those from the configuration of nodes', () => {
    const scenario = new ModuleScenario();
    scenario.load('a', { kv: [0], counter: [0, 1] });
    scenario.load('b', { kv: [0] });
    scenario.deploy('one');
    const rows = scenario.await<readonly ModuleRow[]>((done) => scenario.modules.list(done));
    assert.deepEqual(
      rows.map(({ name, version, versions, loadedBy }) => [name, version, versions, loadedBy]),
      [
        ['counter', 1, 1, ['a']],
        ['kv', 0, 0, ['a', 'b']],
      ],
    );
    assert.deepEqual([...scenario.await<ReadonlySet<string>>((done) => scenario.modules.knownNames(done))].toSorted(), [
      'counter',
      'kv',
    ]);
    assert.match(
      scenario.refused((done) => scenario.modules.show('nothing', done)),
      /UNKNOWN_MODULE/,
    );
  });

  test('rolls pools once every worker has loaded the version, and never back', () => {
    const scenario = new ModuleScenario();
    const create = (name: string, moduleVersion: number): void =>
      void scenario.await((done) =>
        scenario.pools.create({ name, module: 'counter', containers: 1, moduleVersion }, done),
      );
    scenario.deploy('one');
    scenario.deploy('two');
    create('p', 1);
    create('later', 7);
    for (const node of ['a', 'b']) scenario.load(node, { counter: [1, 2] });
    const roll = (done: Done<unknown>): void => scenario.modules.roll('counter', undefined, done);
    assert.match(scenario.refused(roll), /PRECONDITION: version 2 of counter is not loaded yet on c/);
    scenario.load('c', { counter: [1, 2] });
    scenario.await(roll);
    assert.deepEqual(
      scenario.show().pools.map(({ name, moduleVersion }) => [name, moduleVersion]),
      [
        ['later', 7],
        ['p', 2],
      ],
    );
    assert.match(
      scenario.refused((done) => scenario.modules.roll('counter', 9, done)),
      /PRECONDITION: there is no deployed version 9/,
    );
  });

  test('shows how far a pool is rolled, and the container that fails to open', () => {
    const scenario = new ModuleScenario();
    const placer = new FakePlacer(scenario.cluster, 2);
    placer.replacesReplicas = false;
    placer.create(3, 'abc');
    placer.change('1', { phase: 'opening', failures: 2, note: 'a refused' });
    const module =
      scenario.await<readonly { readonly module: string }[]>((done) => scenario.pools.list(done))[0]?.module ?? '';
    scenario.load('a', { [module]: [0] });
    const { pools } = scenario.show(module);
    assert.deepEqual(
      pools.map(({ current, containers, failing }) => [current, containers, failing]),
      [[2, 3, { container: 1, failures: 2, note: 'a refused' }]],
    );
  });
});

describe('module records', () => {
  test('read as undefined if they are malformed', () => {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    for (const text of ['', '[]', '{"last":1}', '{"last":1,"versions":[{}]}', '{"last":-1,"versions":[]}'])
      assert.equal(readModule(bytes(text)), undefined, text);
    assert.deepEqual([...readLoadedModules(bytes('{"a":[1,2],"b":"x","c":["y"]}'))], [['a', [1, 2]]]);
    assert.deepEqual([...readLoadedModules(bytes('nothing'))], []);
  });
});
