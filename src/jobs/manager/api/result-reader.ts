/**
 * Reads the out-of-line results of a finished job and builds the reply to `report`, `result` and `failures`, in parts
 * if it is large. Keeps nothing.
 */
import { type Done, type Outcome, failure, success } from '../../../base/errors.ts';
import type { Registry, RegistryEntry } from '../../../base/registry.ts';
import { type ResultKind, jobRanges } from '../../job-keys.ts';
import { joinRecordParts } from '../../records/job-record.ts';
import { type UnitFailures, decodeFailures } from '../../report/item-failures.ts';
import type { ResultQuery, ResultVerb } from '../state/manager-io.ts';
import type { ManagedJob, ManagedUnit, ManagedWorkflow } from '../model/managed-job.ts';
import { type UnitResults, foundValueJson, resultsByPlace, resultsOneByOne } from '../model/item-results.ts';
import { jobFailuresJson, jobReportJson } from './job-report.ts';
import { joinUnitOutputs, jsonTextOf } from '../model/workflow-values.ts';

const timeoutMs = 5_000;
const pageEntries = 100;
/** JSON per reply; as JSON inside JSON it grows when it is escaped. */
const partCharacters = 2_000_000;

export function readJobResult(
  registry: Pick<Registry, 'range'>,
  { verb, job, query }: { verb: ResultVerb; job: ManagedJob; query: ResultQuery },
  done: Done<string>,
): void {
  const workflows = job.workflows.filter(({ facts }) => query.workflow === undefined || facts.name === query.workflow);
  const units = workflows.flatMap(({ units: all, plan }) => (plan === undefined ? all : [plan, ...all]));
  readAll(registry, job, { kind: verb === 'result' ? 'o' : 's', units }, (first) => {
    if (!first.ok) return done(first);
    readAll(registry, job, { kind: 'f', units }, (second) => {
      if (!second.ok) return done(second);
      const failures = new Map([...second.value].map(([unit, bytes]) => [unit, decodeFailures(bytes)]));
      if (verb === 'report') return done(success(jobReportJson(job, first.value, failures)));
      const json =
        verb === 'failures'
          ? jobFailuresJson(job, workflows, { summaries: first.value, failures })
          : resultsJson(workflows, { outputs: first.value, failures, oneByOne: query.oneByOne });
      done(inParts(json, query.part));
    });
  });
}

type Bytes = ReadonlyMap<ManagedUnit, Uint8Array>;

/** The inline bytes of a result and its size; without bytes it is out of line, with size 0 it does not exist. */
function storedPart({ end }: ManagedUnit, kind: ResultKind): { bytes: Uint8Array | undefined; size: number } {
  if (kind === 's') return { bytes: end?.summary, size: end?.summaryBytes ?? 0 };
  if (kind === 'o') return { bytes: end?.output, size: end?.outputBytes ?? 0 };
  return { bytes: end?.failures, size: end?.failuresBytes ?? 0 };
}

function readAll(
  registry: Pick<Registry, 'range'>,
  job: ManagedJob,
  { kind, units }: { readonly kind: ResultKind; readonly units: readonly ManagedUnit[] },
  done: (outcome: Outcome<Bytes>) => void,
): void {
  const found = new Map<ManagedUnit, Uint8Array>();
  const outOfLine: ManagedUnit[] = [];
  for (const unit of units) {
    const { bytes, size } = storedPart(unit, kind);
    if (bytes !== undefined) found.set(unit, bytes);
    else if (size > 0) outOfLine.push(unit);
  }
  const next = (): void => {
    const unit = outOfLine.shift();
    if (unit === undefined) return done(success(found));
    const range = jobRanges.resultOf(job.id, unit.workflow.index, unit.number, kind);
    const { size } = storedPart(unit, kind);
    readRange(registry, range.from, range.to, [], (outcome) => {
      if (!outcome.ok) return done(outcome);
      if (outcome.value.length === 0)
        return done(failure('UNKNOWN_JOB', `the results of job ${job.id} are already deleted`));
      found.set(
        unit,
        joinRecordParts(
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

type Parts = {
  readonly outputs: Bytes;
  readonly failures: ReadonlyMap<ManagedUnit, UnitFailures | undefined>;
  /** Batches only: one entry per item, with its index. */
  readonly oneByOne: boolean;
};

function resultsJson(workflows: readonly ManagedWorkflow[], parts: Parts): string {
  const results = workflows.flatMap((workflow) => {
    const text = outputOf(workflow, parts);
    return text === undefined ? [] : [`${JSON.stringify(workflow.facts.name)}:${text}`];
  });
  return `{"results":{${results.join(',')}}}`;
}

/** The whole JSON if it fits into one reply and no part was requested. */
function inParts(json: string, part: number | undefined): Outcome<string> {
  const parts = Math.max(1, Math.ceil(json.length / partCharacters));
  if (parts === 1 && part === undefined) return success(json);
  const requested = part ?? 0;
  if (requested >= parts)
    return failure('BAD_ARGUMENT', `part ${requested} does not exist: the result has ${parts} parts`);
  const slice = json.slice(requested * partCharacters, (requested + 1) * partCharacters);
  return success(JSON.stringify({ part: requested, parts, json: slice }));
}

/** The output of a workflow as JSON; undefined without output. */
function outputOf(workflow: ManagedWorkflow, { outputs, failures, oneByOne }: Parts): string | undefined {
  const { foundUnit, units, facts, plan } = workflow;
  const textOf = (unit: ManagedUnit): string | undefined => jsonTextOf(outputs.get(unit));
  const results: UnitResults = { textOf, valuesOf: listsOf(outputs), failuresOf: (unit) => failures.get(unit) };
  if (oneByOne) return facts.batch === undefined ? undefined : resultsOneByOne(workflow, results);
  if (facts.load !== undefined && plan !== undefined) return dataOf(outputs.get(plan));
  if (foundUnit !== undefined) return foundValueJson(textOf(units[foundUnit] as ManagedUnit));
  const isList = facts.batch?.keepResults === true && !facts.batch.firstOnly;
  const isWhole = units.every((unit) => unit.end !== undefined && failures.get(unit) === undefined);
  if (isList && !isWhole) return resultsByPlace(workflow, results);
  return joinUnitOutputs(workflow, textOf);
}

function listsOf(outputs: Bytes): UnitResults['valuesOf'] {
  const lists = new Map<ManagedUnit, readonly unknown[] | undefined>();
  return (unit) => {
    if (!lists.has(unit)) {
      const text = jsonTextOf(outputs.get(unit));
      const value: unknown = text === undefined ? undefined : JSON.parse(text);
      lists.set(unit, Array.isArray(value) ? value : undefined);
    }
    return lists.get(unit);
  };
}

function dataOf(output: Uint8Array | undefined): string | undefined {
  const text = jsonTextOf(output);
  if (text === undefined) return undefined;
  const { data } = JSON.parse(text) as { readonly data?: unknown };
  return data === undefined ? undefined : JSON.stringify(data);
}
