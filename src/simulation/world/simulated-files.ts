/** The Files port on a simulated disk. `replace` is atomic and durable; `append` is durable only after `sync`. */
import { failure, type Outcome, success } from '../../base/errors.ts';
import type { Files } from '../../base/ports.ts';
import { type SimulatedDisk, voidSuccess } from '../engine/simulated-disk.ts';
import { FileContent } from '../engine/file-content.ts';
import type { SimulatedProcess } from '../engine/simulated-process.ts';

export function simulatedFiles(disk: SimulatedDisk, process: SimulatedProcess): Files {
  return {
    read(path, done) {
      disk.read(process, () => (isPath(path) ? success(disk.files.get(path)?.bytes()) : badPath), done);
    },
    replace(path, bytes, done) {
      const copy = bytes.slice();
      const effect = changeOf(path, () => fileAt(disk, path).replace(copy));
      disk.write(process, copy.length, true, effect, done);
    },
    append(path, bytes, done) {
      const copy = bytes.slice();
      const effect = changeOf(path, () => fileAt(disk, path).append(copy));
      disk.write(process, copy.length, true, effect, done);
    },
    sync(path, done) {
      const effect = changeOf(path, () => disk.files.get(path)?.sync());
      disk.write(process, 0, false, effect, done);
    },
    truncate(path, sizeBytes, done) {
      const isSize = Number.isSafeInteger(sizeBytes) && sizeBytes >= 0;
      const effect = changeOf(path, () => disk.files.get(path)?.truncate(sizeBytes));
      disk.write(process, 0, false, isSize ? effect : () => badSize, done);
    },
    list(directory, done) {
      const isDirectory = directory === '' || isPath(directory);
      disk.read(process, () => (isDirectory ? success(namesIn(disk, directory)) : badPath), done);
    },
    remove(path, done) {
      const effect = changeOf(path, () => disk.files.delete(path));
      disk.write(process, 0, false, effect, done);
    },
  };
}

const badPath = failure('BAD_ARGUMENT', 'a path must be relative to the data directory, with / and without ..');
const badSize = failure('BAD_ARGUMENT', 'the size of a file must be a whole number');

const pathPattern = /^(?!.*(?:^|\/)\.{1,2}(?:\/|$))[^/\0\\]+(?:\/[^/\0\\]+)*$/;

function isPath(path: string): boolean {
  return pathPattern.test(path) && path.isWellFormed();
}

function changeOf(path: string, run: () => unknown): () => Outcome<void> {
  return () => {
    if (!isPath(path)) return badPath;
    run();
    return voidSuccess;
  };
}

function fileAt(disk: SimulatedDisk, path: string): FileContent {
  const file = disk.files.get(path) ?? new FileContent();
  disk.files.set(path, file);
  return file;
}

/** The files directly in the directory. */
function namesIn(disk: SimulatedDisk, directory: string): string[] {
  const prefix = directory === '' ? '' : `${directory}/`;
  const names: string[] = [];
  for (const path of disk.files.keys()) {
    if (path.startsWith(prefix) && !path.includes('/', prefix.length)) names.push(path.slice(prefix.length));
  }
  return names.toSorted();
}
