/** The two shapes of an answer over HTTP: a list is `{schemaVersion, items}`, a thing is the object with `schemaVersion`. */
import type { HttpAnswer } from '../base/http.ts';

const schemaVersion = 1;

export function thingAnswer(thing: object, status = 200): HttpAnswer {
  return { status, json: { schemaVersion, ...thing } };
}

export function listAnswer(items: readonly unknown[]): HttpAnswer {
  return thingAnswer({ items });
}
