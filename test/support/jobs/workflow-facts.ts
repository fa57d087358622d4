/** Facts of workflows for tests: small and valid, with the given changes. */
import type { BatchFacts, LoadFacts, WorkflowFacts } from '../../../src/jobs/workflow-facts.ts';

const common = {
  ...{ cores: 1, after: [], timeoutMs: 600_000, maxRetries: 3, network: false, memoryMb: 64 },
  ...{ hasSetup: false, hasTeardown: false, thresholds: {} },
} as const;

export function loadTestFacts(
  name: string,
  more: Partial<WorkflowFacts> = {},
  facts: Partial<LoadFacts> = {},
): WorkflowFacts {
  const steps = [{ name: 'one', after: [] }];
  return { ...common, name, style: 'load', load: { vus: 10, iterations: 100, steps, ...facts }, ...more };
}

/** With `items: undefined` the plan computes them. */
export function batchTestFacts(
  name: string,
  more: Partial<WorkflowFacts> = {},
  { items, ...facts }: Omit<Partial<BatchFacts>, 'items'> & { readonly items?: number | undefined } = { items: 100 },
): WorkflowFacts {
  const defaults = { firstOnly: false, concurrency: 1, unitItemsMax: 10, keepResults: true };
  const known = items === undefined ? {} : { items };
  return { ...common, name, style: 'batch', batch: { ...defaults, ...facts, ...known }, ...more };
}
