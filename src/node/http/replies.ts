/**
 * The two shapes of an HTTP reply: a list is `{schemaVersion, items}`, an object has its own fields and
 * `schemaVersion`.
 */
import type { ApiResponse } from '../../base/http-routes.ts';

const schemaVersion = 1;

export function objectReply(fields: object, status = 200): ApiResponse {
  return { status, json: { schemaVersion, ...fields } };
}

export function listReply(items: readonly unknown[]): ApiResponse {
  return objectReply({ items });
}
