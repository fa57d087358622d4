/**
 * Rules for the structure of folders: how many files one holds, how folders import each other, which names are exported
 * twice. Each takes all files at once and returns one text per violation.
 */
import { posix } from 'node:path';
import { importsOf, type Source } from './dependencies.ts';

export const folderFilesMax = 20;

/**
 * Violations that are known and not repaired yet, by their key. The lists only shrink: a new violation fails, and so
 * does an entry that no longer occurs.
 */
export const knownViolations: {
  readonly crowdedFolders: readonly string[];
  readonly cyclicFolders: readonly string[];
  readonly repeatedExports: readonly string[];
} = {
  crowdedFolders: [],
  cyclicFolders: [],
  repeatedExports: [],
};

/** Files that may export a name of another file, each for a reason. */
const exportExceptions: ReadonlyMap<string, string> = new Map([
  ['src/runner/process/package-stub.ts', 'mirrors the public package inside a runner'],
]);

/** An entry file exports `main`, which its process or thread starts. */
const repeatableNames: ReadonlySet<string> = new Set(['main']);

/** `key` names the violation in `knownViolations`; `text` says where it is. */
export type StructureViolation = { readonly key: string; readonly text: string };

function folderOf(path: string): string {
  return posix.dirname(path);
}

/** Folders that hold more than `folderFilesMax` files at one level. */
export function crowdedFolders(sources: readonly Source[]): readonly StructureViolation[] {
  const byFolder = Map.groupBy(sources, ({ path }) => folderOf(path));
  return [...byFolder].flatMap(([folder, files]) =>
    files.length <= folderFilesMax
      ? []
      : [{ key: folder, text: `${folder} has ${files.length} files, at most ${folderFilesMax} are allowed` }],
  );
}

/** Folders that reach themselves through imports of other folders, with the shortest such cycle. Types count. */
export function importCycles(sources: readonly Source[]): readonly StructureViolation[] {
  const imports = importsBetweenFolders(sources);
  return [...imports.keys()].toSorted().flatMap((folder) => {
    const cycle = shortestCycle(folder, imports);
    return cycle === undefined ? [] : [{ key: folder, text: cycle }];
  });
}

/** By importing folder and imported folder: the first import between them, as text. */
function importsBetweenFolders(sources: readonly Source[]): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const imports = new Map<string, Map<string, string>>();
  for (const { path, text } of sources) {
    for (const specifier of importsOf(text).filter((one) => one.startsWith('.'))) {
      const [from, to] = [folderOf(path), folderOf(posix.join(folderOf(path), specifier))];
      const targets = imports.get(from) ?? new Map<string, string>();
      imports.set(from, targets);
      if (from !== to && !targets.has(to)) targets.set(to, `${path} imports ${specifier}`);
    }
  }
  return imports;
}

/** Breadth first, from the folder back to itself. */
function shortestCycle(start: string, imports: ReadonlyMap<string, ReadonlyMap<string, string>>): string | undefined {
  const steps = new Map<string, readonly string[]>([[start, []]]);
  const queue = [start];
  for (let folder = queue.shift(); folder !== undefined; folder = queue.shift()) {
    for (const [to, text] of imports.get(folder) ?? []) {
      const path = [...(steps.get(folder) ?? []), text];
      if (to === start) return `${start} is in an import cycle: ${path.join('; ')}`;
      if (steps.has(to)) continue;
      steps.set(to, path);
      queue.push(to);
    }
  }
  return undefined;
}

/** Names that more than one file declares and exports. A re-export is not a second declaration. */
export function repeatedExports(sources: readonly Source[]): readonly StructureViolation[] {
  const filesByName = new Map<string, string[]>();
  for (const source of sources) {
    if (exportExceptions.has(source.path)) continue;
    for (const name of exportedNames(source)) {
      if (repeatableNames.has(name)) continue;
      filesByName.set(name, [...(filesByName.get(name) ?? []), source.path]);
    }
  }
  return [...filesByName].flatMap(([name, files]) =>
    files.length === 1 ? [] : [{ key: name, text: `${name} is exported by ${files.join(' and ')}` }],
  );
}

const declaration =
  /^export\s+(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:const|let|var|function\*?|class|type|interface|enum)\s+([A-Za-z_$][\w$]*)/gm;
const exportList = /^export\s+(?:type\s+)?\{([^}]*)\}(?!\s*from\b)/gm;
const importClause = /^import\s+([^'"]+?)\s+from\b/gm;

/** The names that a file declares and exports; overloads of a function are one name. */
export function exportedNames({ text }: Source): readonly string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '');
  const imported = new Set([...code.matchAll(importClause)].flatMap(([, clause]) => clause?.match(/[\w$]+/g) ?? []));
  const declared = [...code.matchAll(declaration)].map(([, name]) => name as string);
  const listed = [...code.matchAll(exportList)].flatMap(([, list]) =>
    (list ?? '').split(',').flatMap((item) => {
      const [local, exported = local] = item
        .replace(/^\s*type\s/, '')
        .trim()
        .split(/\s+as\s+/);
      return local === undefined || local === '' || imported.has(local) ? [] : [exported as string];
    }),
  );
  return [...new Set([...declared, ...listed])];
}

/** New violations, and entries of the list of known ones that no longer occur. */
export function unexpected(found: readonly StructureViolation[], known: readonly string[]): readonly string[] {
  const keys = new Set(found.map(({ key }) => key));
  return [
    ...found.filter(({ key }) => !known.includes(key)).map(({ text }) => text),
    ...known.filter((key) => !keys.has(key)).map((key) => `${key} is repaired: remove it from knownViolations`),
  ];
}
