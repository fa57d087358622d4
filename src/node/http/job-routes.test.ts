/** Routes of jobs: commands to the gateway, rejections, retries, and the progress stream. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type ErrorCode,
  type Outcome,
  type StateChanged,
  failure,
  isRemusterError,
  success,
} from '../../base/errors.ts';
import type { ApiResponse, ServerSentEvent, ApiRequest } from '../../base/http-routes.ts';
import type { Clock } from '../../base/ports.ts';
import type { JobStatus } from '../../jobs/job-types.ts';
import { jobRoutes } from './job-routes.ts';
import type { JobGateway } from '../jobs/job-gateway.ts';

type SentCommand = { readonly verb: string; readonly args: Record<string, unknown>; readonly submitter: string };

/** A fake gateway whose replies the test sets, on a clock that advances only while a timer is pending. */
class Scene {
  readonly commands: SentCommand[] = [];
  readonly stored: string[] = [];
  response: (command: SentCommand, times: number) => Outcome<string> = () => success('{}');
  nowMs = 0;
  readonly #clock: Pick<Clock, 'nowMs' | 'schedule'> = {
    nowMs: () => this.nowMs,
    schedule: (delayMs, fire) => {
      const timer = setImmediate(() => {
        this.nowMs += delayMs;
        fire();
      });
      return () => clearImmediate(timer);
    },
  };
  readonly #gateway: JobGateway = {
    send: (verb, args, submitter, remainingMs, done) => {
      assert.ok(remainingMs > 0);
      const command = { verb, args: JSON.parse(args) as Record<string, unknown>, submitter };
      this.commands.push(command);
      const response = this.response(command, this.commands.length);
      setImmediate(() => done(response));
    },
    storeBundle: (sha256, code, done) => {
      this.stored.push(`${sha256}:${new TextDecoder().decode(code)}`);
      done(success(undefined));
    },
  };

  async invoke(method: string, path: string, request: Partial<ApiRequest> = {}): Promise<ApiResponse> {
    const route = jobRoutes(() => this.#gateway, this.#clock).find((one) => one.method === method && one.path === path);
    assert.ok(route, `there is no ${method} ${path}`);
    return await route.handler({ params: {}, query: {}, body: undefined, lastEventId: undefined, ...request });
  }

  async json(method: string, path: string, request: Partial<ApiRequest> = {}): Promise<Record<string, unknown>> {
    const response = await this.invoke(method, path, request);
    assert.ok('json' in response && response.status === 200);
    return response.json as Record<string, unknown>;
  }
}

const refusedWith = (code: ErrorCode) => (error: unknown) => isRemusterError(error, code);
const saying = (stateChanged: StateChanged) => (error: unknown) =>
  isRemusterError(error) && error.stateChanged === stateChanged;
const progress = (version: number, status: JobStatus): Outcome<string> =>
  success(JSON.stringify({ jobId: 'j1', version, status }));

describe('routes of jobs', () => {
  test('forward commands in the name of the operators', async () => {
    const scene = new Scene();
    const params = { id: 'j1' };
    await scene.json('GET', '/v1/jobs', { query: { limit: '5', status: 'RUNNING' } });
    await scene.json('GET', '/v1/jobs/:id', { params });
    await scene.json('DELETE', '/v1/jobs/:id', { params });
    await scene.json('GET', '/v1/jobs/:id/report', { params });
    await scene.json('GET', '/v1/jobs/:id/explain', { params });
    await scene.json('GET', '/v1/jobs/:id/result', { params, query: { workflow: 'w', part: '2' } });
    await scene.json('GET', '/v1/jobs/:id/failures', { params });
    await scene.json('GET', '/v1/schedules');
    await scene.json('DELETE', '/v1/schedules/:name', { params: { name: 'nightly' } });
    assert.deepEqual(
      scene.commands.map(({ verb, args }) => [verb, args]),
      [
        ['list', { limit: 5, status: 'RUNNING' }],
        ['show', { jobId: 'j1' }],
        ['cancel', { jobId: 'j1' }],
        ['report', { jobId: 'j1' }],
        ['explain', { jobId: 'j1' }],
        ['result', { jobId: 'j1', workflow: 'w', part: 2 }],
        ['failures', { jobId: 'j1' }],
        ['schedules', {}],
        ['unschedule', { name: 'nightly' }],
      ],
    );
    assert.ok(scene.commands.every(({ submitter }) => submitter === 'http'));
  });

  test('retry a submission without a key only if it had no effect', async () => {
    for (const [stateChanged, times] of [
      ['no', 2],
      ['maybe', 1],
    ] as const) {
      const scene = new Scene();
      scene.response = (_order, time) => (time === 1 ? failure('NOT_LEADER', 'x', stateChanged) : success('{}'));
      const body = { request: { bundle: 'a' } };
      await scene.invoke('POST', '/v1/jobs', { body }).catch((error: unknown) => assert.ok(saying('maybe')(error)));
      assert.equal(scene.commands.length, times, stateChanged);
    }
  });

  test('do not claim after a later rejection that a submission had no effect', async () => {
    const scene = new Scene();
    scene.response = (_order, times) => failure(times === 1 ? 'NETWORK_TIMEOUT' : 'UNKNOWN_JOB');
    await assert.rejects(scene.invoke('DELETE', '/v1/jobs/:id', { params: { id: 'j1' } }), saying('maybe'));
    assert.equal(scene.commands.length, 2);
  });

  test('store the code of a submission first', async () => {
    const scene = new Scene();
    scene.response = () => success('{"jobId":"j1","status":"QUEUED","isNew":true}');
    const request = { bundle: 'ab', workflows: [] };
    const response = await scene.json('POST', '/v1/jobs', { body: { request, code: btoa('code') } });
    assert.deepEqual(response, { schemaVersion: 1, jobId: 'j1', status: 'QUEUED', isNew: true });
    assert.deepEqual(scene.stored, ['ab:code']);
    assert.deepEqual(scene.commands, [{ verb: 'submit', args: request, submitter: 'http' }]);
  });

  test('reject malformed requests, and every request on a node without jobs', async () => {
    const scene = new Scene();
    const bodies = [
      undefined,
      [],
      {},
      { request: 1 },
      { request: {}, code: 1 },
      { request: { bundle: 'a' }, code: '%' },
    ];
    for (const body of bodies)
      await assert.rejects(
        scene.invoke('POST', '/v1/jobs', { body }),
        refusedWith('BAD_ARGUMENT'),
        JSON.stringify(body),
      );
    await assert.rejects(scene.invoke('GET', '/v1/jobs', { query: { limit: 'x' } }), refusedWith('BAD_ARGUMENT'));
    assert.deepEqual(scene.commands, []);
    const clock = { nowMs: () => 0, schedule: () => () => {} };
    const [list] = jobRoutes(() => undefined, clock);
    const pending = list?.handler({ params: {}, query: {}, body: undefined, lastEventId: undefined });
    await assert.rejects(pending ?? assert.fail(), refusedWith('PRECONDITION'));
  });

  test('retry while there is no leader, and a submission that may have been executed only with a key', async () => {
    const scene = new Scene();
    scene.response = (_order, times) => (times < 4 ? failure('NO_QUORUM') : success('{"items":[]}'));
    assert.deepEqual((await scene.json('GET', '/v1/jobs'))['items'], []);
    assert.equal(scene.commands.length, 4);

    for (const [key, times] of [
      [{}, 1],
      [{ idempotencyKey: 'k' }, 2],
    ] as const) {
      const other = new Scene();
      other.response = (_order, n) => (n < 2 ? failure('NETWORK_TIMEOUT') : success('{}'));
      const pending = other.invoke('POST', '/v1/jobs', { body: { request: { bundle: 'a', ...key } } });
      if (times === 1) await assert.rejects(pending, refusedWith('NETWORK_TIMEOUT'));
      else await pending;
      assert.equal(other.commands.length, times);
    }
    const never = new Scene();
    never.response = () => failure('NO_QUORUM');
    await assert.rejects(never.invoke('GET', '/v1/jobs'), refusedWith('NO_QUORUM'));
    assert.ok(never.nowMs > 10_000);
  });
});

describe('the progress stream', () => {
  async function followed(scene: Scene, request: Partial<ApiRequest> = {}): Promise<readonly ServerSentEvent[]> {
    const response = await scene.invoke('GET', '/v1/jobs/:id/progress', { params: { id: 'j1' }, ...request });
    assert.ok('sse' in response);
    const events: ServerSentEvent[] = [];
    await new Promise<void>((end) => void response.sse((event) => events.push(event) > 0, end));
    return events;
  }

  test('sends each version across a leader change, and ends with the job', async () => {
    const scene = new Scene();
    const replies = [
      progress(3, 'RUNNING'),
      progress(3, 'RUNNING'),
      failure('UNREACHABLE'),
      progress(1, 'RUNNING'),
      progress(1, 'RUNNING'),
      progress(2, 'COMPLETED'),
    ];
    scene.response = (_order, times) => replies[times - 1] ?? assert.fail('too many requests');
    const events = await followed(scene);
    assert.deepEqual(
      events.map(({ id, event }) => [id, event]),
      [
        ['3', 'progress'],
        ['1', 'progress'],
        ['2', 'progress'],
      ],
    );
    assert.deepEqual(
      scene.commands.map(({ args }) => args['afterVersion']),
      [0, 0, 3, 3, 1, 1],
    );
  });

  test('resumes after Last-Event-ID, sends a permanent error, and replies once with follow=false', async () => {
    const scene = new Scene();
    scene.response = (_order, times) => (times < 2 ? progress(8, 'RUNNING') : failure('UNKNOWN_JOB'));
    const events = await followed(scene, { lastEventId: '7' });
    assert.equal(scene.commands[1]?.args['afterVersion'], 7);
    assert.equal((events.at(0)?.data as { error: { code: string } } | undefined)?.error.code, 'UNKNOWN_JOB');

    const once = new Scene();
    once.response = () => progress(8, 'RUNNING');
    const query = { follow: 'false', after: '4', waitMs: '99999' };
    assert.equal((await once.json('GET', '/v1/jobs/:id/progress', { params: { id: 'j1' }, query }))['version'], 8);
    assert.deepEqual(once.commands[0]?.args, { jobId: 'j1', afterVersion: 4, waitMs: 30_000 });

    const none = new Scene();
    none.response = () => failure('UNKNOWN_JOB');
    await assert.rejects(followed(none), refusedWith('UNKNOWN_JOB'));
  });
});
