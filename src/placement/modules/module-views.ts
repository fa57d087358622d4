/** Modules as the CLI and the HTTP API show them: versions, the workers that have loaded them, their pools. Pure. */
import type { ContainerRecord, PoolRecord } from '../state/container-records.ts';
import { type LoadedModules, type ModuleRecord, type ModuleVersion, newestVersionOf } from './module-records.ts';

export type WorkerModules = { readonly name: string; readonly loaded: LoadedModules };

/** A module in a list. */
export type ModuleRow = {
  readonly name: string;
  /** The newest version; 0 for a module from the configuration of nodes. */
  readonly version: number;
  readonly versions: number;
  readonly bytes: number;
  readonly deployedAt: string | null;
  /** Names of the workers that have loaded the newest version. */
  readonly loadedBy: readonly string[];
};

export type ModuleVersionView = {
  readonly version: number;
  readonly sha256: string | null;
  readonly bytes: number;
  readonly deployedAt: string | null;
  readonly loadedBy: readonly string[];
  /** Names of the workers that have not loaded it. */
  readonly missingOn: readonly string[];
};

/** How far a pool of the module has been rolled to its version. */
export type ModulePoolStatus = {
  readonly name: string;
  readonly state: PoolRecord['state'];
  readonly moduleVersion: number;
  readonly containers: number;
  /** Containers that are served with the version of the pool. */
  readonly current: number;
  /** The container that fails to open with that version, which stops the roll. */
  readonly failing: { readonly container: number; readonly failures: number; readonly note: string } | null;
};

export type ModuleDetails = Omit<ModuleRow, 'versions' | 'loadedBy'> & {
  readonly versions: readonly ModuleVersionView[];
  readonly pools: readonly ModulePoolStatus[];
};

export function moduleRow(
  name: string,
  record: ModuleRecord | undefined,
  workers: readonly WorkerModules[],
): ModuleRow {
  const newest = newestVersionOf(record);
  const version = newest?.version ?? 0;
  return {
    name,
    version,
    versions: record?.versions.length ?? 0,
    bytes: newest?.bytes ?? 0,
    deployedAt: newest === undefined ? null : iso(newest),
    loadedBy: workersWith(workers, name, version).map((worker) => worker.name),
  };
}

export function moduleDetails(
  name: string,
  record: ModuleRecord,
  workers: readonly WorkerModules[],
  pools: readonly ModulePoolStatus[],
): ModuleDetails {
  const { versions: _, loadedBy: __, ...row } = moduleRow(name, record, workers);
  const versionView = (version: number, deployed?: ModuleVersion): ModuleVersionView => {
    const loaded = workersWith(workers, name, version);
    return {
      version,
      sha256: deployed?.sha256 ?? null,
      bytes: deployed?.bytes ?? 0,
      deployedAt: deployed === undefined ? null : iso(deployed),
      loadedBy: loaded.map((worker) => worker.name),
      missingOn: workers.filter((worker) => !loaded.includes(worker)).map((worker) => worker.name),
    };
  };
  const isConfigured = workersWith(workers, name, 0).length > 0;
  const versions = [
    ...(isConfigured ? [versionView(0)] : []),
    ...record.versions.map((deployed) => versionView(deployed.version, deployed)),
  ];
  return { ...row, versions, pools };
}

export function modulePoolCounter(
  name: string,
  record: PoolRecord,
): { add(id: number, container: ContainerRecord): void; result(): ModulePoolStatus } {
  const { state, moduleVersion, containers } = record;
  let current = 0;
  let failing: ModulePoolStatus['failing'] = null;
  return {
    add: (container, { moduleVersion: version, phase, failures, note }) => {
      if (version !== moduleVersion) return;
      if (phase === 'serving') current += 1;
      else if (failures > (failing?.failures ?? 0)) failing = { container, failures, note };
    },
    result: () => ({ name, state, moduleVersion, containers, current, failing }),
  };
}

function workersWith(workers: readonly WorkerModules[], name: string, version: number): readonly WorkerModules[] {
  return workers.filter(({ loaded }) => loaded.get(name)?.includes(version) === true);
}

function iso({ deployedWallMs }: ModuleVersion): string {
  return new Date(deployedWallMs).toISOString();
}
