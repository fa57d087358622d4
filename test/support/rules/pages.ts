/** Checks of pages: every link leads somewhere, and the page shows the enforced table of dependencies. */
import { allowedImports } from './dependencies.ts';

export type Page = { readonly path: string; readonly text: string };

/** Links to files or headings that do not exist. `exists` checks a path, `headings` returns the anchors of a page. */
export function brokenLinks(
  page: Page,
  exists: (path: string) => boolean,
  headings: (path: string) => readonly string[],
): readonly string[] {
  const prose = page.text.replaceAll(/^```[\s\S]*?^```/gm, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].flatMap((match) => {
    const link = match[1] as string;
    if (/^[a-z]+:/.test(link)) return [];
    const [target = '', anchor] = link.split('#');
    const path = target === '' ? page.path : new URL(target, `file:///${page.path}`).pathname.slice(1);
    if (!exists(path)) return [`${page.path}: ${link} names no file`];
    return anchor === undefined || headings(path).includes(anchor) ? [] : [`${page.path}: ${link} has no such heading`];
  });
}

/** The anchors that a page offers, as GitHub makes them from its headings. */
export function anchorsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#+\s+(.*)$/gm)].map((match) =>
    (match[1] as string)
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );
}

/** Rows like "| `base` | what | `-` |" of the page, compared with the enforced table. */
export function importTableDifferences(text: string): readonly string[] {
  const rows = [...text.matchAll(/^\| `(\w+)\/` +\|[^|\n]*\|([^|\n]*)\|$/gm)];
  const documented = new Map(
    rows.map((row) => [row[1], [...(row[2] as string).matchAll(/`([^`]+)`/g)].map((m) => m[1])]),
  );
  const enforced = new Map(Object.entries(allowedImports).map(([folder, { folders }]) => [folder, folders]));
  const differences: string[] = [];
  for (const [folder, folders] of enforced) {
    const page = documented.get(folder)?.toSorted().join(', ');
    const table = folders.toSorted().join(', ');
    if (page !== table) differences.push(`${folder}: the page says "${page ?? 'nothing'}", the table "${table}"`);
  }
  for (const folder of documented.keys())
    if (!enforced.has(folder as string)) differences.push(`${folder}: not in the table`);
  return differences;
}

/**
 * Sub-folders of src that the page does not name in a row like "| `base/collections` | ... |", and rows without one.
 */
export function subFolderDifferences(text: string, folders: readonly string[]): readonly string[] {
  const rows = [...text.matchAll(/^\| `(\w+(?:\/[\w-]+)+)` +\|/gm)].map((row) => row[1] as string);
  return [
    ...folders.filter((folder) => !rows.includes(folder)).map((folder) => `${folder}: has no row`),
    ...rows.filter((row) => !folders.includes(row)).map((row) => `${row}: is no folder with sources`),
  ];
}

/** Files such as `base/errors.ts` that the page names and that exist neither in src nor in the project. */
export function missingFiles({ path, text }: Page, exists: (path: string) => boolean): readonly string[] {
  const names = [...text.matchAll(/`((?:[\w-]+\/)+[\w-]+\.ts)`/g)].map((match) => match[1] as string);
  return names.filter((name) => !exists(name) && !exists(`src/${name}`)).map((name) => `${path}: there is no ${name}`);
}
