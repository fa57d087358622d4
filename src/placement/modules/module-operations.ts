/** Deploys, lists, shows and rolls modules, on any node. Runs no module code; the placer reopens the containers. */
import { type Done, failure, success, withPossibleEffect } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import type { Registry, RegistryEntry } from '../../base/registry.ts';
import { ClusterView } from '../state/cluster-view.ts';
import { keyRanges } from '../../registry/cluster-keys.ts';
import { PoolOperations } from '../operations/pool-operations.ts';
import { PoolReader } from '../operations/pool-reader.ts';
import { type ModuleBundle, type DeployedModule, ModuleDeployment } from './module-deployment.ts';
import { ModuleReader, type PoolUsingModule } from './module-reader.ts';
import {
  type ModuleRow,
  type ModuleDetails,
  type ModulePoolStatus,
  type WorkerModules,
  moduleRow,
  moduleDetails,
  modulePoolCounter,
} from './module-views.ts';
import { type LoadedModules, newestVersionOf } from './module-records.ts';

export class ModuleOperations {
  readonly #ports: { readonly registry: Pick<Registry, 'range' | 'transact'>; readonly clock: Clock };
  readonly #reader: ModuleReader;

  constructor(registry: Pick<Registry, 'range' | 'transact'>, clock: Clock) {
    this.#ports = { registry, clock };
    this.#reader = new ModuleReader(registry, clock);
  }

  /** Idempotent: deploying the newest version again is no error. */
  deploy(bundle: ModuleBundle, done: Done<DeployedModule>): void {
    new ModuleDeployment(this.#ports, bundle, done).start();
  }

  /** The version for a new pool of that module; undefined if the module was never deployed. */
  newestVersion(name: string, done: Done<number | undefined>): void {
    this.#reader.find(name, (outcome) =>
      done(outcome.ok ? success(newestVersionOf(outcome.value.record)?.version) : outcome),
    );
  }

  /** Names of all modules that registered nodes have loaded, deployed or configured. */
  knownNames(done: Done<ReadonlySet<string>>): void {
    this.#reader.loadedByNode((outcome) => {
      if (!outcome.ok) return done(outcome);
      const names = new Set<string>();
      for (const modules of outcome.value.values()) for (const name of modules.keys()) names.add(name);
      done(success(names));
    });
  }

  list(done: Done<readonly ModuleRow[]>): void {
    this.#reader.list((records) => {
      if (!records.ok) return done(records);
      this.#readWorkers((workers) => {
        if (!workers.ok) return done(workers);
        const names = new Set([...records.value.keys(), ...workers.value.flatMap(({ loaded }) => [...loaded.keys()])]);
        const inOrder = [...names].toSorted();
        done(success(inOrder.map((name) => moduleRow(name, records.value.get(name), workers.value))));
      });
    });
  }

  show(name: string, done: Done<ModuleDetails>): void {
    this.#reader.find(name, (found) => {
      if (!found.ok) return done(found);
      this.#readWorkers((workers) => {
        if (!workers.ok) return done(workers);
        const isKnown = workers.value.some(({ loaded }) => loaded.has(name));
        if (newestVersionOf(found.value.record) === undefined && !isKnown)
          return done(failure('UNKNOWN_MODULE', `there is no module ${name}`));
        this.#poolStatuses(name, (pools) => {
          done(pools.ok ? success(moduleDetails(name, found.value.record, workers.value, pools.value)) : pools);
        });
      });
    });
  }

  /**
   * Rolls all pools of the module to that version, except pools with a later one. PRECONDITION while a worker has not
   * loaded the version: containers could not be opened there.
   */
  roll(name: string, version: number | undefined, done: Done<readonly PoolUsingModule[]>): void {
    this.show(name, (shown) => {
      if (!shown.ok) return done(shown);
      const wanted = shown.value.versions.find((row) => row.version === (version ?? shown.value.version));
      if (wanted === undefined || wanted.version === 0)
        return done(failure('PRECONDITION', `there is no deployed version ${version ?? ''} of ${name}`, 'no'));
      if (wanted.missingOn.length > 0)
        return done(
          failure(
            'PRECONDITION',
            `version ${wanted.version} of ${name} is not loaded yet on ${wanted.missingOn.join(', ')}`,
            'no',
          ),
        );
      this.#reader.pools(name, (pools) => {
        if (!pools.ok) return done(pools);
        const active = pools.value.filter(({ record }) => record.state === 'active');
        this.#rollPools([...active], wanted.version, done, active);
      });
    });
  }

  #rollPools(
    left: PoolUsingModule[],
    version: number,
    done: Done<readonly PoolUsingModule[]>,
    all: readonly PoolUsingModule[],
  ): void {
    const pool = left.shift();
    if (pool === undefined) return done(success(all));
    const { registry, clock } = this.#ports;
    new PoolOperations(registry, clock).setModuleVersion(pool.name, version, (outcome) => {
      if (outcome.ok || outcome.error.code === 'UNKNOWN_POOL') return this.#rollPools(left, version, done, all);
      const isFirst = left.length === all.length - 1;
      done(isFirst ? outcome : { ok: false, error: withPossibleEffect(outcome.error) });
    });
  }

  /** Every registered worker with the modules that it has loaded. */
  #readWorkers(done: Done<readonly WorkerModules[]>): void {
    const { registry, clock } = this.#ports;
    this.#reader.loadedByNode((loaded) => {
      if (!loaded.ok) return done(loaded);
      const entries: RegistryEntry[] = [];
      const take = (entry: RegistryEntry): void => void entries.push(entry);
      new PoolReader(registry, clock).readPages(keyRanges.nodeDirectory, take, (outcome) => {
        if (!outcome.ok) return done(outcome);
        const view = ClusterView.from(entries, 0, clock.nowMs());
        done(success(workersIn(view, loaded.value)));
      });
    });
  }

  #poolStatuses(name: string, done: Done<readonly ModulePoolStatus[]>): void {
    this.#reader.pools(name, (pools) => {
      if (!pools.ok) return done(pools);
      const statuses: ModulePoolStatus[] = [];
      const next = (left: readonly PoolUsingModule[]): void => {
        const [pool, ...rest] = left;
        if (pool === undefined) return done(success(statuses));
        const counter = modulePoolCounter(pool.name, pool.record);
        this.#reader.containers(
          pool.name,
          (id, record) => counter.add(id, record),
          (outcome) => {
            if (!outcome.ok) return done(outcome);
            statuses.push(counter.result());
            next(rest);
          },
        );
      };
      next(pools.value);
    });
  }
}

function workersIn(view: ClusterView, loaded: ReadonlyMap<NodeId, LoadedModules>): readonly WorkerModules[] {
  const workers = [...view.nodes.values()].filter(({ isWorker, registered }) => isWorker && registered !== undefined);
  return workers
    .map(({ id, name }) => ({ name, loaded: loaded.get(id) ?? new Map() }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
