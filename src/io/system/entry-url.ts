/**
 * Where the entry files of threads and processes are: beside the file that starts them, with the same extension, so
 * that the same line works in TypeScript sources and in the built JavaScript.
 */
import { assert } from '../../base/assert.ts';

export function entryUrl(ownUrl: string, name: string): URL {
  const extension = /\.[cm]?[jt]s$/.exec(ownUrl)?.[0];
  assert(extension !== undefined, 'a module has a file extension');
  return new URL(`./${name}${extension}`, ownUrl);
}
