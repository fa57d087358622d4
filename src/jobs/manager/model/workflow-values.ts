/**
 * Parses the output of a plan and computes the value that a workflow passes to its dependents. Treats the output of
 * units as untrusted JSON and rejects a plan of another shape.
 */
import { foundValueJson } from './item-results.ts';
import { RemusterError } from '../../../base/errors.ts';
import { jobLimits } from '../../limits.ts';
import type { PlanResult, ManagedUnit, ManagedWorkflow } from './managed-job.ts';
import { itemCountOf, evenShare } from './unit-split.ts';

/** Largest number of nulls for a unit without output. */
const nullsMax = 1_000_000;
const decoder = new TextDecoder('utf-8', { fatal: true });

/** Throws WORKFLOW_FAILED or TOO_LARGE for an invalid plan. */
export function parsePlanOutput(output: Uint8Array | undefined): PlanResult & { readonly count: number | undefined } {
  if (output === undefined) return { data: undefined, list: undefined, count: undefined };
  let plan: unknown;
  try {
    plan = JSON.parse(decoder.decode(output));
  } catch {
    throw invalidPlan('the plan is not JSON');
  }
  if (typeof plan !== 'object' || plan === null) throw invalidPlan('the plan is not an object');
  const { data, items } = plan as { readonly data?: unknown; readonly items?: unknown };
  const text = data === undefined ? undefined : JSON.stringify(data);
  if (text !== undefined && new TextEncoder().encode(text).length > jobLimits.contextBytesMax)
    throw new RemusterError('TOO_LARGE', `setup returned more than ${jobLimits.contextBytesMax} bytes`);
  if (items === undefined) return { data: text, list: undefined, count: undefined };
  if (typeof items !== 'object' || items === null) throw invalidPlan('the items of the plan are not an object');
  const { count, list } = items as { readonly count?: unknown; readonly list?: unknown };
  if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0 || count > jobLimits.itemsMax)
    throw invalidPlan(`the number of items in the plan is not from 0 to ${jobLimits.itemsMax}`);
  if (list === undefined) return { data: text, list, count };
  if (!Array.isArray(list) || list.length !== count)
    throw invalidPlan('the number of items in the plan differs from the length of its list');
  return { data: text, list, count };
}

/** Keeps the output of a unit while all outputs of the workflow fit into the value for its dependents. */
export function retainOutput(workflow: ManagedWorkflow, unit: ManagedUnit, output: Uint8Array | undefined): void {
  if (output === undefined || workflow.retainedBytes === undefined) return;
  workflow.retainedBytes += output.length + 1;
  unit.output = output;
  if (workflow.retainedBytes <= jobLimits.contextBytesMax) return;
  workflow.retainedBytes = undefined;
  for (const one of workflow.units) one.output = undefined;
}

/** Another workflow of the job depends on it. */
function hasDependents({ job, facts }: ManagedWorkflow): boolean {
  return job.workflows.length > 1 && job.workflows.some((one) => one.facts.after.includes(facts.name));
}

/** JSON; undefined without output, without dependents, or above the limit. Releases the outputs. */
export function workflowValue(workflow: ManagedWorkflow): string | undefined {
  const { foundUnit, units, planned, facts } = workflow;
  if (!hasDependents(workflow)) {
    for (const unit of units) unit.output = undefined;
    return undefined;
  }
  const outputs = new Map(units.map((unit) => [unit, unit.output]));
  for (const unit of units) unit.output = undefined;
  if (facts.load !== undefined && workflow.phase !== 'whole') return planned?.data;
  if (workflow.retainedBytes === undefined) return undefined;
  if (foundUnit !== undefined) return foundValueJson(jsonTextOf(outputs.get(units[foundUnit] as ManagedUnit)));
  return joinUnitOutputs(workflow, (unit) => jsonTextOf(outputs.get(unit)));
}

/** The outputs of all units as one JSON value. Units of a batch return lists; a missing one counts as nulls. */
export function joinUnitOutputs(
  workflow: ManagedWorkflow,
  textOfUnit: (unit: ManagedUnit) => string | undefined,
): string | undefined {
  const { units, facts } = workflow;
  const texts = units.map(textOfUnit);
  if (texts.length === 1 || texts.every((text) => text === undefined)) return texts[0];
  if (facts.batch?.firstOnly === true) return 'null';
  const inner: string[] = [];
  for (const [index, text] of texts.entries()) {
    const items = text === undefined ? nulls(workflow, index) : innerOf(text);
    if (items === undefined) return undefined;
    if (items !== '') inner.push(items);
  }
  return `[${inner.join(',')}]`;
}

/** The list without its brackets; undefined if the text is not a list. */
function innerOf(text: string): string | undefined {
  const trimmed = text.trim();
  return trimmed.startsWith('[') && trimmed.endsWith(']') ? trimmed.slice(1, -1).trim() : undefined;
}

/** Undefined beyond `nullsMax`. */
function nulls(workflow: ManagedWorkflow, index: number): string | undefined {
  const { count } = evenShare(itemCountOf(workflow) ?? 0, index, workflow.units.length);
  if (count > nullsMax) return undefined;
  return Array.from({ length: count }, () => 'null').join(',');
}

/** Undefined if the output is not JSON. */
export function jsonTextOf(output: Uint8Array | undefined): string | undefined {
  if (output === undefined) return undefined;
  try {
    const text = decoder.decode(output);
    JSON.parse(text);
    return text;
  } catch {
    return undefined;
  }
}

function invalidPlan(what: string): RemusterError {
  return new RemusterError('WORKFLOW_FAILED', what);
}
