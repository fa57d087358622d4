/**
 * What a workflow hands on to those after it, and what a plan said. Outputs of units are JSON of strangers: they are
 * looked at here, and what is no JSON of the right shape is refused.
 */
import { RemusterError } from '../../base/errors.ts';
import { jobLimits } from '../limits.ts';
import type { Planned, Unit, Workflow } from './model.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

/** WORKFLOW_FAILED or TOO_LARGE when it is none. */
export function readPlan(output: Uint8Array | undefined): Planned & { readonly count: number | undefined } {
  if (output === undefined) return { data: undefined, list: undefined, count: undefined };
  let plan: unknown;
  try {
    plan = JSON.parse(decoder.decode(output));
  } catch {
    throw wrong('the plan is not JSON');
  }
  if (typeof plan !== 'object' || plan === null) throw wrong('the plan is not an object');
  const { data, items } = plan as { readonly data?: unknown; readonly items?: unknown };
  const text = data === undefined ? undefined : JSON.stringify(data);
  if (text !== undefined && new TextEncoder().encode(text).length > jobLimits.contextBytesMax)
    throw new RemusterError('TOO_LARGE', `setup gave more than ${jobLimits.contextBytesMax} bytes`);
  if (items === undefined) return { data: text, list: undefined, count: undefined };
  if (typeof items !== 'object' || items === null) throw wrong('the items of the plan are not an object');
  const { count, list } = items as { readonly count?: unknown; readonly list?: unknown };
  if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0 || count > jobLimits.itemsMax)
    throw wrong(`the plan has no count of items from 0 to ${jobLimits.itemsMax}`);
  if (list === undefined) return { data: text, list, count };
  if (!Array.isArray(list) || list.length !== count) throw wrong('the plan lists other items than it counts');
  return { data: text, list, count };
}

/** Keeps the output of a unit as long as all of them may be handed on. */
export function keepOutput(workflow: Workflow, unit: Unit, output: Uint8Array | undefined): void {
  if (output === undefined || workflow.keptBytes === undefined) return;
  workflow.keptBytes += output.length + 1;
  unit.output = output;
  if (workflow.keptBytes <= jobLimits.contextBytesMax) return;
  workflow.keptBytes = undefined;
  for (const one of workflow.units) one.output = undefined;
}

/** JSON; undefined if there is nothing, or too much of it. Lets go of the outputs. */
export function valueOf(workflow: Workflow): string | undefined {
  const { found, units, planned, facts } = workflow;
  const parts = (found === undefined ? units : units.slice(found, found + 1)).map(({ output }) => output);
  for (const unit of units) unit.output = undefined;
  if (facts.load !== undefined && workflow.phase !== 'whole') return planned?.data;
  if (workflow.keptBytes === undefined) return undefined;
  const texts = parts.map(textOf);
  if (texts.length === 1) return texts[0];
  return joinedLists(texts);
}

/** Lists in JSON, one after the other as one. */
export function joinedLists(texts: readonly (string | undefined)[]): string | undefined {
  const inner: string[] = [];
  for (const text of texts) {
    const trimmed = text?.trim();
    if (trimmed === undefined || !trimmed.startsWith('[') || !trimmed.endsWith(']')) return undefined;
    const items = trimmed.slice(1, -1).trim();
    if (items !== '') inner.push(items);
  }
  return `[${inner.join(',')}]`;
}

/** Undefined for what is no JSON. */
export function textOf(output: Uint8Array | undefined): string | undefined {
  if (output === undefined) return undefined;
  try {
    const text = decoder.decode(output);
    JSON.parse(text);
    return text;
  } catch {
    return undefined;
  }
}

function wrong(what: string): RemusterError {
  return new RemusterError('WORKFLOW_FAILED', what);
}
