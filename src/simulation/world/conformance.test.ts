/** The simulated ports pass the conformance suites of the real ones. Virtual time advances until a test has settled. */
import { nodeIdFrom } from '../../base/ids.ts';
import type { Datagrams, Identity } from '../../base/ports.ts';
import { describeClock } from '../../../test/simulation/conformance/clock.ts';
import { describeDatagrams } from '../../../test/simulation/conformance/datagrams.ts';
import { describeFiles } from '../../../test/simulation/conformance/files.ts';
import { describeRunners } from '../../../test/simulation/conformance/runners.ts';
import { describeStore } from '../../../test/simulation/conformance/store.ts';
import { describeStreams, type StreamsNode } from '../../../test/simulation/conformance/streams.ts';
import { describeThreads } from '../../../test/simulation/conformance/threads.ts';
import type { SimulatedPorts } from './simulated-ports.ts';
import { SimulatedWorld } from './simulated-world.ts';

type Held = { readonly ports: SimulatedPorts };

function startWorld(names: readonly string[], seed = 'conformance'): SimulatedWorld<Held> {
  const world = new SimulatedWorld<Held>({ seed, names, failpoints: false, boot: (ports) => ({ ports }) });
  world.startAll();
  return world;
}

/** Steps the world and lets promises settle in between. Throws if no event is left and the promise is pending. */
function settlerOf(world: SimulatedWorld<unknown>): <T>(promise: Promise<T>) => Promise<T> {
  return async (promise) => {
    const state = { settled: false };
    const end = (): void => {
      state.settled = true;
    };
    promise.then(end, end);
    for (let idle = 0; idle < 100;) {
      for (let turn = 0; turn < 8; turn++) await Promise.resolve();
      if (state.settled) return promise;
      idle = world.timeline.step() ? 0 : idle + 1;
    }
    throw new Error('no event is left in this world, and the promise is pending');
  };
}

function ports(world: SimulatedWorld<Held>, name: string): SimulatedPorts {
  return world.program(name)!.ports;
}

describeClock('the simulated clock', () => {
  const world = startWorld(['n1']);
  return { clock: ports(world, 'n1').clock, settle: settlerOf(world) };
});

describeClock('a simulated clock that drifts', () => {
  const world = startWorld(['n1']);
  world.host('n1').setRate(0.987);
  return { clock: ports(world, 'n1').clock, settle: settlerOf(world) };
});

for (const seed of ['1', '2', '3', '4']) {
  describeFiles(`a simulated directory (seed ${seed})`, () => {
    const world = startWorld(['n1'], seed);
    return {
      files: ports(world, 'n1').files,
      settle: settlerOf(world),
      crash: async () => {
        world.crash('n1');
        world.start('n1');
        return ports(world, 'n1').files;
      },
      full: async (full) => world.host('n1').disk.change({ full }),
    };
  });

  describeStore(`a simulated store (seed ${seed})`, () => {
    const world = startWorld(['n1'], seed);
    const open = () => ports(world, 'n1').openStore('main');
    return {
      store: open(),
      settle: settlerOf(world),
      reopen: async () => open(),
      crash: async () => {
        world.crash('n1');
        world.start('n1');
        return open();
      },
      full: async (full) => world.host('n1').disk.change({ full }),
      corrupt: async (key) => world.host('n1').disk.store('main').corrupt(key, world.random),
    };
  });
}

describeThreads('simulated threads', () => {
  const world = startWorld(['n1']);
  return { threads: ports(world, 'n1').threads, settle: settlerOf(world) };
});

describeRunners('simulated runners', () => {
  const world = startWorld(['n1']);
  return { runners: ports(world, 'n1').runners, settle: settlerOf(world) };
});

type Member = StreamsNode & { readonly datagrams: Datagrams };

/** Members of one cluster, each on its own host, which start when they join. */
function startCluster() {
  const world: SimulatedWorld<Member> = new SimulatedWorld<Member>({
    seed: 'conformance',
    names: ['a', 'b', 'c', 'd'],
    failpoints: false,
    boot: (ports, { name, host, index, boots }) => {
      const id = nodeIdFrom(new Uint8Array(16).fill(index + 1));
      const self: Identity = { id, name, host, port: 7400, generation: boots, roles: ['worker'], dc: 'local' };
      const kill = async (): Promise<void> => world.crash(name, 'kept');
      return { self, clock: ports.clock, kill, ...ports.listen(self, 'ours') };
    },
  });
  const start = (name: string): Member => {
    world.start(name);
    return world.program(name)!;
  };
  return {
    settle: settlerOf(world),
    join: async (name: string) => start(name),
    restart: async ({ self }: StreamsNode) => start(self.name),
  };
}

describeDatagrams('the simulated network', () => startCluster());
describeStreams('the simulated network', () => startCluster());
