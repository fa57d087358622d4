/** Resolves a redirect to its URL, method, headers and body (RFC 9110, 15.4). Sends nothing. */
import type { HttpOptions } from '../definition/http-types.ts';
import type { BufferedResponse } from './buffered-response.ts';
import type { Exchange } from './exchange.ts';
import type { Method } from './request-text.ts';

export type Redirect = { readonly method: Method; readonly url: string; readonly options: HttpOptions | undefined };

const statuses: readonly number[] = [301, 302, 303, 307, 308];
/** Dropped together with the body. */
const bodyHeaders: readonly string[] = ['content-type', 'content-encoding', 'content-language', 'content-location'];
/** Dropped on a redirect to another origin: credentials and the host. */
const originHeaders: readonly string[] = ['authorization', 'cookie', 'proxy-authorization', 'host'];

/** Undefined if the response is not a redirect that can be followed. */
export function resolveRedirect(
  { method, target, options }: Exchange,
  response: BufferedResponse,
): Redirect | undefined {
  const location = statuses.includes(response.status) ? response.headers.get('location') : undefined;
  const url = location === undefined ? null : URL.parse(location, target.origin.name + target.path);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  const isChanged = changesToGet(response.status, method);
  const isOtherOrigin = url.origin !== target.origin.name;
  url.username = '';
  url.password = '';
  const dropped = [...(isChanged ? bodyHeaders : []), ...(isOtherOrigin ? originHeaders : [])];
  return { method: isChanged ? 'GET' : method, url: url.href, options: without(options, dropped, isChanged) };
}

/** Like all browsers (RFC 9110, 15.4). */
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
