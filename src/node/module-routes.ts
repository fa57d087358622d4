/** Modules over HTTP, as data: deploying a bundle, looking, and telling pools to run another version. Any node answers. */
import type { HttpRequest, HttpRoute } from '../base/http.ts';
import { type AdminAct, carryOut } from './admin-acts.ts';
import { fieldsOf } from './admin-desk.ts';
import { thingAnswer } from './answers.ts';
import type { NodeCore } from './core.ts';

export function moduleRoutes(core: NodeCore): readonly HttpRoute[] {
  const route = (method: HttpRoute['method'], path: string, act: AdminAct): HttpRoute => ({
    method,
    path,
    handler: async (request) => thingAnswer(await carryOut(core, { act, dc: request.query['dc'] }, wordsOf(request))),
  });
  return [
    route('GET', '/v1/modules', 'listModules'),
    route('POST', '/v1/modules', 'deployModule'),
    route('GET', '/v1/modules/:module', 'showModule'),
    route('POST', '/v1/modules/:module/roll', 'rollModule'),
  ];
}

function wordsOf({ params, body }: HttpRequest): object {
  return { ...fieldsOf(body), ...params };
}
