/**
 * Validates the argument of `workflow()` at import time. Each error names the workflow, the field and the allowed
 * range. Valibot (decision 18) would leave the relations between fields and these errors to this file.
 */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { parseThreshold } from '../../jobs/report/thresholds.ts';
import type { WorkflowFacts } from '../../jobs/workflow-facts.ts';
import type { WorkflowDefinition } from './workflow-context.ts';
import { type CheckedBatch, type CheckedWorkflow, type CheckedLoad, toWorkflowDefinition } from './checked-workflow.ts';
import { FieldReader, type Fields } from './field-reader.ts';
import { batchFields, parseBatchSpec } from './batch-spec.ts';
import { loadFields, parseLoadSpec } from './load-spec.ts';
import { parseMemoryMb } from './amounts.ts';

const commonFields = [
  'cores',
  'after',
  'timeout',
  'retries',
  'network',
  'memory',
  'env',
  'thresholds',
  'setup',
  'teardown',
];
const timeoutMsDefault = 3_600_000;
const memoryMbDefault = 256;
export const memoryMbMin = 96;
export const memoryMbMax = 65_536;
const thresholdsMax = 100;
const envMax = 1_000;

export function validateWorkflowSpec(name: unknown, spec: unknown): WorkflowDefinition {
  if (typeof name !== 'string' || !namePattern.test(name)) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${JSON.stringify(name)} cannot be the name of a workflow: use 1 to 63 lower-case letters, digits, dots, dashes`,
    );
  }
  const reader = new FieldReader(`workflow "${name}"`, spec);
  const isLoad = reader.has('steps');
  if (isLoad === reader.has('each'))
    throw reader.invalid('steps', 'is for load tests and `each` for batches: set exactly one of them');
  if (isLoad)
    for (const field of ['onItemError', 'maxFailures'])
      if (reader.has(field)) throw reader.invalid(field, 'is for batches; use thresholds for failures of a load test');
  reader.rejectUnknown([...commonFields, ...(isLoad ? loadFields : batchFields)]);
  return toWorkflowDefinition(isLoad ? checkedLoadWorkflow(name, reader) : checkedBatchWorkflow(name, reader));
}

function checkedLoadWorkflow(name: string, reader: FieldReader): CheckedWorkflow {
  const { facts: load, checked } = parseLoadSpec(reader);
  const durationMs = load.durationMs ?? 0;
  return {
    facts: { ...commonFacts(name, reader, { network: true, durationMs }), style: 'load', load },
    ...functionsOf(reader, checked, undefined),
  };
}

function checkedBatchWorkflow(name: string, reader: FieldReader): CheckedWorkflow {
  const common = commonFacts(name, reader, { network: false, durationMs: 0 });
  const { facts: batch, checked } = parseBatchSpec(reader, common);
  return { facts: { ...common, style: 'batch', batch }, ...functionsOf(reader, undefined, checked) };
}

function functionsOf(
  reader: FieldReader,
  load: CheckedLoad | undefined,
  batch: CheckedBatch | undefined,
): Omit<CheckedWorkflow, 'facts'> {
  return { env: envOf(reader), setup: reader.callback('setup'), teardown: reader.callback('teardown'), load, batch };
}

function commonFacts(
  name: string,
  reader: FieldReader,
  defaults: { readonly network: boolean; readonly durationMs: number },
): Omit<WorkflowFacts, 'style' | 'load' | 'batch'> {
  const timeoutMs = Math.min(jobLimits.timeoutMsMax, timeoutMsDefault + defaults.durationMs);
  return {
    name,
    cores: reader.integer('cores', 1, jobLimits.coresMax) ?? 1,
    after: reader.strings('after', jobLimits.workflowsMax),
    timeoutMs: reader.durationMs('timeout', 1, jobLimits.timeoutMsMax) ?? timeoutMs,
    maxRetries: reader.integer('retries', 0, jobLimits.maxRetriesMax) ?? 3,
    network: reader.boolean('network') ?? defaults.network,
    memoryMb: memoryOf(reader),
    hasSetup: reader.callback('setup') !== undefined,
    hasTeardown: reader.callback('teardown') !== undefined,
    thresholds: thresholdsOf(reader),
  };
}

function memoryOf(reader: FieldReader): number {
  const value = reader.raw('memory');
  if (value === undefined) return memoryMbDefault;
  const mb = parseMemoryMb(value);
  if (mb !== undefined && Number.isInteger(mb) && mb >= memoryMbMin && mb <= memoryMbMax) return mb;
  throw reader.invalid('memory', `must be megabytes from ${memoryMbMin} to ${memoryMbMax}, or text such as '512mb'`);
}

function thresholdsOf(reader: FieldReader): Readonly<Record<string, readonly string[]>> {
  const thresholds: Fields = reader.object('thresholds') ?? {};
  const entries = Object.entries(thresholds);
  if (entries.length > thresholdsMax) throw reader.invalid('thresholds', `has more than ${thresholdsMax} metrics`);
  return Object.fromEntries(
    entries.map(([metric, conditions]) => {
      const list: unknown = typeof conditions === 'string' ? [conditions] : conditions;
      if (!Array.isArray(list) || list.length > thresholdsMax || !list.every((text) => typeof text === 'string'))
        throw reader.invalid(`thresholds["${metric}"]`, 'must be a list of texts');
      for (const expr of list) checkThreshold(reader, metric, expr);
      return [metric, list];
    }),
  );
}

function checkThreshold(reader: FieldReader, metric: string, expr: string): void {
  try {
    parseThreshold(expr);
  } catch (error) {
    throw reader.invalid(`thresholds["${metric}"]`, (error as Error).message);
  }
}

function envOf(reader: FieldReader): Readonly<Record<string, string>> {
  const env = reader.object('env') ?? {};
  const entries = Object.entries(env);
  if (entries.length > envMax || !entries.every(([, value]) => typeof value === 'string'))
    throw reader.invalid('env', `must be at most ${envMax} texts by name`);
  return Object.freeze({ ...env }) as Readonly<Record<string, string>>;
}
