import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { RemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRequest } from '../../base/http-routes.ts';
import { ExportReader } from '../../containers/pool-export.ts';
import type { ContainerService } from '../containers/container-service.ts';
import { poolTransferRoutes } from './pool-transfer-routes.ts';

type RecordedCall = {
  readonly pool: string;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly route: object;
};

/** A node whose calls end with `result`. */
class Scene {
  readonly calls: (RecordedCall & { readonly callId?: string })[] = [];
  result: unknown = 0;
  readonly #parts: Pick<ContainerService, 'calls' | 'table'>;

  constructor() {
    const call = async (request: RecordedCall, { callId }: { callId?: string }): Promise<unknown> => {
      this.calls.push({ ...request, ...(callId === undefined ? {} : { callId }) });
      return this.result;
    };
    this.#parts = {
      calls: { session: () => ({ call }) },
      table: { pool: () => ({ name: 'p', record: { module: 'm', containers: 3 } }) },
    } as unknown as Pick<ContainerService, 'calls' | 'table'>;
  }

  async invoke(verb: 'export' | 'import', id: string, body?: object): Promise<ApiResponse> {
    const route = poolTransferRoutes(() => this.#parts).find(({ path }) => path.includes(verb));
    assert.ok(route);
    const request: ApiRequest = { params: { pool: 'p', id }, query: {}, body, lastEventId: undefined };
    return await route.handler(request);
  }

  async lines(id: string): Promise<readonly string[]> {
    const response = await this.invoke('export', id);
    assert.ok('chunks' in response);
    let text = '';
    for await (const chunk of response.chunks) text += chunk;
    return text.trimEnd().split('\n');
  }
}

const head = { export: 'remuster pool', format: 1, containers: 1 };

describe('a container over HTTP', () => {
  test('is exported as rows with their checksum', async () => {
    const scene = new Scene();
    scene.result = (async function* () {
      yield [['s', 'a', new Uint8Array([1, 2])]];
      yield [['t', 'soon', new Uint8Array()]];
    })();
    const lines = await scene.lines('0');
    assert.deepEqual(lines.slice(0, 2), ['{"s":"a","v":"AQI="}', '{"t":"soon","v":""}']);
    const reader = new ExportReader();
    for (const line of [JSON.stringify(head), '{"container":0}', ...lines]) reader.take(line);
    reader.take('{"complete":true,"containers":1}');
    reader.finish();
    assert.deepEqual(scene.calls, [{ pool: 'p', method: '$export', args: [], route: { id: 0 } }]);
  });

  test('ends a failed export with a line that names the error', async () => {
    const scene = new Scene();
    scene.result = (async function* () {
      yield [['s', 'a', new Uint8Array([1])]];
      throw new RemusterError('PLUGGED');
    })();
    const lines = await scene.lines('2');
    assert.equal((JSON.parse(lines[1] ?? '') as { error: { code: string } }).error.code, 'PLUGGED');
  });

  test('is imported as pages of one caller', async () => {
    const scene = new Scene();
    scene.result = 2;
    const rows = [
      { s: 'a', v: 'AQI=' },
      { t: 'soon', v: '' },
    ];
    const body = { callId: 'import-1/0/1', first: true, rows, module: 'm', containers: 3 };
    const response = await scene.invoke('import', '1', body);
    assert.ok('json' in response);
    assert.deepEqual(response.json, { schemaVersion: 1, imported: 2 });
    const args = [
      true,
      [
        ['s', 'a', new Uint8Array([1, 2])],
        ['t', 'soon', new Uint8Array()],
      ],
    ];
    assert.deepEqual(scene.calls, [{ pool: 'p', method: '$import', args, route: { id: 1 }, callId: 'import-1/0/1' }]);
    await assert.rejects(scene.invoke('import', '1', { ...body, containers: 4 }), { code: 'PRECONDITION' });
    await assert.rejects(scene.invoke('import', '1', { ...body, module: 'other' }), { code: 'PRECONDITION' });
    await assert.rejects(scene.invoke('import', '1', { ...body, rows: [{ x: 1 }] }), { code: 'BAD_ARGUMENT' });
    await assert.rejects(scene.invoke('import', '1', {}), { code: 'BAD_ARGUMENT' });
    await assert.rejects(scene.invoke('import', 'x', body), { code: 'BAD_ARGUMENT' });
    assert.equal(scene.calls.length, 1);
  });
});
