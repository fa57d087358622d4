/** Creates a ManagedJob from a validated request. Creates no units: those are created when their phase begins. */
import { jobKeys } from '../../job-keys.ts';
import type { WorkflowFacts } from '../../workflow-facts.ts';
import type { ManagedJob, ManagedWorkflow } from '../model/managed-job.ts';
import type { ValidatedRequest } from './request-cache.ts';

export type NewJobFields = Pick<
  ManagedJob,
  'id' | 'submitter' | 'submittedWallMs' | 'submittedMs' | 'seed' | 'key' | 'hash' | 'requestJson'
>;

/** No spread: thousands of jobs are created per second, and a spread would take most of that time. */
export function createJob(
  fields: NewJobFields,
  { request, factsJson, json, hasInlineUnits: isInline }: ValidatedRequest,
  nowMs: number,
): ManagedJob {
  const job: ManagedJob = {
    id: fields.id,
    stateKey: jobKeys.state(fields.id),
    submitter: fields.submitter,
    submittedWallMs: fields.submittedWallMs,
    submittedMs: fields.submittedMs,
    seed: fields.seed,
    key: fields.key,
    hash: fields.hash,
    request,
    requestJson: fields.requestJson,
    requestBytes: json.length,
    status: 'SUBMITTED',
    recordedStatus: 'SUBMITTED',
    startedWallMs: undefined,
    endedWallMs: undefined,
    startedMs: undefined,
    endedMs: undefined,
    errorCode: undefined,
    errorMessage: undefined,
    workflows: [],
    incidents: [],
    isInline,
    isRecorded: false,
    outOfLineBytes: 0,
    hasBlocks: false,
    deadlineMs: Infinity,
    startAtMs: request.startAtMs,
    version: 0,
    hasUnpublishedChange: false,
  };
  job.workflows = request.workflows.map((facts, index) =>
    createWorkflow(job, index, facts, factsJson[index] as string, nowMs),
  );
  return job;
}

function createWorkflow(
  job: ManagedJob,
  index: number,
  facts: WorkflowFacts,
  factsText: string,
  nowMs: number,
): ManagedWorkflow {
  return {
    job,
    index,
    facts,
    factsText,
    status: 'PENDING',
    phase: 'none',
    units: [],
    plan: undefined,
    finish: undefined,
    waiting: [],
    active: 0,
    done: 0,
    areUnitsRecorded: true,
    coresToStart: 1,
    readyMs: nowMs,
    startedMs: undefined,
    endedMs: undefined,
    items: undefined,
    planned: undefined,
    context: undefined,
    value: undefined,
    errorCode: undefined,
    errorMessage: undefined,
    foundUnit: undefined,
    outputBytes: 0,
    failuresListed: 0,
    failureSample: undefined,
    retainedBytes: 0,
    watched: undefined,
    rateSample: { atMs: nowMs, ended: 0, ratePerSecond: 0 },
  };
}
