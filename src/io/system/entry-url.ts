/**
 * URL of a thread's or process's entry file: beside the file that starts it, with the same extension, so the same line
 * works in the sources and in the build.
 */
import { assert } from '../../base/assert.ts';

export function entryUrl(ownUrl: string, name: string): URL {
  const extension = /\.[cm]?[jt]s$/.exec(ownUrl)?.[0];
  assert(extension !== undefined, 'a module has a file extension');
  return new URL(`./${name}${extension}`, ownUrl);
}
