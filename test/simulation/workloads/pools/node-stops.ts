/**
 * Stops nodes in order, as SIGTERM does, and starts them again: one at a time, while every container has all its
 * replicas. Reports what each of them did not hand over.
 */
import type { NodeId } from '../../../../src/base/ids.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { ContainerRecord } from '../../../../src/placement/state/container-records.ts';
import type { ContainerLabel, RegistryOracle } from '../../../../src/simulation/cluster/registry-oracle.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import type { WorkloadContext } from '../../checking/workload.ts';

export type NodeStopsOptions = {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly random: Random;
  readonly oracle: RegistryOracle;
  readonly observe: WorkloadContext['observe'];
};

const budgetMs = 10_000;
const pauseMsMax = 1_500;
const downMsMax = 3_000;

export class NodeStops {
  readonly #options: NodeStopsOptions;
  #isStopped = false;

  constructor(options: NodeStopsOptions) {
    this.#options = options;
  }

  start(): void {
    const { world, random } = this.#options;
    world.timeline.after(random.between(500, pauseMsMax), () => {
      if (this.#isStopped) return;
      if (this.#isWhole()) this.#stop(random.pick(world.names));
      else this.start();
    });
  }

  /** No further node is stopped; one that is down still returns. */
  stop(): void {
    this.#isStopped = true;
  }

  #stop(node: string): void {
    const { world, random, observe } = this.#options;
    const core = world.program(node)?.core;
    if (core === undefined) return this.start();
    const { id } = core.identity;
    const owned = this.#ownedBy(id);
    world.log.add('world', `operator: stops ${node}`);
    world.host(node).process?.run(() => {
      const ended = (): void => {
        const kept = owned.filter((name) => !this.#isHandedOver(name, id));
        observe({ kind: 'nodeStopped', node, owned: owned.length, kept });
        world.crash(node, 'kept');
        world.timeline.after(random.between(200, downMsMax), () => {
          if (!world.isUp(node)) world.start(node);
          this.start();
        });
      };
      core.stop(() => world.timeline.after(0, ended), 'SIGTERM', budgetMs);
    });
  }

  #isWhole(): boolean {
    const { world, oracle } = this.#options;
    const isRegistered = ({ core }: SimulatedNode): boolean =>
      core?.control?.registration.registrationStatusOf(core.identity.id) === 'active';
    if (!world.names.every((name) => isRegistered(world.program(name) ?? {}))) return false;
    const names = oracle.containers();
    return names.length > 0 && names.every((name) => isSettled(oracle.record(name)));
  }

  #ownedBy(id: NodeId): readonly ContainerLabel[] {
    const { oracle } = this.#options;
    return oracle.containers().filter((name) => oracle.record(name)?.owner?.node === id);
  }

  #isHandedOver(name: ContainerLabel, by: NodeId): boolean {
    const record = this.#options.oracle.record(name);
    return record === undefined || (record.owner?.node !== by && record.opening === 'migrate');
  }
}

function isSettled(record: ContainerRecord | undefined): boolean {
  if (record?.phase !== 'serving' || record.move !== undefined) return false;
  return record.copies.length > 1 && record.inSync.length === record.copies.length;
}
