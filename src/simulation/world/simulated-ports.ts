/** All ports of one simulated process, made for one life of it. Reaches nothing but its world. */
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
  /** Binds the port of that identity on this host. Only members of the same cluster hear each other. */
  listen(identity: Identity, cluster: string): { readonly datagrams: Datagrams; readonly streams: Streams };
};

export function openSimulatedPorts(
  board: ConnectionTable,
  host: SimulatedHost,
  life: SimulatedProcess,
): SimulatedPorts {
  const clock = host.clock(life);
  return {
    clock,
    files: simulatedFiles(host.disk, life),
    threads: simulatedThreads(life, (child) => host.clock(child)),
    runners: simulatedRunners(life, (child) => host.clock(child)),
    openStore: (name) => simulatedStore(host.disk, life, name, board.rare),
    listen: (identity, cluster) => {
      const listener = bind(host, life, identity, cluster);
      return {
        datagrams: simulatedDatagrams(board, listener),
        streams: simulatedStreams(board, listener, clock),
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
