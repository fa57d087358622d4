/** Writes a bundle to the registry in parts, then its marker. Runs on any manager; never rewrites a stored bundle. */
import { type Done, failure, success, withPossibleEffect } from '../../../base/errors.ts';
import type { Registry } from '../../../base/registry.ts';
import { jobKeys, jobRanges } from '../../job-keys.ts';
import { jobLimits } from '../../limits.ts';
import { encodeBundleMarker, decodeBundleMarker } from '../../records/bundle-marker.ts';

type Store = Pick<Registry, 'range' | 'transact'>;

/** Size of all bundles together: every manager holds them in memory. */
export const storedBundlesBytesMax = 33_554_432;
const markersMax = 1_000;
const timeoutMs = 5_000;

export function storeBundle(
  registry: Store,
  bundle: { readonly sha256: string; readonly code: Uint8Array; readonly wallMs: number },
  done: Done<void>,
): void {
  const { sha256, code } = bundle;
  if (code.length === 0) return done(failure('BAD_ARGUMENT', 'the bundle is empty'));
  if (code.length > jobLimits.bundleBytesMax)
    return done(
      failure(
        'TOO_LARGE',
        `the bundle has ${code.length} bytes; at most ${jobLimits.bundleBytesMax} are allowed`,
        'no',
      ),
    );
  registry.range(jobRanges.bundleMarkers, { limit: markersMax, timeoutMs }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const { entries } = outcome.value;
    if (entries.some(({ key }) => key === jobKeys.bundleMarker(sha256))) return done(success(undefined));
    let sum = code.length;
    for (const { value } of entries) sum += decodeBundleMarker(value)?.bytes ?? 0;
    if (entries.length >= markersMax || sum > storedBundlesBytesMax)
      return done(
        failure('CAPACITY', 'the store of bundles is full: unused bundles are deleted after 10 minutes, then retry'),
      );
    // A copy: the caller may reuse its buffer while the parts are written.
    writePart(registry, { ...bundle, code: new Uint8Array(code) }, 0, done);
  });
}

function writePart(registry: Store, bundle: Parameters<typeof storeBundle>[1], part: number, done: Done<void>): void {
  const { sha256, code, wallMs } = bundle;
  const from = part * jobLimits.partBytesMax;
  const isEnd = from >= code.length;
  const key = isEnd ? jobKeys.bundleMarker(sha256) : jobKeys.bundlePart(sha256, part);
  const marker = { bytes: code.length, parts: part, storedWallMs: wallMs };
  const value = isEnd ? encodeBundleMarker(marker) : code.subarray(from, from + jobLimits.partBytesMax);
  // The marker is written only if the parts exist: a leader may have deleted them meanwhile.
  const compare = isEnd
    ? ([{ key: jobKeys.bundlePart(sha256, 0), target: 'version', is: 'greater', than: 0 }] as const)
    : [];
  const transaction = { compare, then: [{ kind: 'put', key, value } as const], otherwise: [] };
  registry.transact(transaction, { timeoutMs }, (outcome) => {
    if (!outcome.ok) return done(part === 0 ? outcome : { ok: false, error: withPossibleEffect(outcome.error) });
    if (!outcome.value.succeeded)
      return done(failure('CAPACITY', 'the bundle was deleted while it was being stored: store it again', 'maybe'));
    if (isEnd) done(success(undefined));
    else writePart(registry, bundle, part + 1, done);
  });
}
