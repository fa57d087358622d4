/**
 * URL of the entry file of a thread or process: beside the file that starts it and with the same extension, so that
 * the same code works on the sources and on the build.
 */
import { assert } from '../../base/assert.ts';

export function entryUrl(ownUrl: string, name: string): URL {
  const extension = /\.[cm]?[jt]s$/.exec(ownUrl)?.[0];
  assert(extension !== undefined, 'a module has a file extension');
  return new URL(`./${name}${extension}`, ownUrl);
}
