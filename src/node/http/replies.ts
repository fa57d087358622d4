/**
 * The two shapes of an HTTP reply: a list, or an object with `schemaVersion`. The two shapes of an answer over HTTP: a
 * list is `{schemaVersion, items}`, a thing is the object with `schemaVersion`.
 */
import type { ApiResponse } from '../../base/http-routes.ts';

const schemaVersion = 1;

export function objectReply(thing: object, status = 200): ApiResponse {
  return { status, json: { schemaVersion, ...thing } };
}

export function listReply(items: readonly unknown[]): ApiResponse {
  return objectReply({ items });
}
