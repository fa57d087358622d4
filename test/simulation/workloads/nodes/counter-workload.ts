/**
 * Workload of the smallest machine with durable state: it counts, persists, then announces. Drives base/runtime/loop.ts
 * to detect effects that are performed before their write is durable.
 */
import {
  Loop,
  type TimerExpired,
  type Machine,
  type Persist,
  type PersistFailed,
  type Schedule,
} from '../../../../src/base/runtime/loop.ts';
import type { Identity, Store } from '../../../../src/base/ports.ts';
import { nodeIdFrom } from '../../../../src/base/ids.ts';
import type { Random } from '../../../../src/base/random.ts';
import { AssertionFailed } from '../../../../src/base/assert.ts';
import type { Observation, WorkloadRun, WorkloadContext, Workload } from '../../checking/workload.ts';
import type { SimulatedPorts } from '../../../../src/simulation/world/simulated-ports.ts';
import { type NodeContext, SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

type Timer = { readonly kind: 'count' };
type Announce = { readonly kind: 'announce'; readonly value: number };
export type CounterInput = { readonly kind: 'start'; readonly value: number };
export type CounterEffect = Announce;
export type CounterMachine = Machine<
  CounterInput | TimerExpired<Timer> | PersistFailed,
  CounterEffect | Persist | Schedule<Timer>
>;

const key = 'count';
const pauseMsMax = 20;
const port = 7400;

export class Counter implements CounterMachine {
  readonly #random: Random;
  #value = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  step(
    nowMs: number,
    input: CounterInput | TimerExpired<Timer> | PersistFailed,
  ): readonly (CounterEffect | Persist | Schedule<Timer>)[] {
    if (input.kind === 'persistFailed') return [];
    if (input.kind === 'start') this.#value = input.value;
    else this.#value += 1;
    const atMs = nowMs + this.#random.between(1, pauseMsMax);
    return [
      { kind: 'persist', writes: [{ key, value: encodeCount(this.#value) }] },
      { kind: 'announce', value: this.#value },
      { kind: 'schedule', atMs, timer: { kind: 'count' } },
    ];
  }
}

/** The workload for any counting machine: a test passes a broken one, whose bug must be found. */
export function countingWorkloadOf(machine: (random: Random) => CounterMachine): Workload {
  return (context) => runCounters(context, machine);
}

export const countingWorkload = countingWorkloadOf((random) => new Counter(random));

function runCounters(workload: WorkloadContext, machine: (random: Random) => CounterMachine): WorkloadRun {
  const { seed, names, detailed, sink, observe } = workload;
  const world: SimulatedWorld<unknown> = new SimulatedWorld({
    ...{ seed, names, detailed, sink },
    boot: (ports, context) => boot(world, ports, context, machine, observe),
  });
  return {
    world,
    start: () => undefined,
    stopWork: () => undefined,
    clusterOf: () => 'counters',
    aliveViews: () => new Map(),
    durableValue: (node) => decodeCount(world.host(node).disk.store('counter').peek(key)),
  };
}

function boot(
  world: SimulatedWorld<unknown>,
  ports: SimulatedPorts,
  context: NodeContext,
  machine: (random: Random) => CounterMachine,
  observe: (observation: Observation) => void,
): void {
  const { name, host, boots } = context;
  const id = nodeIdFrom(new Uint8Array(16).fill(context.index));
  const identity: Identity = { id, name, host, port, generation: boots, roles: ['worker'], dc: 'local' };
  const { streams } = ports.listen(identity, 'counters');
  const store = ports.openStore('counter');
  const peers = world.names.filter((peer) => peer !== name);
  const loop = new Loop<CounterInput, CounterEffect, Timer>(machine(context.random.fork('machine')), {
    clock: ports.clock,
    store,
    perform: ({ value }) => {
      const peer = world.host(context.random.pick(peers)).address;
      if (!streams.notify({ host: peer, port }, encodeCount(value)))
        context.log('debug', 'announcement dropped: the queue is full', { value });
    },
    onHalt: (error) => {
      throw error;
    },
  });
  streams.serve({
    request: () => {
      throw new AssertionFailed('counters make no requests');
    },
    notify: (from, body) => observe({ kind: 'announced', node: from.name, to: name, value: decodeCount(body) }),
    open: () => {
      throw new AssertionFailed('counters open no streams');
    },
  });
  readCount(ports, store, (value) => loop.feed({ kind: 'start', value }));
}

function readCount(ports: SimulatedPorts, store: Store, done: (value: number) => void): void {
  store.read({ from: key, to: `${key}\0`, limit: 1 }, (found) => {
    if (found.ok) done(decodeCount(found.value[0]?.value));
    else ports.clock.schedule(100, () => readCount(ports, store, done));
  });
}

function encodeCount(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

function decodeCount(bytes: Uint8Array | undefined): number {
  return bytes === undefined ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}
