/** A job in memory, made from what was asked for. It has no units yet: they are made when their time has come. */
import { jobKeys } from '../keys.ts';
import type { WorkflowFacts } from '../workflow-facts.ts';
import type { Job, Workflow } from './model.ts';
import type { CheckedRequest } from './requests.ts';

export type JobBirth = Pick<
  Job,
  'id' | 'submitter' | 'submittedWallMs' | 'submittedMs' | 'seed' | 'key' | 'hash' | 'words'
>;

/** Field by field: thousands are made each second, and to spread objects takes longer than all else. */
export function newJob(birth: JobBirth, { request, factsTexts, words, isInline }: CheckedRequest, nowMs: number): Job {
  const job: Job = {
    id: birth.id,
    stateKey: jobKeys.state(birth.id),
    submitter: birth.submitter,
    submittedWallMs: birth.submittedWallMs,
    submittedMs: birth.submittedMs,
    seed: birth.seed,
    key: birth.key,
    hash: birth.hash,
    request,
    words: birth.words,
    wordsBytes: words.length,
    status: 'SUBMITTED',
    shown: 'SUBMITTED',
    startedWallMs: undefined,
    endedWallMs: undefined,
    startedMs: undefined,
    endedMs: undefined,
    code: undefined,
    why: undefined,
    workflows: [],
    incidents: [],
    isInline,
    isStored: false,
    bytesApart: 0,
    hasBlocks: false,
    deadlineMs: Infinity,
    startAtMs: request.startAtMs,
    version: 0,
    isChanged: false,
  };
  job.workflows = request.workflows.map((facts, index) =>
    newWorkflow(job, index, facts, factsTexts[index] as string, nowMs),
  );
  return job;
}

function newWorkflow(job: Job, index: number, facts: WorkflowFacts, factsText: string, nowMs: number): Workflow {
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
    isMade: true,
    needs: 1,
    readyMs: nowMs,
    startedMs: undefined,
    items: undefined,
    planned: undefined,
    context: undefined,
    value: undefined,
    code: undefined,
    why: undefined,
    found: undefined,
    outputBytes: 0,
    keptBytes: 0,
    watched: undefined,
    pace: { atMs: nowMs, completed: 0, ratePerSecond: 0 },
  };
}

export function nameOf(job: Job): string {
  return job.request.name ?? (job.request.workflows[0] as WorkflowFacts).name;
}
