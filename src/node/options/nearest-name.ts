/** "Did you mean": the nearest candidate by edit distance, or none, because a far-fetched guess is worse. */

export function nearestName(typed: string, candidates: readonly string[]): string | undefined {
  const budget = Math.max(1, Math.floor(typed.length / 3));
  let best: { readonly name: string; readonly edits: number } | undefined;
  for (const name of candidates) {
    const edits = editsBetween(typed.toLowerCase(), name.toLowerCase());
    if (edits <= budget && (best === undefined || edits < best.edits)) best = { name, edits };
  }
  return best?.name;
}

/** Insertions, deletions, replacements and swapped neighbours; names are short, so the plain table is fast enough. */
function editsBetween(a: string, b: string): number {
  let before: readonly number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : Infinity;
      current.push(Math.min(replaced, swapped, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    [before, previous] = [previous, current];
  }
  return previous[b.length] ?? 0;
}
