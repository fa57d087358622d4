/**
 * All ports of one simulated process, made for one life of it. A program that holds them cannot tell that the world is
 * pretended, and cannot reach anything but this world.
 */
import { assert } from '../base/assert.ts';
import type { Clock, Datagrams, Files, Identity, Runners, Store, Streams, Threads } from '../base/ports.ts';
import { simulatedDatagrams } from './datagrams.ts';
import { simulatedFiles } from './files.ts';
import type { Host } from './host.ts';
import type { Life } from './life.ts';
import type { Listener } from './listener.ts';
import { simulatedRunners, simulatedThreads } from './programs.ts';
import { simulatedStore } from './store.ts';
import { simulatedStreams } from './streams.ts';
import type { Switchboard } from './switchboard.ts';

export type NodePorts = {
  readonly clock: Clock;
  readonly files: Files;
  readonly threads: Threads;
  readonly runners: Runners;
  openStore(name: string): Store;
  /** Binds the port of that identity on this host. Only members of the same cluster hear each other. */
  listen(identity: Identity, cluster: string): { readonly datagrams: Datagrams; readonly streams: Streams };
};

export function nodePorts(board: Switchboard, host: Host, life: Life): NodePorts {
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

function bind(host: Host, life: Life, identity: Identity, cluster: string): Listener {
  assert(identity.host === host.address, `${host.name} cannot listen on ${identity.host}`);
  assert(!host.listeners.has(identity.port), `port ${identity.port} of ${host.name} is in use`);
  const listener: Listener = { host, life, identity, cluster };
  host.listeners.set(identity.port, listener);
  return listener;
}
