/** What package-lock.json must be, so that `npm ci` accepts it on every platform and from every registry. */

export type LockEntry = {
  readonly version?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly [other: string]: unknown;
};

export type Lock = { readonly packages: Record<string, LockEntry> };

/** Entries that name a host: another machine may only reach another registry. */
export function hostsInLock(lock: Lock): readonly string[] {
  return Object.entries(lock.packages).flatMap(([path, entry]) =>
    entry.resolved === undefined ? [] : [`${path}: ${entry.resolved}`],
  );
}

/** Optional packages, mostly those of other platforms, that somebody asks for and nobody lists. */
export function missingFromLock(lock: Lock): readonly { name: string; version: string; dev: boolean }[] {
  return Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {}, dev = false }]) =>
    Object.entries(optionalDependencies)
      .filter(
        ([name]) => !(`node_modules/${name}` in lock.packages) && !(`${path}/node_modules/${name}` in lock.packages),
      )
      .map(([name, version]) => ({ name, version, dev })),
  );
}
