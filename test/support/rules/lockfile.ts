/** What package-lock.json must be so that `npm ci` accepts it everywhere. */

export type LockfileEntry = {
  readonly version?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly [other: string]: unknown;
};

export type Lockfile = { readonly packages: Record<string, LockfileEntry> };

/** Entries that name a host: another machine may only reach another registry. */
export function hostsInLockfile(lock: Lockfile): readonly string[] {
  return Object.entries(lock.packages).flatMap(([path, entry]) =>
    entry.resolved === undefined ? [] : [`${path}: ${entry.resolved}`],
  );
}

/** Optional packages, mostly those of other platforms, that a package requires and the lock file does not list. */
export function missingFromLockfile(lock: Lockfile): readonly { name: string; version: string; dev: boolean }[] {
  return Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {}, dev = false }]) =>
    Object.entries(optionalDependencies)
      .filter(
        ([name]) => !(`node_modules/${name}` in lock.packages) && !(`${path}/node_modules/${name}` in lock.packages),
      )
      .map(([name, version]) => ({ name, version, dev })),
  );
}
