/** The modules that this node can run, by name and version; version 0 comes from its configuration. Bounded. */
import { RemusterError } from '../base/errors.ts';
import type { Cancel } from '../base/ports.ts';
import type { ModuleDefinition } from './module.ts';

export type KnownModule = { readonly definition: ModuleDefinition; readonly version: number };

const modulesMax = 1_000;

export class ModuleCatalog {
  /** By name, then by version. */
  readonly #byName = new Map<string, Map<number, ModuleDefinition>>();
  readonly #watchers = new Set<(added: KnownModule) => void>();
  #count = 0;

  get(name: string, version: number): ModuleDefinition | undefined {
    return this.#byName.get(name)?.get(version);
  }

  /** Throws PRECONDITION if another module has that name and version, CAPACITY if there are too many. */
  add(definition: ModuleDefinition, version = 0): void {
    const { name } = definition;
    const before = this.get(name, version);
    if (before === definition) return;
    if (before !== undefined) {
      throw new RemusterError(
        'PRECONDITION',
        `another module "${name}" of version ${version} is loaded: give this one another name or version`,
      );
    }
    if (this.#count >= modulesMax)
      throw new RemusterError('CAPACITY', `this node has ${modulesMax} modules, its maximum`);
    const versions = this.#byName.get(name) ?? new Map<number, ModuleDefinition>();
    versions.set(version, definition);
    this.#byName.set(name, versions);
    this.#count += 1;
    for (const watcher of [...this.#watchers]) watcher({ definition, version });
  }

  /** Containers that run the module go on. */
  remove(name: string, version: number): void {
    const versions = this.#byName.get(name);
    if (versions?.delete(version) !== true) return;
    this.#count -= 1;
    if (versions.size === 0) this.#byName.delete(name);
  }

  names(): readonly string[] {
    return [...this.#byName.keys()].toSorted();
  }

  /** The versions of one module, in ascending order. */
  versions(name: string): readonly number[] {
    return [...(this.#byName.get(name)?.keys() ?? [])].toSorted((a, b) => a - b);
  }

  /** Calls back for each module that is added from now on. */
  watch(added: (module: KnownModule) => void): Cancel {
    const watcher = (module: KnownModule): void => added(module);
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}
