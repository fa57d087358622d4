/**
 * Workload of whole nodes with a control plane: registrations and registry writes. Reports the registered nodes and the
 * acknowledged writes.
 */
import type { Clock } from '../../../../src/base/ports.ts';
import { Random } from '../../../../src/base/random.ts';
import type { Registry } from '../../../../src/base/registry.ts';
import {
  simulatedAddress,
  aliveMembersOf,
  bootSimulatedNode,
  type SimulatedNode,
} from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadRun, WorkloadContext } from '../../checking/workload.ts';
import { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

const managersCount = 3;
const writeEveryMs = 400;
const writeTimeoutMs = 4_000;
const settledMs = 4_000;
/** Short, so that registrations expire in a run of a minute. */
const registrationTtlMs = 8_000;

export function controlPlaneWorkload(context: WorkloadContext): WorkloadRun {
  const workload = new ControlPlaneWorkload(context);
  return {
    world: workload.world,
    clusterOf: () => 'simulated',
    start: () => workload.start(),
    stopWork: () => workload.stopWork(),
    aliveViews: () => workload.aliveViews(),
    durableValue: () => 0,
  };
}

class ControlPlaneWorkload {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #names: readonly string[];
  readonly #observe: WorkloadContext['observe'];
  readonly #random: Random;
  #isStopped = false;
  #writes = 0;

  constructor({ seed, names, detailed, sink, observe }: WorkloadContext) {
    this.#names = names;
    this.#observe = observe;
    this.#random = new Random(seed).fork('controlled');
    const managers = names.slice(0, managersCount);
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names, detailed, sink },
      boot: (ports, context) => {
        const { name } = context;
        const node = bootSimulatedNode(ports, context, {
          join: managers.map((manager) => simulatedAddress(this.world, manager)),
          roles: (one) => (managers.includes(one) ? ['manager'] : ['worker']),
          options: { registry: 'embedded', registrationTtlMs },
        });
        this.#followEvents(ports.clock, name, node);
        return node;
      },
    });
  }

  start(): void {
    this.world.timeline.after(settledMs, () => this.#write());
  }

  /** Reads all keys and registrations; the replies arrive before the end of the run. */
  stopWork(): void {
    this.#isStopped = true;
    const range = { from: '/written/', to: '/written0' };
    this.#registryOf(this.#names.at(-1) as string)?.range(range, { timeoutMs: writeTimeoutMs }, (outcome) => {
      if (outcome.ok) this.#observe({ kind: 'keysFound', keys: outcome.value.entries.map(({ key }) => key) });
    });
    const nodes = this.#names.map((node) => {
      const core = this.world.program(node)?.core;
      const status = core?.control?.registration.registrationStatusOf(core.identity.id) ?? 'none';
      return { node, status, leader: core?.control?.leadershipView().leader };
    });
    this.#observe({ kind: 'registrations', nodes });
  }

  aliveViews(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.#names.map((name) => [name, aliveMembersOf(this.world.program(name))]));
  }

  /** The core exists once the identity has been read from the disk. */
  #followEvents(clock: Clock, name: string, node: SimulatedNode): void {
    if (node.core === undefined) return void clock.schedule(1, () => this.#followEvents(clock, name, node));
    const onEvent = ({ type }: { readonly type: string }): void => {
      if (type === 'group.begun') this.#observe({ kind: 'groupFormed', node: name });
    };
    for (const event of node.core.events.since(0)) onEvent(event);
    node.core.events.follow(onEvent);
  }

  #write(): void {
    if (this.#isStopped) return;
    this.world.timeline.after(this.#random.between(0, 2 * writeEveryMs), () => this.#write());
    const key = `/written/${++this.#writes}`;
    const put = { compare: [], then: [{ kind: 'put', key, value: new Uint8Array() }], otherwise: [] } as const;
    this.#registryOf(this.#random.pick(this.#names))?.transact(put, { timeoutMs: writeTimeoutMs }, ({ ok }) => {
      // A write that ends after the final read started need not be in it.
      if (ok && !this.#isStopped) this.#observe({ kind: 'writeAcknowledged', key });
    });
  }

  #registryOf(name: string): Registry | undefined {
    return this.world.program(name)?.core?.control?.registry;
  }
}
