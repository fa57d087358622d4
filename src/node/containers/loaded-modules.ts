/**
 * Publishes which modules this node can run, under its registration lease. Writes only on change or under a new lease.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { LeaseId, Registry } from '../../base/registry.ts';
import type { ModuleCatalog } from '../../containers/module-catalog.ts';
import { loadedModulesKey } from '../../placement/modules/module-keys.ts';
import { encodeLoadedModules } from '../../placement/modules/module-records.ts';

export type LoadedModulesPorts = {
  readonly registry: Pick<Registry, 'transact'>;
  readonly clock: Clock;
  readonly modules: ModuleCatalog;
  /** That of the registration. */
  readonly lease: () => LeaseId | undefined;
};

const lookMs = 1_000;
const timeoutMs = 5_000;

/** Until it is cancelled. */
export function publishLoadedModules(self: NodeId, ports: LoadedModulesPorts): Cancel {
  const { registry, clock, modules } = ports;
  const key = loadedModulesKey(self);
  /** What stands there, as far as we know. */
  let standing = '';
  let isWriting = false;
  let cancel: Cancel = () => {};
  const look = (): void => {
    cancel();
    cancel = clock.schedule(lookMs, look);
    const lease = ports.lease();
    if (lease === undefined || isWriting) return;
    const value = encodeLoadedModules(new Map(modules.names().map((name) => [name, modules.versions(name)])));
    const wanted = `${lease} ${new TextDecoder().decode(value)}`;
    if (wanted === standing) return;
    isWriting = true;
    const then = [{ kind: 'put', key, value, lease }] as const;
    registry.transact({ compare: [], then, otherwise: [] }, { timeoutMs }, (outcome) => {
      isWriting = false;
      // After an error it is not known what stands there: the next look writes.
      standing = outcome.ok ? wanted : '';
      if (outcome.ok) look();
    });
  };
  const unwatch = modules.watch(look);
  look();
  return () => {
    unwatch();
    cancel();
    isWriting = true;
  };
}
