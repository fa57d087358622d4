/**
 * Types of workloads, observations and properties. Workloads report facts and never judge; properties judge and never
 * act.
 */
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { GroupObservation } from './group-observations.ts';
import type { JobObservation } from './job-observations.ts';
import type { PoolObservation } from './pool-observations.ts';
import type { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';

export type Observation =
  | GroupObservation
  | JobObservation
  | PoolObservation
  | {
      readonly kind: 'requestStarted';
      readonly node: string;
      readonly request: number;
      /** In the caller's own time. */
      readonly timeoutMs: number;
    }
  | {
      readonly kind: 'requestEnded';
      readonly node: string;
      readonly request: number;
      readonly code: ErrorCode | 'OK';
      /** How long after its deadline it ended, by the caller's clock and without pauses of the caller. */
      readonly lateMs: number;
    }
  /**
   * A node processed a message: `from` is the sender by the port, `claims` the sender and receiver that an echo names.
   */
  | { readonly kind: 'messageReceived'; readonly node: string; readonly from: string; readonly claims?: EchoEndpoints }
  /** A node starts to listen: from now on others may meet this generation of it. */
  | { readonly kind: 'listening'; readonly node: string; readonly generation: number }
  /** A peer received the announcement of `node` that it has reached `value`. */
  | { readonly kind: 'announced'; readonly node: string; readonly to: string; readonly value: number }
  | { readonly kind: 'transferStarted'; readonly node: string; readonly transfer: number }
  | {
      readonly kind: 'transferEnded';
      readonly node: string;
      readonly transfer: number;
      readonly ok: boolean;
      /** The receiver confirmed that every byte arrived, in its place. */
      readonly confirmed: boolean;
    }
  /** A node changed the state of another member in its view. */
  | {
      readonly kind: 'memberStateChanged';
      readonly node: string;
      readonly about: string;
      readonly state: 'alive' | 'suspect' | 'dead' | 'left';
      readonly generation: number;
      readonly incarnation: number;
    }
  /** A manager bootstrapped a consensus group. */
  | { readonly kind: 'groupFormed'; readonly node: string }
  /** A write to the registry was acknowledged; the keys that the registry has at the end. */
  | { readonly kind: 'writeAcknowledged'; readonly key: string }
  | { readonly kind: 'keysFound'; readonly keys: readonly string[] }
  | {
      readonly kind: 'registrations';
      readonly nodes: readonly {
        readonly node: string;
        readonly status: string;
        readonly leader: string | undefined;
      }[];
    }
  | { readonly kind: 'started' | 'stopped'; readonly node: string }
  /** The faults are over and all nodes are up. */
  | { readonly kind: 'healed' };

export type EchoEndpoints = { readonly from: string; readonly to: string };

/** A workload under way. */
export type WorkloadRun = {
  readonly world: SimulatedWorld<unknown>;
  /** Starts the work. All nodes have been started. */
  start(): void;
  /** The faults are over and all nodes are up. */
  healed?(): void;
  /** Starts no new work from now on. */
  stopWork(): void;
  /** The cluster that a node belongs to. */
  clusterOf(node: string): string;
  /** The alive members in the view of each running node. */
  aliveViews(): ReadonlyMap<string, readonly string[]>;
  /** The number on a node's disk at this instant; 0 if there is none. */
  durableValue(node: string): number;
};

export type WorkloadContext = {
  readonly seed: string;
  readonly names: readonly string[];
  readonly detailed: boolean;
  readonly sink: ((line: string) => void) | undefined;
  readonly observe: (observation: Observation) => void;
};

export type Workload = (context: WorkloadContext) => WorkloadRun;

/** Each method returns the text of a violation, or undefined. */
export type PropertyChecker = {
  observe?(observation: Observation): string | undefined;
  /** After faults, healing and quiet. */
  atEnd?(): string | undefined;
};

export type Property = (run: WorkloadRun) => PropertyChecker;
