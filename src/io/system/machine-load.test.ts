import assert from 'node:assert/strict';
import { it } from 'node:test';
import { machineLoad } from './machine-load.ts';

it('machineLoad returns ratios between 0 and 1, and more than 0 for a busy processor', () => {
  const load = machineLoad();
  const untilMs = Date.now() + 200;
  while (Date.now() < untilMs);
  const { cpu, memory, cores } = load();
  assert.ok(cpu > 0 && cpu <= 1, `cpu ${cpu}`);
  assert.ok(memory > 0 && memory < 1, `memory ${memory}`);
  assert.ok(Number.isInteger(cores) && cores >= 1);
});
