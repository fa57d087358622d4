/**
 * Words that this project no longer uses, each with the term to use in its place. A word is found in prose, in strings
 * and inside identifiers (`nobodyHeard` has two words). Holds no word that is part of the public interface.
 */
import type { Source } from './dependencies.ts';

/** Where the words are looked for: sources, comments, pages, test titles, the console. */
export const checkedPaths: readonly string[] = [
  '*.md',
  'bench',
  'bin',
  'console',
  'docs',
  'examples',
  'scripts',
  'src',
  'test',
];

const theNode = 'the node by its role: owner, leader, caller, replica';
const absent = `no with a noun ("no voter"), or ${theNode}`;
const again = 'again, new, or a verb: recreate, retry, restart, re-run';
const fake = 'fake (a test double) or simulated (the simulator)';
const warmUp = 'warm-up';
const expensive = 'expensive, costs more';
const request = 'request';
const joiner = 'joiner, new member';
const declareDead = 'declare dead, dead, remove';
const corrupt = 'corrupt';
const peer = 'unauthenticated peer, unknown sender';

/** A retired word, in lower case, and what to write for it. */
export const retiredWords: ReadonlyMap<string, string> = new Map([
  ['afresh', again],
  ['anew', again],
  ['anybody', theNode],
  ['burial', declareDead],
  ['buried', declareDead],
  ['buries', declareDead],
  ['bury', declareDead],
  ['deaf', 'isolated, does not receive'],
  ['dear', expensive],
  ['dearer', expensive],
  ['dearest', expensive],
  ['errand', request],
  ['errands', request],
  ['everybody', 'all nodes, each member, every caller'],
  ['evil', 'misbehaving, malicious'],
  ['forsaken', 'has lost its quorum, is isolated'],
  ['heed', 'check, obey'],
  ['imitate', fake],
  ['imitated', fake],
  ['imitates', fake],
  ['mischief', 'fault, damage'],
  ['newcomer', joiner],
  ['newcomers', joiner],
  ['nobody', absent],
  ['obituary', 'death notice'],
  ['patience', 'timeout, retry budget'],
  ['pretend', fake],
  ['pretended', fake],
  ['pretending', fake],
  ['pretends', fake],
  ['rehearsal', warmUp],
  ['rehearse', warmUp],
  ['rehearsed', warmUp],
  ['rehearses', warmUp],
  ['somebody', theNode],
  ['spoil', corrupt],
  ['spoiled', corrupt],
  ['spoils', corrupt],
  ['spoilt', corrupt],
  ['stranger', peer],
  ['strangers', peer],
  ['tenure', 'activation'],
  ['tenures', 'activations'],
  ['tidings', 'report, event'],
  ['unheard', 'not received, not acknowledged'],
  ['whoever', theNode],
  ['whomever', theNode],
]);

/** The table of retired words and its test must spell them. */
const exempt = new Set(['test/support/rules/retired-words.ts', 'test/architecture/retired-words.test.ts']);

/** One text per retired word: file, line, word, better words. */
export function retiredWordsIn({ path, text }: Source): readonly string[] {
  if (exempt.has(path)) return [];
  return text.split('\n').flatMap((line, index) =>
    wordsOf(line).flatMap((word) => {
      const better = retiredWords.get(word);
      return better === undefined ? [] : [`${path}:${index + 1}: '${word}' is retired, write: ${better}`];
    }),
  );
}

/** The words of a line in lower case; an identifier is taken apart at its capitals. */
function wordsOf(line: string): readonly string[] {
  return [...line.matchAll(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g)].map(([word]) => word.toLowerCase());
}
