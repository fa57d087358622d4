/** Routes of jobs: submit, list, show, cancel, report, progress as events. Any node accepts them. */
import { RemusterError, toPromise } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../../base/http-routes.ts';
import type { JobVerb } from '../../messages/jobs.ts';
import { argumentsOfBody } from '../admin/admin-context.ts';
import { objectReply } from './replies.ts';
import { decodeBase64 } from '../../base/base64.ts';
import { type SendJobCommand, retryingJobCommands, requireJobGateway, jobCommandTimeoutMs } from './job-requests.ts';
import { type JobProgressSource, streamJobProgress } from './job-progress-stream.ts';
import type { JobGateway } from '../jobs/job-gateway.ts';

const waitMsMax = 30_000;

type ArgumentsOf = (request: ApiRequest) => object;

/** `gateway` is undefined on a node without jobs. */
export function jobRoutes(
  gateway: () => JobGateway | undefined,
  clock: JobProgressSource['clock'],
): readonly ApiRoute[] {
  const sendCommand = retryingJobCommands(gateway, clock);
  const route = (method: ApiRoute['method'], path: string, verb: JobVerb, argumentsOf: ArgumentsOf): ApiRoute => ({
    method,
    path,
    handler: async (request) => objectReply(await sendCommand(verb, argumentsOf(request))),
  });
  return [
    route('GET', '/v1/jobs', 'list', listArguments),
    {
      method: 'POST',
      path: '/v1/jobs',
      handler: async ({ body }) => await submit(requireJobGateway(gateway), sendCommand, body),
    },
    route('GET', '/v1/jobs/:id', 'show', jobArguments),
    route('DELETE', '/v1/jobs/:id', 'cancel', jobArguments),
    route('GET', '/v1/jobs/:id/report', 'report', jobArguments),
    route('GET', '/v1/jobs/:id/explain', 'explain', jobArguments),
    route('GET', '/v1/jobs/:id/result', 'result', resultArguments),
    route('GET', '/v1/jobs/:id/failures', 'failures', resultArguments),
    {
      method: 'GET',
      path: '/v1/jobs/:id/progress',
      handler: async (request) =>
        await progress({ watch: (args, ms) => sendCommand('watch', args, ms), clock }, request),
    },
    route('GET', '/v1/schedules', 'schedules', () => ({})),
    route('DELETE', '/v1/schedules/:name', 'unschedule', ({ params: { name } }) => ({ name })),
  ];
}

/** `{"request": {...}, "code"?: base64}`: `code` is the bundle, if the managers may not have it yet. */
async function submit(gateway: JobGateway, sendCommand: SendJobCommand, body: unknown): Promise<ApiResponse> {
  const { request, code } = argumentsOfBody(body);
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw new RemusterError('BAD_ARGUMENT', 'the body must be {"request": {...}, "code"?: base64}');
  if (code !== undefined) {
    const { bundle } = request as { readonly bundle?: unknown };
    if (typeof code !== 'string' || typeof bundle !== 'string')
      throw new RemusterError('BAD_ARGUMENT', 'code must be base64, and request.bundle its SHA-256');
    await toPromise<void>((done) => gateway.storeBundle(bundle, decodeBase64(code), done));
  }
  return objectReply(await sendCommand('submit', request));
}

/** `?limit=`, `?status=`. */
function listArguments({ query: { limit, status } }: ApiRequest): object {
  return { limit: numberIn('limit', limit), status };
}

function jobArguments({ params: { id } }: ApiRequest): object {
  return { jobId: id };
}

/** `?workflow=`; `?part=` pages through what is too large for one reply. */
function resultArguments({ params: { id }, query: { workflow, part } }: ApiRequest): object {
  return { jobId: id, workflow, part: numberIn('part', part) };
}

/** Resumes after version `?after=` or Last-Event-ID; `?follow=false` replies once, after at most `?waitMs=`. */
async function progress(source: JobProgressSource, { params, query, lastEventId }: ApiRequest): Promise<ApiResponse> {
  const jobId = params['id'] as string;
  const after = numberIn('after', lastEventId ?? query['after']) ?? 0;
  if (query['follow'] === 'false') {
    const waitMs = Math.min(waitMsMax, numberIn('waitMs', query['waitMs']) ?? 0);
    return objectReply(await source.watch({ jobId, afterVersion: after, waitMs }, waitMs + jobCommandTimeoutMs));
  }
  // An unknown job is an error with a status, not a stream.
  await source.watch({ jobId, afterVersion: 0, waitMs: 0 }, jobCommandTimeoutMs);
  return { sse: (send, end) => streamJobProgress(source, { jobId, after }, send, end) };
}

function numberIn(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new RemusterError('BAD_ARGUMENT', `${name} must be a whole number`);
}
