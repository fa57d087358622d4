/** All ports of one simulated process. They reach nothing outside of its world. */
import { assert } from '../../base/assert.ts';
import type { Clock, Datagrams, Files, Identity, Runners, Store, Streams, Threads } from '../../base/ports.ts';
import { simulatedDatagrams } from './simulated-datagrams.ts';
import { simulatedFiles } from './simulated-files.ts';
import type { SimulatedHost } from './simulated-host.ts';
import type { SimulatedProcess } from '../engine/simulated-process.ts';
import type { BoundPort } from './bound-port.ts';
import { simulatedRunners, simulatedThreads } from './simulated-programs.ts';
import { simulatedStore } from './simulated-store.ts';
import { simulatedStreams } from './simulated-streams.ts';
import type { ConnectionTable } from './connection-table.ts';

export type SimulatedPorts = {
  readonly clock: Clock;
  readonly files: Files;
  readonly threads: Threads;
  readonly runners: Runners;
  openStore(name: string): Store;
  /** Binds the port of that identity on this host. Only members of the same cluster exchange messages. */
  listen(identity: Identity, cluster: string): { readonly datagrams: Datagrams; readonly streams: Streams };
};

export function openSimulatedPorts(
  table: ConnectionTable,
  host: SimulatedHost,
  process: SimulatedProcess,
): SimulatedPorts {
  const clock = host.clock(process);
  return {
    clock,
    files: simulatedFiles(host.disk, process),
    threads: simulatedThreads(process, (child) => host.clock(child)),
    runners: simulatedRunners(process, (child) => host.clock(child)),
    openStore: (name) => simulatedStore(host.disk, process, name, table.failpoints),
    listen: (identity, cluster) => {
      const listener = bind(host, process, identity, cluster);
      return {
        datagrams: simulatedDatagrams(table, listener),
        streams: simulatedStreams(table, listener, clock),
      };
    },
  };
}

function bind(host: SimulatedHost, process: SimulatedProcess, identity: Identity, cluster: string): BoundPort {
  assert(identity.host === host.address, `${host.name} cannot listen on ${identity.host}`);
  assert(!host.listeners.has(identity.port), `port ${identity.port} of ${host.name} is in use`);
  const listener: BoundPort = { host, process, identity, cluster };
  host.listeners.set(identity.port, listener);
  return listener;
}
