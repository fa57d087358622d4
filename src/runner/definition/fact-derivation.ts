/**
 * Derives the facts of a workflow from its definition and the overrides of the submitter, and lists the workflows that
 * a module exports. Never runs user code.
 */
import { RemusterError } from '../../base/errors.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { type BatchFacts, type LoadFacts, type WorkflowFacts, hasFailedThreshold } from '../../jobs/workflow-facts.ts';
import type { WorkflowDefinition } from './workflow-context.ts';
import { findCycle } from './dependency-cycle.ts';
import { checkedWorkflowOf } from './checked-workflow.ts';
import { FieldReader, type Fields } from './field-reader.ts';
import { concurrencyMax, defaultUnitItems, parseFailurePolicy, unitItemsLimit } from './batch-spec.ts';
import { memoryMbMax, memoryMbMin } from './spec-validation.ts';
import { parseMemoryMb } from './amounts.ts';

export type FactsOverrides = {
  readonly cores?: number;
  /** `vus`, `durationMs` and `iterations` are for load tests; batches ignore them. */
  readonly vus?: number;
  readonly durationMs?: number;
  readonly iterations?: number;
  /** `--set key=value`: fields of the workflow by name. */
  readonly set?: Readonly<Record<string, string>>;
};

/** Throws BAD_ARGUMENT for a value that is not a definition, and for overrides that are out of bounds. */
export function deriveFacts(definition: WorkflowDefinition, overrides: FactsOverrides = {}): WorkflowFacts {
  const checked = checkedWorkflowOf(definition);
  if (checked === undefined)
    throw new RemusterError('BAD_ARGUMENT', 'the value is not a workflow: use workflow(name, { ... })');
  const { facts } = checked;
  const set = new FieldReader(`--set for workflow "${facts.name}"`, settingsOf(overrides.set ?? {}));
  set.rejectUnknown([...(facts.load === undefined ? batchSettings : loadSettings), ...commonSettings]);
  const values = new FieldReader(`workflow "${facts.name}"`, overrides);
  const cores =
    values.integer('cores', 1, jobLimits.coresMax) ?? set.integer('cores', 1, jobLimits.coresMax) ?? facts.cores;
  const load = facts.load && loadWith(facts.load, values, set);
  return {
    ...facts,
    cores,
    timeoutMs: set.durationMs('timeout', 1, jobLimits.timeoutMsMax) ?? timeoutFor(facts.timeoutMs, load),
    maxRetries: set.integer('retries', 0, jobLimits.maxRetriesMax) ?? facts.maxRetries,
    network: set.boolean('network') ?? facts.network,
    memoryMb: memoryFrom(set) ?? facts.memoryMb,
    ...(load === undefined ? {} : { load }),
    ...(facts.batch === undefined
      ? {}
      : { batch: batchWith(facts.batch, { facts, unitItems: checked.batch?.unitItems, cores }, set) }),
  };
}

/** A duration beyond the timeout of the definition extends the timeout. */
function timeoutFor(timeoutMs: number, load: LoadFacts | undefined): number {
  const durationMs = load?.durationMs ?? 0;
  return durationMs < timeoutMs ? timeoutMs : Math.min(jobLimits.timeoutMsMax, durationMs + timeoutMs);
}

const commonSettings = ['cores', 'timeout', 'retries', 'network', 'memory'];
const loadSettings = ['vus', 'duration', 'iterations', 'rate'];
const batchSettings = ['concurrency', 'unitItems', 'results', 'items', 'onItemError', 'maxFailures'];

/** Converts the texts of the command line: numbers and booleans become values. */
function settingsOf(set: Readonly<Record<string, string>>): Fields {
  return Object.fromEntries(
    Object.entries(set).map(([key, value]) => {
      if (value === 'true' || value === 'false') return [key, value === 'true'];
      return [key, /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value];
    }),
  );
}

function memoryFrom(set: FieldReader): number | undefined {
  if (!set.has('memory')) return undefined;
  const mb = parseMemoryMb(set.raw('memory'));
  if (mb !== undefined && Number.isInteger(mb) && mb >= memoryMbMin && mb <= memoryMbMax) return mb;
  throw set.invalid('memory', `must be megabytes from ${memoryMbMin} to ${memoryMbMax}`);
}

/** Overriding users, duration or rate replaces the stages of the definition. */
function loadWith(load: LoadFacts, values: FieldReader, set: FieldReader): LoadFacts {
  const vus = values.integer('vus', 1, jobLimits.vusMax) ?? set.integer('vus', 1, jobLimits.vusMax);
  const durationMs =
    values.durationMs('durationMs', 1, jobLimits.timeoutMsMax) ?? set.durationMs('duration', 1, jobLimits.timeoutMsMax);
  const iterations =
    values.integer('iterations', 1, Number.MAX_SAFE_INTEGER) ?? set.integer('iterations', 1, Number.MAX_SAFE_INTEGER);
  const ratePerSecond = set.number('rate', 0.001, 10_000_000);
  const { stages, ...rest } = load;
  const isPlain = vus !== undefined || durationMs !== undefined || ratePerSecond !== undefined;
  return {
    ...rest,
    ...(stages === undefined || isPlain ? {} : { stages }),
    ...(vus === undefined ? {} : { vus }),
    ...(durationMs === undefined ? {} : { durationMs }),
    ...(iterations === undefined ? {} : { iterations }),
    ...(ratePerSecond === undefined ? {} : { ratePerSecond }),
  };
}

function batchWith(
  batch: BatchFacts,
  of: { readonly facts: WorkflowFacts; readonly unitItems: number | undefined; readonly cores: number },
  set: FieldReader,
): BatchFacts {
  const { facts, unitItems, cores } = of;
  const items = set.integer('items', 0, jobLimits.itemsMax);
  if (items !== undefined && batch.items === undefined)
    throw set.invalid('items', 'cannot be set: the workflow computes its items');
  const count = items ?? batch.items;
  return {
    ...batch,
    ...(count === undefined ? {} : { items: count }),
    concurrency: set.integer('concurrency', 1, concurrencyMax) ?? batch.concurrency,
    unitItemsMax: set.integer('unitItems', 1, unitItemsLimit) ?? unitItems ?? defaultUnitItems(count, cores),
    keepResults: set.boolean('results') ?? batch.keepResults,
    ...parseFailurePolicy(set, batch, hasFailedThreshold(facts)),
  };
}

/**
 * The workflows that a module exports, each once: the default export first, then the others in the order of their
 * names. Throws BAD_ARGUMENT if there is none, if two have the same name, or if `after` has a cycle or an unknown name.
 */
export function exportedWorkflows(namespace: object): readonly WorkflowDefinition[] {
  const exported = Object.entries(namespace).toSorted(([a], [b]) => Number(b === 'default') - Number(a === 'default'));
  const found = [...new Set(exported.map(([, value]: [string, unknown]) => value))].filter(
    (value): value is WorkflowDefinition => checkedWorkflowOf(value) !== undefined,
  );
  if (found.length === 0)
    throw new RemusterError('BAD_ARGUMENT', 'the file exports no workflow: export default workflow(name, { ... })');
  if (found.length > jobLimits.workflowsMax)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `the file exports ${found.length} workflows; at most ${jobLimits.workflowsMax} are allowed`,
    );
  checkOrder(found);
  return found;
}

function checkOrder(found: readonly WorkflowDefinition[]): void {
  const afterOf = new Map<string, readonly string[]>();
  for (const definition of found) {
    if (afterOf.has(definition.name))
      throw new RemusterError('BAD_ARGUMENT', `two workflows have the name "${definition.name}"`);
    afterOf.set(definition.name, checkedWorkflowOf(definition)?.facts.after ?? []);
  }
  for (const [name, after] of afterOf) {
    const unknown = after.find((other) => !afterOf.has(other));
    if (unknown !== undefined)
      throw new RemusterError('BAD_ARGUMENT', `workflow "${name}": after names "${unknown}", which is not exported`);
  }
  const cycle = findCycle([...afterOf.keys()], (name) => afterOf.get(name) ?? []);
  if (cycle !== undefined)
    throw new RemusterError('BAD_ARGUMENT', `workflows wait for each other: ${cycle.join(' after ')}`);
}
