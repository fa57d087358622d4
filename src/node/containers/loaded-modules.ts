/** Publishes which modules this node can run, under its registration lease. Writes only on a change or a new lease. */
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
  /** The lease of the registration. */
  readonly lease: () => LeaseId | undefined;
};

const pollMs = 1_000;
const timeoutMs = 5_000;

/** Publishes until it is cancelled. */
export function publishLoadedModules(self: NodeId, ports: LoadedModulesPorts): Cancel {
  const { registry, clock, modules } = ports;
  const key = loadedModulesKey(self);
  /** The lease and value last written, as far as known. */
  let written = '';
  let isWriting = false;
  let cancel: Cancel = () => {};
  const poll = (): void => {
    cancel();
    cancel = clock.schedule(pollMs, poll);
    const lease = ports.lease();
    if (lease === undefined || isWriting) return;
    const value = encodeLoadedModules(new Map(modules.names().map((name) => [name, modules.versions(name)])));
    const current = `${lease} ${new TextDecoder().decode(value)}`;
    if (current === written) return;
    isWriting = true;
    const then = [{ kind: 'put', key, value, lease }] as const;
    registry.transact({ compare: [], then, otherwise: [] }, { timeoutMs }, (outcome) => {
      isWriting = false;
      // After an error the stored value is unknown, so the next poll writes.
      written = outcome.ok ? current : '';
      if (outcome.ok) poll();
    });
  };
  const unwatch = modules.watch(poll);
  poll();
  return () => {
    unwatch();
    cancel();
    isWriting = true;
  };
}
