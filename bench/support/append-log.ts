/** Appends to a file with one sync per append: the limit of the disk. */
import { fdatasync, openSync, write } from 'node:fs';

/** Returns a function that appends bytes and calls `done` when they are durable. */
export function appendLog(file: string): (bytes: Uint8Array, done: () => void) => void {
  const descriptor = openSync(file, 'a');
  return (bytes, done) => {
    write(descriptor, bytes, 0, bytes.length, null, (error) => {
      if (error !== null) throw error;
      fdatasync(descriptor, (failed) => {
        if (failed !== null) throw failed;
        done();
      });
    });
  };
}
