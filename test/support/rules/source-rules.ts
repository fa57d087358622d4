/** Rules for one source file at a time: each returns violations with their line. */
import type { Source } from './dependencies.ts';

const linesMax = 400;

export type SourceRule = { readonly name: string; readonly check: (source: Source) => readonly string[] };

export const sourceRules: readonly SourceRule[] = [
  {
    name: `a file has at most ${linesMax} lines`,
    check: ({ path, text }) => {
      const lines = text.split('\n').length - 1;
      return lines <= linesMax ? [] : [`${path}: ${lines} lines`];
    },
  },
  {
    name: 'a file starts with a paragraph on what it owns',
    check: ({ path, text }) =>
      path.endsWith('.test.ts') || /^\/\*\*\s[\s\S]{20,}?\*\//.test(text)
        ? []
        : [`${path}: does not start with /** ... */`],
  },
  {
    name: 'source is ASCII',
    // oxlint-disable-next-line no-control-regex
    check: (source) => linesWith(source, /[^\x00-\x7f]/),
  },
  {
    name: 'nothing but Error is extended',
    check: (source) => linesWith(source, /\bclass\s+\w*\s*(?:<.*>)?\s*extends\s+(?!Error\b)/),
  },
  {
    name: 'nothing is left to do',
    check: (source) => linesWith(source, /\b(?:TODO|FIXME|XXX|HACK)\b/),
  },
  {
    name: 'there is no default export',
    check: (source) => linesWith(source, /^export default\b/),
  },
  {
    name: 'only io and cli read the wall clock',
    check: (source) =>
      /^src\/(?:io|cli)\//.test(source.path) ? [] : linesWith(source, /\bnew Date\(\s*\)|\bDate\(\s*\)/),
  },
];

function linesWith({ path, text }: Source, pattern: RegExp): readonly string[] {
  return text
    .split('\n')
    .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : []));
}
