/** Fake Files port in memory; every operation fails with STORE_FAILED while `fails` is set. */
import { type Done, failure, success } from '../../src/base/errors.ts';
import type { Clock, Files } from '../../src/base/ports.ts';

export class FakeFiles {
  readonly content = new Map<string, Uint8Array>();
  fails = false;
  readonly port: Files;

  constructor(clock: Clock) {
    const end = <T>(done: Done<T>, run: () => T): void => {
      clock.schedule(0, () => done(this.fails ? failure('STORE_FAILED') : success(run())));
    };
    this.port = {
      read: (path, done) => end(done, () => this.content.get(path)),
      replace: (path, bytes, done) => end(done, () => void this.content.set(path, bytes.slice())),
      append: (path, bytes, done) =>
        end(done, () => void this.content.set(path, new Uint8Array([...(this.content.get(path) ?? []), ...bytes]))),
      sync: (_, done) => end(done, () => undefined),
      truncate: (path, sizeBytes, done) =>
        end(done, () => void this.content.set(path, (this.content.get(path) ?? new Uint8Array()).slice(0, sizeBytes))),
      list: (directory, done) => end(done, () => this.names(directory)),
      remove: (path, done) => end(done, () => void this.content.delete(path)),
    };
  }

  names(directory: string): readonly string[] {
    const prefix = `${directory}/`;
    const paths = [...this.content.keys()].filter((path) => path.startsWith(prefix));
    return paths.map((path) => path.slice(prefix.length)).toSorted();
  }

  text(path: string): string {
    return new TextDecoder().decode(this.content.get(path));
  }
}
