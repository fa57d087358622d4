/** Finds a dependency cycle among names. Ignores unknown names. */

/** The names of one cycle, with the first one again at its end; undefined if there is none. */
export function findCycle(
  names: readonly string[],
  after: (name: string) => readonly string[],
): readonly string[] | undefined {
  const known = new Set(names);
  const done = new Set<string>();
  for (const start of names) {
    const path: string[] = [];
    const cycle = walk(start, path);
    if (cycle !== undefined) return cycle;
  }
  return undefined;

  function walk(name: string, path: string[]): readonly string[] | undefined {
    if (done.has(name) || !known.has(name)) return undefined;
    const index = path.indexOf(name);
    if (index >= 0) return [...path.slice(index), name];
    path.push(name);
    for (const before of after(name)) {
      const cycle = walk(before, path);
      if (cycle !== undefined) return cycle;
    }
    path.pop();
    done.add(name);
    return undefined;
  }
}
