/** Validates the fields of a load test: steps and their order, users, duration, stages, rate, think time. */
import { jobLimits } from '../../jobs/limits.ts';
import { stepNamePattern, stepsMax } from '../../jobs/report/bounds.ts';
import type { LoadFacts, LoadStage } from '../../jobs/workflow-facts.ts';
import { findCycle } from './dependency-cycle.ts';
import type { CheckedLoad, ThinkTime, StepDefinition } from './checked-workflow.ts';
import { FieldReader } from './field-reader.ts';
import { parseDurationMs } from './amounts.ts';

export const loadFields = ['steps', 'vus', 'duration', 'iterations', 'stages', 'rate', 'think'];
const stagesMax = 1_000;
const rateMax = 10_000_000;
/** With a rate and without `vus`: enough users for the arrivals of this many seconds. */
const usersForSeconds = 10;
const usersForRateMin = 10;
const usersForRateMax = 10_000;

export function parseLoadSpec(reader: FieldReader): { readonly facts: LoadFacts; readonly checked: CheckedLoad } {
  const steps = stepsOf(reader);
  const isSequence = steps.every(({ after }) => after === undefined);
  const checked = { steps, isSequence, think: thinkTimeOf(reader, 'think') };
  const names = steps.map(({ name }, index) => ({
    name,
    after: afterOf(steps, index, isSequence).map((before) => steps[before]?.name ?? ''),
  }));
  return { facts: { ...shapeOf(reader), steps: names }, checked };
}

/** Indexes of the steps that must end before this one. */
function afterOf(steps: readonly StepDefinition[], index: number, isSequence: boolean): readonly number[] {
  if (!isSequence) return steps[index]?.after ?? [];
  return index === 0 ? [] : [index - 1];
}

function shapeOf(reader: FieldReader): Omit<LoadFacts, 'steps'> {
  const vus = reader.integer('vus', 1, jobLimits.vusMax);
  const ratePerSecond = reader.number('rate', 0, rateMax);
  const specified = stagesOf(reader);
  const durationMs = reader.durationMs('duration', 1, jobLimits.timeoutMsMax);
  const iterations = reader.integer('iterations', 1, Number.MAX_SAFE_INTEGER);
  if (specified !== undefined && durationMs !== undefined)
    throw reader.invalid('duration', 'cannot be combined with stages, which have durations of their own');
  if (ratePerSecond === 0 && specified === undefined) throw reader.invalid('rate', 'of 0 needs stages');
  // With stages `vus` is the number of users at the start.
  const stages =
    specified !== undefined && ratePerSecond === undefined && vus !== undefined
      ? [{ durationMs: 0, target: vus }, ...specified]
      : specified;
  const totalMs = durationMs ?? stages?.reduce((sum, stage) => sum + stage.durationMs, 0);
  if (totalMs === undefined && iterations === undefined)
    throw reader.invalid('duration', 'is missing: set duration, iterations or stages');
  return {
    vus: usersFor({ vus, ratePerSecond, stages }),
    ...(totalMs === undefined ? {} : { durationMs: totalMs }),
    ...(iterations === undefined ? {} : { iterations }),
    ...(stages === undefined ? {} : { stages }),
    ...(ratePerSecond === undefined ? {} : { ratePerSecond }),
  };
}

/** The greatest number of users at a time. */
function usersFor(shape: {
  readonly vus: number | undefined;
  readonly ratePerSecond: number | undefined;
  readonly stages: readonly LoadStage[] | undefined;
}): number {
  const peak = Math.max(...(shape.stages ?? []).map(({ target }) => target), shape.ratePerSecond ?? 0);
  if (shape.ratePerSecond === undefined) return shape.stages === undefined ? (shape.vus ?? 1) : Math.max(1, peak);
  return shape.vus ?? Math.min(usersForRateMax, Math.max(usersForRateMin, Math.ceil(peak * usersForSeconds)));
}

function stagesOf(reader: FieldReader): readonly LoadStage[] | undefined {
  const value = reader.raw('stages');
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || value.length === 0 || value.length > stagesMax)
    throw reader.invalid('stages', `must be a list of 1 to ${stagesMax} stages`);
  const isRate = reader.has('rate');
  return value.map((stage: unknown, at) => {
    const fields = new FieldReader(`stage ${at + 1}`, stage);
    fields.rejectUnknown(['duration', 'target']);
    const durationMs = fields.durationMs('duration', 0, jobLimits.timeoutMsMax);
    const target = isRate ? fields.number('target', 0, rateMax) : fields.integer('target', 0, jobLimits.vusMax);
    if (durationMs === undefined || target === undefined)
      throw reader.invalid(`stages[${at}]`, 'needs a duration and a target');
    return { durationMs, target };
  });
}

function stepsOf(reader: FieldReader): readonly StepDefinition[] {
  const entries = Object.entries(reader.isFunction('steps') ? flowSteps(reader) : (reader.object('steps') ?? {}));
  if (entries.length === 0 || entries.length > stepsMax)
    throw reader.invalid('steps', `must have 1 to ${stepsMax} steps, not ${entries.length}`);
  const names = entries.map(([name]) => name);
  const steps = entries.map(([name, value]) => stepOf(reader, name, value, names));
  const cycle = findCycle(names, (name) => (steps[names.indexOf(name)]?.after ?? []).map((at) => names[at] ?? ''));
  if (cycle !== undefined) throw reader.invalid('steps', `have a dependency cycle: ${cycle.join(' after ')}`);
  return steps;
}

/** Calls the function that adds the steps to a flow, one after the other. */
function flowSteps(reader: FieldReader): Readonly<Record<string, unknown>> {
  const steps: Record<string, unknown> = {};
  const flow = {
    step: (name: string, run: unknown, options: object = {}): object => {
      if (Object.hasOwn(steps, name)) throw reader.invalid(`steps.${name}`, 'is defined twice');
      steps[name] = { ...options, run };
      return flow;
    },
  };
  reader.callback<(flow: object) => unknown>('steps')?.(flow);
  return steps;
}

function stepOf(reader: FieldReader, name: string, value: unknown, names: readonly string[]): StepDefinition {
  const label = `steps.${name}`;
  // A numeric name would change the order of the steps: JavaScript lists numeric keys first.
  if (!stepNamePattern.test(name))
    throw reader.invalid(label, 'is not a valid name: use a letter, then letters, digits, _ . -');
  if (typeof value === 'function')
    return { name, after: undefined, run: value as StepDefinition['run'], think: undefined };
  if (typeof value !== 'object' || value === null) throw reader.invalid(label, 'must be a function or { run }');
  const step = new FieldReader(`step "${name}"`, value);
  step.rejectUnknown(['after', 'run', 'think']);
  const run = step.callback<StepDefinition['run']>('run');
  if (run === undefined) throw reader.invalid(`${label}.run`, 'is missing');
  const after = step.has('after') ? indexesOf(reader, name, step.strings('after', stepsMax), names) : undefined;
  return { name, after, run, think: thinkTimeOf(step, 'think') };
}

function indexesOf(reader: FieldReader, name: string, after: readonly string[], names: readonly string[]): number[] {
  return [...new Set(after)].map((before) => {
    const index = names.indexOf(before);
    if (index < 0) throw reader.invalid(`steps.${name}.after`, `names "${before}", which is not a step`);
    return index;
  });
}

function thinkTimeOf(reader: FieldReader, field: string): ThinkTime | undefined {
  const value = reader.raw(field);
  if (value === undefined) return undefined;
  const [fromMs, toMs] = (Array.isArray(value) ? value : [value, value]).map(parseDurationMs);
  if (fromMs !== undefined && toMs !== undefined && fromMs <= toMs && toMs <= jobLimits.timeoutMsMax)
    return { fromMs, toMs };
  throw reader.invalid(field, "must be a time such as '1s', or two of them: ['1s', '3s']");
}
