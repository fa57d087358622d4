/** Facts of workflows for tests. Holds no tests itself. */
import type { BatchFacts, LoadFacts, WorkflowFacts } from '../workflow-facts.ts';

const common = {
  ...{ cores: 1, after: [], timeoutMs: 600_000, maxRetries: 3, network: false, memoryMb: 64 },
  ...{ hasSetup: false, hasTeardown: false, thresholds: {} },
} as const;

export function load(name: string, more: Partial<WorkflowFacts> = {}, facts: Partial<LoadFacts> = {}): WorkflowFacts {
  const steps = [{ name: 'one', after: [] }];
  return { ...common, name, style: 'load', load: { vus: 10, iterations: 100, steps, ...facts }, ...more };
}

export function batch(name: string, more: Partial<WorkflowFacts> = {}, facts: Partial<BatchFacts> = {}): WorkflowFacts {
  const defaults = { items: 100, firstOnly: false, concurrency: 1, unitItemsMax: 10, keepResults: true };
  return { ...common, name, style: 'batch', batch: { ...defaults, ...facts }, ...more };
}
