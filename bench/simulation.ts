/** Bench: how much faster than real time the simulator runs idle clusters. */
import { bootSimulatedNode, type SimulatedNode, simulatedPort } from '../src/simulation/cluster/simulated-node.ts';
import { SimulatedWorld } from '../src/simulation/world/simulated-world.ts';
import { type Bench, compareRow, median, printProgress } from './support/harness.ts';

const rounds = 5;
const virtualMs = 300_000;

function idleCluster(nodes: number): SimulatedWorld<SimulatedNode> {
  const names = Array.from({ length: nodes }, (_, index) => `n${index + 1}`);
  const world: SimulatedWorld<SimulatedNode> = new SimulatedWorld<SimulatedNode>({
    seed: 'bench',
    names,
    failpoints: false,
    boot: (ports, context) =>
      bootSimulatedNode(ports, context, { join: [{ host: world.host('n1').address, port: simulatedPort }] }),
  });
  world.startAll();
  world.advance(60_000);
  for (const name of names) {
    const alive = world
      .program(name)
      ?.core?.members()
      .filter(({ state }) => state === 'alive').length;
    if (alive !== nodes)
      throw new Error(`the cluster has not converged: ${name} sees ${alive} of ${nodes} nodes alive`);
  }
  return world;
}

/** Ratio of virtual to real time, and real microseconds per step. */
function measure(world: SimulatedWorld<SimulatedNode>): { readonly speed: number; readonly usPerStep: number } {
  const [startSteps, start] = [world.timeline.steps, performance.now()];
  world.advance(virtualMs);
  const realMs = performance.now() - start;
  return { speed: virtualMs / realMs, usPerStep: (realMs * 1_000) / (world.timeline.steps - startSteps) };
}

export const bench: Bench = async () => {
  const rows = [3, 10, 50, 100].flatMap((nodes) => {
    const world = idleCluster(nodes);
    const results = Array.from({ length: rounds }, () => measure(world));
    const speed = median(results.map((result) => result.speed));
    printProgress(`simulation: ${nodes} nodes, ${speed.toFixed(0)}x real time`);
    const goal = nodes === 50 ? () => ({ text: '>= 500x', met: speed >= 500 }) : undefined;
    return [
      compareRow(`${nodes} idle nodes, speed`, 'x real time', 'more', speed, { name: 'real time', value: 1 }, goal),
      compareRow(
        `${nodes} idle nodes, time per step`,
        'us/step',
        'less',
        median(results.map((result) => result.usPerStep)),
      ),
    ];
  });
  return { rows, missing: [] };
};
