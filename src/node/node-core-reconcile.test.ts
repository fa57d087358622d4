/** A node is active only when the registry has confirmed which containers it has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { module } from '../containers/module.ts';
import { type SimulatedNode, bootSimulatedNode } from '../simulation/cluster/simulated-node.ts';
import { SimulatedWorld } from '../simulation/world/simulated-world.ts';

const cell = module('cell', { methods: { set: (ctx, value: number) => ctx.state.set('n', value) } });

test('a node stays in mode joining, and emits reconcile.failed, until its address table is confirmed', () => {
  const waiting: (() => void)[] = [];
  let isHeld = true;
  const world = new SimulatedWorld<SimulatedNode>({
    ...{ seed: 'reconcile', names: ['n1'], failpoints: false },
    boot: (ports, context) => {
      const { files } = ports;
      const list: typeof files.list = (directory, done) => {
        if (isHeld) waiting.push(() => files.list(directory, done));
        else files.list(directory, done);
      };
      const own = { join: [], options: { registry: 'embedded', bootstrap: true } as const, modules: [cell] };
      return bootSimulatedNode({ ...ports, files: { ...files, list } }, context, own);
    },
  });
  world.startAll();
  world.advance(60_000);
  const core = world.program('n1')?.core;
  assert.ok(core);
  const mode = (): string | undefined => core.control?.registration.registrationStatusOf(core.identity.id);
  assert.ok(waiting.length > 0, 'the table must list its files');
  assert.equal(mode(), 'joining');
  assert.ok(core.events.since(0).some(({ type }) => type === 'reconcile.failed'));
  isHeld = false;
  for (const listFiles of waiting) listFiles();
  world.advance(30_000);
  assert.equal(mode(), 'active');
});
