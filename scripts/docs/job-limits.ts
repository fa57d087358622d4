/** The limits of jobs, workflows and `ctx.http`: part of the limits table. */
import { jobLimits } from '../../src/jobs/limits.ts';
import { storedBundlesBytesMax } from '../../src/jobs/manager/api/bundle-store.ts';
import { jobListMax } from '../../src/jobs/manager/api/job-commands.ts';
import { openRequestsBytesMax } from '../../src/jobs/manager/state/job-store.ts';
import { submissionBytesMax } from '../../src/jobs/manager/submission/request-cache.ts';
import { idempotencyKeyLengthMax } from '../../src/jobs/manager/submission/request-validation.ts';
import {
  checksMax,
  errorBytesMax,
  errorsMax,
  failuresMax,
  metricsMax,
  stepsMax,
} from '../../src/jobs/report/bounds.ts';
import { concurrencyMax, unitItemsLimit } from '../../src/runner/definition/batch-spec.ts';
import { memoryMbMax } from '../../src/runner/definition/spec-validation.ts';
import { unitLogLinesMax } from '../../src/runner/execution/run-scope.ts';
import { httpLimits } from '../../src/runner/http/http-limits.ts';
import { nodeOptions } from '../../src/node/options/options.ts';
import { type LimitSection, row } from './limit-row.ts';

const options = nodeOptions();

export const jobLimitSections: readonly LimitSection[] = [
  {
    title: 'Jobs and workflows',
    rows: [
      row('a submission without its bundle', submissionBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('bundle of a workflow file', jobLimits.bundleBytesMax, 'bytes', '`TOO_LARGE`.'),
      row(
        'stored bundles of workflows',
        storedBundlesBytesMax,
        'bytes',
        '`CAPACITY` until unused bundles are deleted, within minutes.',
      ),
      row('idempotency key', idempotencyKeyLengthMax, 'characters', '`BAD_ARGUMENT`.'),
      row('workflows of a job', jobLimits.workflowsMax, 'count', '`BAD_ARGUMENT`.'),
      row('cores of a workflow', jobLimits.coresMax, 'count', '`BAD_ARGUMENT`.'),
      row('units of a workflow', jobLimits.unitsMax, 'count', 'Units get larger shares.'),
      row('virtual users of a workflow', jobLimits.vusMax, 'count', '`BAD_ARGUMENT`.'),
      row('items of a batch', jobLimits.itemsMax, 'count', '`BAD_ARGUMENT`.'),
      row('items of one unit (`unitItems`)', unitItemsLimit, 'count', '`BAD_ARGUMENT`.'),
      row('items of one unit at a time (`concurrency`)', concurrencyMax, 'count', '`BAD_ARGUMENT`.'),
      row('environment of a job (`--env`)', jobLimits.envBytesMax, 'bytes', '`TOO_LARGE`.'),
      row(
        'data of `setup`, and results that dependent workflows get',
        jobLimits.contextBytesMax,
        'bytes',
        '`TOO_LARGE` for `setup`; larger results are left out for dependents.',
      ),
      row('results and failed items of one unit', jobLimits.resultBytesMax, 'bytes', '`TOO_LARGE`.'),
      row(
        'results of one workflow (option `jobResultBytesMax`)',
        options.jobResultBytesMax,
        'bytes',
        'The workflow fails with `TOO_LARGE`.',
      ),
      row('failed items of one unit', jobLimits.failuresBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('listed failed items of a workflow', failuresMax, 'count', 'Further failures are only counted.'),
      row('distinct errors in a report', errorsMax, 'count', 'Further errors are only counted.'),
      row('text of an error in a report', errorBytesMax, 'characters', 'The text is cut.'),
      row('names of steps of a unit', stepsMax, 'count', '`TOO_LARGE`.'),
      row('names of metrics of a unit', metricsMax, 'count', '`TOO_LARGE`.'),
      row('names of checks of a unit', checksMax, 'count', '`TOO_LARGE`.'),
      row('log lines of one unit', unitLogLinesMax, 'count', 'Further lines are left out.'),
      row('memory of a runner process (`memory`)', memoryMbMax, 'MB', '`BAD_ARGUMENT`.'),
      row('time limit of a job or workflow', jobLimits.timeoutMsMax, 'ms', '`BAD_ARGUMENT`.'),
      row('retries of a unit', jobLimits.maxRetriesMax, 'count', '`BAD_ARGUMENT`.'),
      row('open jobs', jobLimits.openJobsMax, 'count', '`CAPACITY`.'),
      row('open jobs of one submitter', jobLimits.openJobsPerSubmitterMax, 'count', '`CAPACITY`.'),
      row('requests of all open jobs', openRequestsBytesMax, 'bytes', '`CAPACITY` until some jobs end.'),
      row('finished jobs', jobLimits.finishedJobsMax, 'count', 'The oldest are deleted.'),
      row('schedules', jobLimits.schedulesMax, 'count', '`CAPACITY`.'),
      row('jobs of one list', jobListMax, 'count', '`BAD_ARGUMENT`.'),
    ],
  },
  {
    title: 'ctx.http',
    rows: [
      row('head of a response', httpLimits.headBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('body of a response', httpLimits.bodyBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('connections of one unit', httpLimits.connectionsMax, 'count', 'Further requests wait for a connection.'),
      row('requests that wait for one server', httpLimits.waitingMax, 'count', '`CAPACITY`.'),
      row('redirects', httpLimits.redirectsMax, 'count', 'The redirect is the response.'),
    ],
  },
];
