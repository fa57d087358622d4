/**
 * A bound port of a simulated host: the process that listens, its identity, and what it does with arrivals. Only peers
 * of the same `cluster` reach it, as with the secret of a real cluster.
 */
import type { Identity } from '../../base/ports.ts';
import type { SimulatedProcess } from '../engine/simulated-process.ts';
import type { SimulatedHost } from './simulated-host.ts';
import type { SimulatedConnection } from './simulated-connection.ts';

export type BoundPort = {
  readonly host: SimulatedHost;
  readonly process: SimulatedProcess;
  readonly identity: Identity;
  readonly cluster: string;
  /** Set when the process registers a receiver of datagrams. */
  datagram?: (from: Identity, body: Uint8Array) => void;
  /** Set by the Streams port; called with the caller's side of a new connection. */
  accept?: (caller: SimulatedConnection) => void;
};
