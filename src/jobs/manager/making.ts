/** A job in memory, made from what was asked for. It has no units yet: they are made when their time has come. */
import type { JobRequest } from '../job-words.ts';
import { jobKeys } from '../keys.ts';
import type { WorkflowFacts } from '../workflow-facts.ts';
import { bad, bytesOf } from './checking.ts';
import type { Job, Workflow } from './model.ts';
import { unitsAtMost } from './units.ts';

const factsBytesMax = 200_000;
/** Of a job whose units lie in its state. */
const inlineUnitsMax = 16;
const inlineWorkflowsMax = 16;

export type JobBirth = Pick<
  Job,
  'id' | 'submitter' | 'submittedWallMs' | 'submittedMs' | 'seed' | 'key' | 'hash' | 'words' | 'wordsBytes'
>;

export function newJob(birth: JobBirth, request: JobRequest, nowMs: number): Job {
  const { workflows } = request;
  let units = 0;
  for (const facts of workflows) units += unitsAtMost(facts);
  const job: Job = {
    ...birth,
    request,
    stateKey: jobKeys.state(birth.id),
    ...{ status: 'SUBMITTED', shown: 'SUBMITTED', startedWallMs: undefined, endedWallMs: undefined },
    ...{ startedMs: undefined, endedMs: undefined, code: undefined, why: undefined, workflows: [], incidents: [] },
    isInline: workflows.length <= inlineWorkflowsMax && units <= inlineUnitsMax,
    ...{ isStored: false, bytesApart: 0, hasBlocks: false, deadlineMs: Infinity, startAtMs: request.startAtMs },
    ...{ version: 0, isChanged: false },
  };
  for (const [index, facts] of workflows.entries()) job.workflows.push(newWorkflow(job, index, facts, nowMs));
  return job;
}

function newWorkflow(job: Job, index: number, facts: WorkflowFacts, nowMs: number): Workflow {
  const factsText = JSON.stringify(facts);
  if (bytesOf(factsText) > factsBytesMax) throw bad(`the facts of ${facts.name} are more than ${factsBytesMax} bytes`);
  return {
    ...{ job, index, facts, factsText, status: 'PENDING', phase: 'none', units: [], plan: undefined },
    ...{ finish: undefined, waiting: [], active: 0, done: 0, isMade: true, needs: 1, readyMs: nowMs },
    ...{ startedMs: undefined, items: undefined, planned: undefined, context: undefined, value: undefined },
    ...{ outputBytes: 0, keptBytes: 0, watched: undefined, code: undefined, why: undefined, found: undefined },
    ...{ pace: { atMs: nowMs, completed: 0, ratePerSecond: 0 } },
  };
}

export function nameOf(job: Job): string {
  return job.request.name ?? (job.request.workflows[0] as WorkflowFacts).name;
}

/** Of all of it, in its record. */
export const wordsBytesMax = 900_000;
