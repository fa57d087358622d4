/**
 * Jobs over HTTP, as data. Any node answers: its desk passes on what the managers have to decide. What is asked is not
 * judged here, except for its outer shape; progress is a stream of events that ends with the job.
 */
import { RemusterError, toPromise } from '../base/errors.ts';
import type { ApiResponse, ApiRequest, ApiRoute } from '../base/http-routes.ts';
import type { JobVerb } from '../messages/jobs.ts';
import { fieldsOf } from './admin-desk.ts';
import { thingAnswer } from './answers.ts';
import { fromBase64 } from './control/base64.ts';
import { type AskJobs, askerOf, deskOf, orderMs } from './job-asking.ts';
import { type JobFollowing, followJob } from './job-following.ts';
import type { JobDesk } from './jobs/desk.ts';

const waitMsMax = 30_000;

type Words = (request: ApiRequest) => object;

/** `desk` is undefined on a node that has nothing to do with jobs. */
export function jobRoutes(desk: () => JobDesk | undefined, clock: JobFollowing['clock']): readonly ApiRoute[] {
  const ask = askerOf(desk, clock);
  const route = (method: ApiRoute['method'], path: string, verb: JobVerb, words: Words): ApiRoute => ({
    method,
    path,
    handler: async (request) => thingAnswer(await ask(verb, words(request))),
  });
  return [
    route('GET', '/v1/jobs', 'list', listWords),
    { method: 'POST', path: '/v1/jobs', handler: async ({ body }) => await submit(deskOf(desk), ask, body) },
    route('GET', '/v1/jobs/:id', 'show', jobWords),
    route('DELETE', '/v1/jobs/:id', 'cancel', jobWords),
    route('GET', '/v1/jobs/:id/report', 'report', jobWords),
    route('GET', '/v1/jobs/:id/explain', 'explain', jobWords),
    route('GET', '/v1/jobs/:id/result', 'result', resultWords),
    {
      method: 'GET',
      path: '/v1/jobs/:id/progress',
      handler: async (request) => await progress({ watch: (words, ms) => ask('watch', words, ms), clock }, request),
    },
    route('GET', '/v1/schedules', 'schedules', () => ({})),
    route('DELETE', '/v1/schedules/:name', 'unschedule', ({ params: { name } }) => ({ name })),
  ];
}

/** `{"request": {...}, "code"?: base64}`: the code goes with it when the managers may not have it yet. */
async function submit(desk: JobDesk, ask: AskJobs, body: unknown): Promise<ApiResponse> {
  const { request, code } = fieldsOf(body);
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw new RemusterError('BAD_ARGUMENT', 'the body must be {"request": {...}, "code"?: base64}');
  if (code !== undefined) {
    const { bundle } = request as { readonly bundle?: unknown };
    if (typeof code !== 'string' || typeof bundle !== 'string')
      throw new RemusterError('BAD_ARGUMENT', 'code is base64, and request.bundle its SHA-256');
    await toPromise<void>((done) => desk.storeBundle(bundle, fromBase64(code), done));
  }
  return thingAnswer(await ask('submit', request));
}

/** `?limit=`, `?status=`. */
function listWords({ query: { limit, status } }: ApiRequest): object {
  return { limit: numberIn('limit', limit), status };
}

function jobWords({ params: { id } }: ApiRequest): object {
  return { jobId: id };
}

/** `?workflow=`; `?part=` for what is too large for one answer. */
function resultWords({ params: { id }, query: { workflow, part } }: ApiRequest): object {
  return { jobId: id, workflow, part: numberIn('part', part) };
}

/** `?after=` a version or Last-Event-ID say where to go on; `?follow=false` answers once, after at most `?waitMs=`. */
async function progress(source: JobFollowing, { params, query, lastEventId }: ApiRequest): Promise<ApiResponse> {
  const jobId = params['id'] as string;
  const after = numberIn('after', lastEventId ?? query['after']) ?? 0;
  if (query['follow'] === 'false') {
    const waitMs = Math.min(waitMsMax, numberIn('waitMs', query['waitMs']) ?? 0);
    return thingAnswer(await source.watch({ jobId, afterVersion: after, waitMs }, waitMs + orderMs));
  }
  // A job that nobody knows is an error with a status, not a stream.
  await source.watch({ jobId, afterVersion: 0, waitMs: 0 }, orderMs);
  return { sse: (send, end) => followJob(source, { jobId, after }, send, end) };
}

function numberIn(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new RemusterError('BAD_ARGUMENT', `${name} is a whole number`);
}
