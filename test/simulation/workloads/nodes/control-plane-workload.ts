/**
 * Workload of whole nodes with a control plane: registrations and registry writes. Reports who is registered and which
 * writes were acknowledged.
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
/** Short, so that a run of a minute sees registrations run out. */
const registrationTtlMs = 8_000;

export function controlPlaneWorkload(spec: WorkloadContext): WorkloadRun {
  const workload = new Controlled(spec);
  return {
    world: workload.world,
    clusterOf: () => 'simulated',
    start: () => workload.start(),
    stopWork: () => workload.rest(),
    aliveViews: () => workload.views(),
    durableValue: () => 0,
  };
}

class Controlled {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #names: readonly string[];
  readonly #observe: WorkloadContext['observe'];
  readonly #random: Random;
  #resting = false;
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
        this.#listen(ports.clock, name, node);
        return node;
      },
    });
  }

  start(): void {
    this.world.timeline.after(settledMs, () => this.#write());
  }

  /** Asks, when all is well, what has become of everything that was written; the answer comes before the end of the run. */
  rest(): void {
    this.#resting = true;
    const range = { from: '/written/', to: '/written0' };
    this.#registryOf(this.#names.at(-1) as string)?.range(range, { timeoutMs: writeTimeoutMs }, (outcome) => {
      if (outcome.ok) this.#observe({ kind: 'found', keys: outcome.value.entries.map(({ key }) => key) });
    });
    const standings = this.#names.map((node) => {
      const core = this.world.program(node)?.core;
      const standing = core?.control?.registration.registrationStatusOf(core.identity.id) ?? 'none';
      return { node, standing, leader: core?.control?.leadershipView().leader };
    });
    this.#observe({ kind: 'registrations', standings });
  }

  views(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.#names.map((name) => [name, aliveMembersOf(this.world.program(name))]));
  }

  /** The core is there once the disk has told who the node is. */
  #listen(clock: Clock, name: string, node: SimulatedNode): void {
    if (node.core === undefined) return void clock.schedule(1, () => this.#listen(clock, name, node));
    const hear = ({ type }: { readonly type: string }): void => {
      if (type === 'group.begun') this.#observe({ kind: 'groupBegan', node: name });
    };
    for (const event of node.core.events.since(0)) hear(event);
    node.core.events.follow(hear);
  }

  #write(): void {
    if (this.#resting) return;
    this.world.timeline.after(this.#random.between(0, 2 * writeEveryMs), () => this.#write());
    const key = `/written/${++this.#writes}`;
    const put = { compare: [], then: [{ kind: 'put', key, value: new Uint8Array() }], otherwise: [] } as const;
    this.#registryOf(this.#random.pick(this.#names))?.transact(put, { timeoutMs: writeTimeoutMs }, ({ ok }) => {
      // One that ends after the last look at all keys began need not be in it.
      if (ok && !this.#resting) this.#observe({ kind: 'wrote', key });
    });
  }

  #registryOf(name: string): Registry | undefined {
    return this.world.program(name)?.core?.control?.registry;
  }
}
