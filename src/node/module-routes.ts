/** Modules over HTTP, as data: deploying a bundle, looking, and telling pools to run another version. Any node answers. */
import type { ApiRequest, ApiRoute } from '../base/http-routes.ts';
import { type AdminAct, carryOut } from './admin-acts.ts';
import { fieldsOf } from './admin-desk.ts';
import { thingAnswer } from './answers.ts';
import type { NodeCore } from './core.ts';

export function moduleRoutes(core: NodeCore): readonly ApiRoute[] {
  const route = (method: ApiRoute['method'], path: string, act: AdminAct): ApiRoute => ({
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

function wordsOf({ params, body }: ApiRequest): object {
  return { ...fieldsOf(body), ...params };
}
