/**
 * Validates a submitted job: ranges, unique names, existing dependencies, no cycle. Never corrects a value. Compared
 * with valibot and typebox (decision 18): graphs, relations and error texts would still be our code.
 */
import type { JobRequest } from '../../job-types.ts';
import { jobLimits } from '../../limits.ts';
import { type ItemErrorPolicy, type WorkflowFacts, itemErrorPolicies } from '../../workflow-facts.ts';
import { parseThreshold } from '../../report/thresholds.ts';
import {
  type JsonFields,
  checkArray,
  badArgument,
  bytesOf,
  checkText,
  checkNumber,
  checkObject,
  checkOptionalInteger,
  checkBoolean,
  checkInteger,
} from './field-checks.ts';
import { parseCron } from './cron.ts';

const stepsMax = 1_000;
const stagesMax = 1_000;
const conditionsMax = 100;
const memoryMbMax = 65_536;
const envEntriesMax = 1_000;
export const idempotencyKeyLengthMax = 256;
const wallMsMax = 8_640_000_000_000_000;
const sha256Pattern = /^[0-9a-f]{64}$/;

/** Throws BAD_ARGUMENT with the name of the first invalid field. */
export function validateJobRequest(fields: JsonFields): JobRequest {
  if (fields['name'] !== undefined) checkText(fields['name'], 'name', jobLimits.nameLengthMax);
  if (typeof fields['bundle'] !== 'string' || !sha256Pattern.test(fields['bundle']))
    throw badArgument('bundle is not a SHA-256 in hexadecimal digits');
  const workflows = checkArray(fields['workflows'], 'workflows', jobLimits.workflowsMax);
  if (workflows.length === 0) throw badArgument('a job has at least one workflow');
  const checked = workflows.map((one, index) => checkWorkflow(checkObject(one, `workflow ${index}`)));
  checkGraph(checked, 'workflow');
  checkEnv(fields['env']);
  if (fields['idempotencyKey'] !== undefined)
    checkText(fields['idempotencyKey'], 'idempotencyKey', idempotencyKeyLengthMax);
  checkOptionalInteger(fields['priority'], 'priority', 0, 9);
  checkOptionalInteger(fields['timeoutMs'], 'timeoutMs', 1, jobLimits.timeoutMsMax);
  checkOptionalInteger(fields['startAtMs'], 'startAtMs', 0, wallMsMax);
  checkOptionalInteger(fields['seed'], 'seed', 0, Number.MAX_SAFE_INTEGER);
  if (fields['cron'] !== undefined) {
    parseCron(checkText(fields['cron'], 'cron', 200));
    if (fields['idempotencyKey'] === undefined)
      throw badArgument('a schedule needs an idempotencyKey, which is its name');
    if (fields['startAtMs'] !== undefined) throw badArgument('a schedule has cron or startAtMs, not both');
  }
  return fields as unknown as JobRequest;
}

function checkWorkflow(facts: JsonFields): WorkflowFacts {
  const name = checkText(facts['name'], 'the name of a workflow', jobLimits.nameLengthMax);
  const owner = ` of workflow ${JSON.stringify(name)}`;
  const of = (field: string): string => field + owner;
  checkInteger(facts['cores'], of('cores'), 1, jobLimits.coresMax);
  checkNames(facts['after'], of('after'), jobLimits.workflowsMax);
  checkInteger(facts['timeoutMs'], of('timeoutMs'), 1, jobLimits.timeoutMsMax);
  checkInteger(facts['maxRetries'], of('maxRetries'), 0, jobLimits.maxRetriesMax);
  checkInteger(facts['memoryMb'], of('memoryMb'), 1, memoryMbMax);
  for (const flag of ['network', 'hasSetup', 'hasTeardown']) checkBoolean(facts[flag], of(flag));
  const thresholds = Object.entries(checkObject(facts['thresholds'], of('thresholds')));
  if (thresholds.length > conditionsMax)
    throw badArgument(`${of('thresholds')} has more than ${conditionsMax} entries`);
  for (const [metric, conditions] of thresholds)
    for (const one of checkArray(conditions, of(`the threshold ${metric}`), conditionsMax))
      parseThreshold(checkText(one, of('a threshold'), 200));
  if (facts['style'] === 'load') checkLoad(checkObject(facts['load'], of('load')), of);
  else if (facts['style'] === 'batch') checkBatch(checkObject(facts['batch'], of('batch')), of);
  else throw badArgument(`${of('style')} is neither load nor batch`);
  return facts as unknown as WorkflowFacts;
}

function checkLoad(load: JsonFields, of: (field: string) => string): void {
  checkInteger(load['vus'], of('vus'), 1, jobLimits.vusMax);
  const durationMs = checkOptionalInteger(load['durationMs'], of('durationMs'), 1, jobLimits.timeoutMsMax);
  const iterations = checkOptionalInteger(load['iterations'], of('iterations'), 1, Number.MAX_SAFE_INTEGER);
  if (load['ratePerSecond'] !== undefined) checkNumber(load['ratePerSecond'], of('ratePerSecond'), 0, 10_000_000);
  const stages = load['stages'] === undefined ? [] : checkArray(load['stages'], of('stages'), stagesMax);
  for (const one of stages) {
    const stage = checkObject(one, of('a stage'));
    checkInteger(stage['durationMs'], of('durationMs of a stage'), 0, jobLimits.timeoutMsMax);
    checkNumber(stage['target'], of('target of a stage'), 0, 10_000_000);
  }
  if (durationMs === undefined && iterations === undefined && stages.length === 0)
    throw badArgument(`${of('load')} has neither durationMs nor iterations nor stages: it would never end`);
  const steps = checkArray(load['steps'], of('steps'), stepsMax).map((one) => {
    const step = checkObject(one, of('a step'));
    const name = checkText(step['name'], of('the name of a step'), jobLimits.nameLengthMax);
    return { name, after: checkNames(step['after'], of(`after of step ${name}`), stepsMax) };
  });
  if (steps.length === 0) throw badArgument(`${of('steps')} are missing`);
  checkGraph(steps, of('step'));
}

function checkBatch(batch: JsonFields, of: (field: string) => string): void {
  checkOptionalInteger(batch['items'], of('items'), 0, jobLimits.itemsMax);
  checkInteger(batch['concurrency'], of('concurrency'), 1, 100_000);
  checkInteger(batch['unitItemsMax'], of('unitItemsMax'), 1, jobLimits.itemsMax);
  for (const flag of ['firstOnly', 'keepResults']) checkBoolean(batch[flag], of(flag));
  const { onItemError } = batch;
  if (onItemError !== undefined && !itemErrorPolicies.includes(onItemError as ItemErrorPolicy))
    throw badArgument(`${of('onItemError')} is not one of ${itemErrorPolicies.join(', ')}`);
  checkOptionalInteger(batch['maxFailures'], of('maxFailures'), 0, jobLimits.itemsMax);
}

function checkNames(value: unknown, label: string, max: number): readonly string[] {
  return checkArray(value, label, max).map((one) => checkText(one, label, jobLimits.nameLengthMax));
}

function checkEnv(value: unknown): void {
  if (value === undefined) return;
  const entries = Object.entries(checkObject(value, 'env'));
  if (entries.length > envEntriesMax) throw badArgument(`env has more than ${envEntriesMax} entries`);
  let size = 0;
  for (const [name, text] of entries) {
    if (typeof text !== 'string' || !text.isWellFormed()) throw badArgument(`env ${JSON.stringify(name)} is not text`);
    if (name.length === 0 || name.length > 64 || !name.isWellFormed())
      throw badArgument(`the name ${JSON.stringify(name.slice(0, 80))} in env does not have 1 to 64 characters`);
    size += bytesOf(name) + bytesOf(text);
  }
  if (size > jobLimits.envBytesMax) throw badArgument(`env has more than ${jobLimits.envBytesMax} bytes`);
}

/** Names are unique, dependencies exist, and there is no cycle. */
function checkGraph(
  nodes: readonly { readonly name: string; readonly after: readonly string[] }[],
  kind: string,
): void {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  if (byName.size < nodes.length) {
    const twice = nodes.find((node) => byName.get(node.name) !== node);
    throw badArgument(`${kind} ${JSON.stringify(twice?.name)} occurs twice: names must be unique`);
  }
  for (const { name, after } of nodes)
    for (const one of after)
      if (!byName.has(one))
        throw badArgument(`${kind} ${JSON.stringify(name)} depends on ${JSON.stringify(one)}, which does not exist`);
  const open = new Map(nodes.map(({ name, after }) => [name, new Set(after).size]));
  const free = nodes.filter(({ after }) => after.length === 0).map(({ name }) => name);
  for (let name = free.pop(); name !== undefined; name = free.pop()) {
    open.delete(name);
    for (const node of nodes) {
      if (!node.after.includes(name)) continue;
      const left = (open.get(node.name) ?? 0) - 1;
      open.set(node.name, left);
      if (left === 0) free.push(node.name);
    }
  }
  const [stuck] = open.keys();
  if (stuck !== undefined)
    throw badArgument(`${kind} ${JSON.stringify(stuck)} depends on itself: the dependencies have a cycle`);
}
