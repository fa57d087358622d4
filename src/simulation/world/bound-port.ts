/**
 * A bound port of a simulated host: who listens and what it does with arrivals. Enforces cluster membership as sealing
 * would.
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
  /** Set by the datagram port once somebody receives. */
  datagram?: (from: Identity, body: Uint8Array) => void;
  /** Set by the stream port: the other side's connection arrives here. */
  accept?: (caller: SimulatedConnection) => void;
};
