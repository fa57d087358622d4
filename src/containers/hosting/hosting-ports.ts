/** What hosting needs of its node, and the events it emits. Types only. */
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Identity, Log } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { ActivationReason } from '../../placement/state/container-records.ts';
import type { CallSession, ContainerReplication, ServingLease } from '../contract.ts';
import type { ModuleDefinition, NodeInfo } from '../module.ts';

export type HostingEvent =
  | {
      readonly kind: 'opened';
      readonly pool: string;
      readonly container: number;
      readonly fence: Fence;
      readonly opening: ActivationReason;
    }
  | {
      readonly kind: 'closed';
      readonly pool: string;
      readonly container: number;
      readonly fence: Fence;
      readonly reason: string;
    };

export type HostingPorts = {
  readonly self: Pick<Identity, 'id' | 'name' | 'generation'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly lease: ServingLease;
  readonly replication: Pick<ContainerReplication, 'open' | 'updateRecord'>;
  readonly modules: {
    get(name: string, version: number): ModuleDefinition | undefined;
    /** Calls back when a module was loaded. */
    watch(changed: () => void): Cancel;
  };
  /** The caller session of methods that call other containers; requested at the first such call. */
  readonly session: (name: string) => CallSession;
  readonly nodeInfo: (node: NodeId) => NodeInfo | undefined;
  readonly emit: (event: HostingEvent) => void;
  readonly onHalt: (error: unknown) => void;
};
