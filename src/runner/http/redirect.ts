/** Decides where a redirect leads and which headers and body may follow (RFC 9110, 15.4). Sends nothing. */
import type { HttpOptions } from '../definition/http-types.ts';
import type { BufferedResponse } from './buffered-response.ts';
import type { Exchange } from './exchange.ts';
import type { Method } from './request-text.ts';

export type Redirect = { readonly method: Method; readonly url: string; readonly options: HttpOptions | undefined };

const statuses: readonly number[] = [301, 302, 303, 307, 308];
/** They describe a body that is not sent any more. */
const ofBodies: readonly string[] = ['content-type', 'content-encoding', 'content-language', 'content-location'];
/** They are meant for one server and nobody else. */
const ofServers: readonly string[] = ['authorization', 'cookie', 'proxy-authorization', 'host'];

/** Undefined when the answer is the answer. */
export function resolveRedirect({ method, target, options }: Exchange, answer: BufferedResponse): Redirect | undefined {
  const location = statuses.includes(answer.status) ? answer.headers.get('location') : undefined;
  const url = location === undefined ? null : URL.parse(location, target.origin.name + target.path);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  const isChanged = changesToGet(answer.status, method);
  const isElsewhere = url.origin !== target.origin.name;
  url.username = '';
  url.password = '';
  const dropped = [...(isChanged ? ofBodies : []), ...(isElsewhere ? ofServers : [])];
  return { method: isChanged ? 'GET' : method, url: url.href, options: without(options, dropped, isChanged) };
}

/** As all browsers do (RFC 9110, 15.4). */
function changesToGet(status: number, method: Method): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD';
  return (status === 301 || status === 302) && method === 'POST';
}

function without(
  options: HttpOptions | undefined,
  names: readonly string[],
  dropBody: boolean,
): HttpOptions | undefined {
  if (options === undefined || (names.length === 0 && !dropBody)) return options;
  const kept = Object.entries(options.headers ?? {}).filter(([name]) => !names.includes(name.toLowerCase()));
  const headers = Object.fromEntries(kept);
  const anyCertificate = options.anyCertificate === true;
  if (dropBody) return { headers, anyCertificate };
  const { json, body } = options;
  return { headers, anyCertificate, ...(json === undefined ? {} : { json }), ...(body === undefined ? {} : { body }) };
}
