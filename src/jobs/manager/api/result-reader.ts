/**
 * Reads out-of-line summaries and outputs of a finished job and builds the reply to `report` and `result`, in parts if
 * large. Keeps nothing.
 */
import { type Done, type Outcome, failure, success } from '../../../base/errors.ts';
import type { Registry, RegistryEntry } from '../../../base/registry.ts';
import { jobRanges } from '../../job-keys.ts';
import type { ResultQuery } from '../state/manager-io.ts';
import { joined } from '../recovery/restore-reader.ts';
import type { ManagedJob, ManagedUnit, ManagedWorkflow } from '../model/managed-job.ts';
import { jobReportJson } from './job-report.ts';
import { joinUnitOutputs, jsonTextOf } from '../model/workflow-values.ts';

const timeoutMs = 5_000;
const pageEntries = 100;
/** Of the JSON in one answer, which is JSON in JSON. */
const partCharacters = 2_000_000;

export function readJobResult(
  registry: Pick<Registry, 'range'>,
  {
    verb,
    job,
    argumentsJson,
  }: { readonly verb: 'report' | 'result'; readonly job: ManagedJob; readonly argumentsJson: ResultQuery },
  done: Done<string>,
): void {
  const workflows = job.workflows.filter(
    ({ facts }) => argumentsJson.workflow === undefined || facts.name === argumentsJson.workflow,
  );
  const units = workflows.flatMap(({ units: all, plan }) => (plan === undefined ? all : [plan, ...all]));
  readAll(registry, job, verb === 'report' ? 's' : 'o', units, (outcome) => {
    if (!outcome.ok) return done(outcome);
    if (verb === 'report') return done(success(jobReportJson(job, outcome.value)));
    done(resultOf(workflows, outcome.value, argumentsJson.part));
  });
}

type Bytes = ReadonlyMap<ManagedUnit, Uint8Array>;

function readAll(
  registry: Pick<Registry, 'range'>,
  job: ManagedJob,
  kind: 's' | 'o',
  units: readonly ManagedUnit[],
  done: (outcome: Outcome<Bytes>) => void,
): void {
  const found = new Map<ManagedUnit, Uint8Array>();
  const apart: ManagedUnit[] = [];
  for (const unit of units) {
    const bytes = kind === 's' ? unit.end?.summary : unit.end?.output;
    const size = kind === 's' ? unit.end?.summaryBytes : unit.end?.outputBytes;
    if (bytes !== undefined) found.set(unit, bytes);
    else if (size !== undefined && size > 0) apart.push(unit);
  }
  const next = (): void => {
    const unit = apart.shift();
    if (unit === undefined) return done(success(found));
    const range = jobRanges.resultOf(job.id, unit.workflow.index, unit.number, kind);
    const size = (kind === 's' ? unit.end?.summaryBytes : unit.end?.outputBytes) ?? 0;
    readRange(registry, range.from, range.to, [], (outcome) => {
      if (!outcome.ok) return done(outcome);
      if (outcome.value.length === 0)
        return done(failure('UNKNOWN_JOB', `what job ${job.id} gave is forgotten already`));
      found.set(
        unit,
        joined(
          outcome.value.map(({ value }) => value),
          size,
        ),
      );
      next();
    });
  };
  next();
}

function readRange(
  registry: Pick<Registry, 'range'>,
  from: string,
  to: string,
  before: RegistryEntry[],
  done: (outcome: Outcome<readonly RegistryEntry[]>) => void,
): void {
  registry.range({ from, to }, { limit: pageEntries, timeoutMs }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    before.push(...outcome.value.entries);
    const last = outcome.value.entries.at(-1);
    if (outcome.value.more && last !== undefined) readRange(registry, `${last.key}\0`, to, before, done);
    else done(success(before));
  });
}

function resultOf(workflows: readonly ManagedWorkflow[], bytes: Bytes, part: number | undefined): Outcome<string> {
  const results = workflows.flatMap((workflow) => {
    const text = outputOf(workflow, bytes);
    return text === undefined ? [] : [`${JSON.stringify(workflow.facts.name)}:${text}`];
  });
  const json = `{"results":{${results.join(',')}}}`;
  const parts = Math.max(1, Math.ceil(json.length / partCharacters));
  if (parts === 1 && part === undefined) return success(json);
  const wanted = part ?? 0;
  if (wanted >= parts) return failure('BAD_ARGUMENT', `the result has ${parts} parts`);
  const slice = json.slice(wanted * partCharacters, (wanted + 1) * partCharacters);
  return success(JSON.stringify({ part: wanted, parts, json: slice }));
}

/** JSON of what a workflow gave; undefined if it gave nothing. */
function outputOf(workflow: ManagedWorkflow, bytes: Bytes): string | undefined {
  const { foundUnit, units, facts, plan } = workflow;
  if (facts.load !== undefined && plan !== undefined) return dataOf(bytes.get(plan));
  if (foundUnit !== undefined) return jsonTextOf(bytes.get(units[foundUnit] as ManagedUnit));
  return joinUnitOutputs(workflow, (unit) => jsonTextOf(bytes.get(unit)));
}

function dataOf(output: Uint8Array | undefined): string | undefined {
  const text = jsonTextOf(output);
  if (text === undefined) return undefined;
  const { data } = JSON.parse(text) as { readonly data?: unknown };
  return data === undefined ? undefined : JSON.stringify(data);
}
