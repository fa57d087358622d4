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
      /** How long after its deadline it ended by the caller's own clock, stalls of the caller taken off. */
      readonly lateMs: number;
    }
  /** A node took a message in: who it came from by the port's word, and by the message's own word if it says so. */
  | { readonly kind: 'heard'; readonly node: string; readonly from: string; readonly claims?: EchoEndpoints }
  /** A node begins to listen: from now on others may meet this life of it. */
  | { readonly kind: 'listens'; readonly node: string; readonly generation: number }
  /** A peer has heard that `node` has reached `value`. */
  | { readonly kind: 'announced'; readonly node: string; readonly to: string; readonly value: number }
  | { readonly kind: 'transferStarted'; readonly node: string; readonly transfer: number }
  | {
      readonly kind: 'transferEnded';
      readonly node: string;
      readonly transfer: number;
      readonly ok: boolean;
      /** The receiver has said that every byte came, in its place. */
      readonly confirmed: boolean;
    }
  /** A node has changed its mind about a life of another one. */
  | {
      readonly kind: 'believes';
      readonly node: string;
      readonly about: string;
      readonly state: 'alive' | 'suspect' | 'dead' | 'left';
      readonly generation: number;
      readonly incarnation: number;
    }
  /** A manager has begun a group of managers. */
  | { readonly kind: 'groupBegan'; readonly node: string }
  /** A write to the registry was acknowledged; what is there in the end. */
  | { readonly kind: 'wrote'; readonly key: string }
  | { readonly kind: 'found'; readonly keys: readonly string[] }
  | {
      readonly kind: 'registrations';
      readonly standings: readonly {
        readonly node: string;
        readonly standing: string;
        readonly leader: string | undefined;
      }[];
    }
  | { readonly kind: 'started' | 'stopped'; readonly node: string }
  /** The faults are over and everybody is up. */
  | { readonly kind: 'healed' };

export type EchoEndpoints = { readonly from: string; readonly to: string };

/** A workload that is under way. */
export type WorkloadRun = {
  readonly world: SimulatedWorld<unknown>;
  /** Begins to work. All nodes have been started. */
  start(): void;
  /** The faults are over and everybody is up. */
  healed?(): void;
  /** Makes no new work from now on. */
  stopWork(): void;
  /** The cluster that a node belongs to. */
  clusterOf(node: string): string;
  /** Whom each running node believes to be alive. */
  aliveViews(): ReadonlyMap<string, readonly string[]>;
  /** The number that a node's disk holds, as it stands; 0 if it holds none. */
  durableValue(node: string): number;
};

export type WorkloadContext = {
  readonly seed: string;
  readonly names: readonly string[];
  readonly detailed: boolean;
  readonly sink: ((line: string) => void) | undefined;
  readonly observe: (observation: Observation) => void;
};

export type Workload = (spec: WorkloadContext) => WorkloadRun;

/** Each method answers with what is wrong, or with nothing. */
export type PropertyChecker = {
  observe?(observation: Observation): string | undefined;
  /** After faults, healing and quiet. */
  atEnd?(): string | undefined;
};

export type Property = (stage: WorkloadRun) => PropertyChecker;
