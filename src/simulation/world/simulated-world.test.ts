import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bootSimulatedNode, type SimulatedNode, simulatedPort } from '../cluster/simulated-node.ts';
import type { SimulatedPorts } from './simulated-ports.ts';
import { SimulatedWorld } from './simulated-world.ts';

type Held = { readonly ports: SimulatedPorts };

function startWorld(names: readonly string[]): SimulatedWorld<Held> {
  const world = new SimulatedWorld<Held>({ seed: 'world', names, failpoints: false, boot: (ports) => ({ ports }) });
  world.startAll();
  return world;
}

describe('a node of a simulated world', () => {
  it('loses its process in a crash and keeps its disk', () => {
    const world = startWorld(['n1']);
    const { ports } = world.program('n1')!;
    ports.clock.schedule(50, () => assert.fail('the process has exited'));
    ports.openStore('main').write([{ key: 'k', value: Uint8Array.of(7) }], () => undefined);
    world.advance(10);
    world.crash('n1');
    assert.equal(world.program('n1'), undefined);
    assert.deepEqual(world.up(), []);
    world.advance(100);
    world.start('n1');
    let found: number | undefined;
    const store = world.program('n1')!.ports.openStore('main');
    store.read({ from: 'k', to: 'l', limit: 1 }, (outcome) => (found = outcome.ok ? outcome.value[0]?.value[0] : -1));
    world.advance(10);
    assert.equal(found, 7);
  });

  it('has a clock that starts at another value after each boot and only moves forward', () => {
    const world = startWorld(['n1']);
    const firstMs = world.program('n1')!.ports.clock.nowMs();
    world.advance(1_000);
    assert.equal(world.program('n1')!.ports.clock.nowMs(), firstMs + 1_000);
    world.crash('n1');
    world.start('n1');
    assert.notEqual(world.program('n1')!.ports.clock.nowMs(), firstMs + 1_000);
  });

  it('has a clock that can run fast, also for running timers', () => {
    const world = startWorld(['n1', 'n2']);
    const ended: string[] = [];
    for (const name of world.names) {
      world.program(name)!.ports.clock.schedule(1_000, () => ended.push(`${name}@${Math.round(world.timeline.nowMs)}`));
    }
    world.advance(500);
    world.host('n2').setRate(2);
    world.advance(1_000);
    assert.deepEqual(ended, ['n2@750', 'n1@1000']);
  });

  it('can be paused while the world goes on', () => {
    const world = startWorld(['n1', 'n2']);
    const ended: string[] = [];
    for (const name of world.names) {
      world.program(name)!.ports.clock.schedule(100, () => ended.push(`${name}@${world.timeline.nowMs}`));
    }
    world.pauseNode('n1', 300);
    world.advance(1_000);
    assert.deepEqual(ended, ['n2@100', 'n1@300']);
  });

  it('reports to watchers what its program throws', () => {
    const world = startWorld(['n1']);
    const threw: unknown[] = [];
    world.watch((event) => {
      if (event.kind === 'threw') threw.push(event.error);
    });
    world.program('n1')!.ports.clock.schedule(1, () => {
      throw new Error('mistake');
    });
    world.advance(2);
    assert.equal(String(threw[0]), 'Error: mistake');
  });
});

describe('the real node core in a simulated world', () => {
  const names = Array.from({ length: 50 }, (_, i) => `n${i + 1}`);
  const startWorldOf50 = (seed: string, lines: string[] = []): SimulatedWorld<SimulatedNode> => {
    const world: SimulatedWorld<SimulatedNode> = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names, failpoints: false, sink: (line: string) => void lines.push(line) },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, { join: [{ host: world.host('n1').address, port: simulatedPort }] }),
    });
    world.watch((event) => assert.notEqual(event.kind, 'threw'));
    world.startAll();
    return world;
  };
  const alive = (world: SimulatedWorld<SimulatedNode>, name: string): number =>
    world
      .program(name)!
      .core!.members()
      .filter(({ state }) => state === 'alive').length;

  it('converges on the same members with 50 nodes, and notices a dead one', () => {
    const world = startWorldOf50('fifty');
    world.advance(30_000);
    for (const name of names) assert.equal(alive(world, name), 50, name);
    world.crash('n7');
    world.advance(600_000);
    for (const name of world.up()) assert.equal(alive(world, name), 49, name);
  });

  it('gives the same log for the same seed, and another one for another seed', () => {
    const logs = ['1', '1', '2'].map((seed) => {
      const lines: string[] = [];
      const world = startWorldOf50(seed, lines);
      world.advance(5_000);
      world.partition([names.slice(0, 20), names.slice(20)]);
      world.crash('n3');
      world.advance(40_000);
      world.heal();
      world.start('n3');
      world.advance(20_000);
      return lines.join('\n');
    });
    assert.ok((logs[0]?.length ?? 0) > 10_000);
    assert.equal(logs[0], logs[1]);
    assert.notEqual(logs[0], logs[2]);
  });
});
