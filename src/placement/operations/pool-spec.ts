/**
 * Validates a request for a pool and fills in defaults. The specification of a pool never changes, so creating the same
 * pool again is idempotent, and a different one is refused.
 */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import { type PoolDurability, type PoolRecord, poolDurabilities } from '../state/container-records.ts';

export type PoolRequest = {
  readonly name: string;
  readonly module: string;
  readonly containers: number;
  readonly copies?: number | undefined;
  readonly durability?: PoolDurability | undefined;
  readonly restart?: boolean | undefined;
  /** Parameters of the module, as JSON. */
  readonly params?: unknown;
  /** Allows more than `containersUnforcedMax` containers. */
  readonly force?: boolean | undefined;
  /** The first version; not part of the specification, because it changes. 0 if left out. */
  readonly moduleVersion?: number | undefined;
};

export type PoolSpec = Pick<PoolRecord, 'module' | 'containers' | 'copies' | 'durability' | 'restart' | 'params'>;

export const poolLimits = {
  containersMax: 1_000_000,
  /** Each container is a record in the memory of the leader and of every address table. */
  containersUnforcedMax: 10_000,
  copiesMax: 7,
  copiesDefault: 2,
  paramsBytesMax: 65_536,
} as const;

/** Throws BAD_ARGUMENT for an invalid request, PRECONDITION for one that needs `force`. */
export function poolSpec(request: PoolRequest): PoolSpec {
  const { name, module, containers, copies = poolLimits.copiesDefault, durability = 'copies' } = request;
  const { restart = false, params = null, force = false } = request;
  const { containersMax, containersUnforcedMax, copiesMax, paramsBytesMax } = poolLimits;
  require(isName(name), `${JSON.stringify(name)} cannot be the name of a pool`);
  require(isName(module), `${JSON.stringify(module)} cannot be the name of a module`);
  require(isWhole(containers, containersMax), `a pool has 1 to ${containersMax} containers, not ${String(containers)}`);
  require(isWhole(
    copies,
    copiesMax,
  ), `a container has 1 to ${copiesMax} copies, the owner's included, not ${String(copies)}`);
  require(poolDurabilities.includes(
    durability,
  ), `durability is one of ${poolDurabilities.join(', ')}, not ${durability}`);
  require(typeof restart === 'boolean', 'restart is true or false');
  const text = JSON.stringify(params) as string | undefined;
  require(text !== undefined &&
    text.length <= paramsBytesMax, `params are JSON of at most ${paramsBytesMax} characters`);
  if (containers > containersUnforcedMax && !force)
    throw new RemusterError(
      'PRECONDITION',
      `${containers} containers are more than ${containersUnforcedMax}: create the pool with --force (force: true) all the same`,
      'no',
    );
  return { module, containers, copies, durability, restart, params };
}

/** The fields that differ, as text; undefined if the specifications are equal. */
export function poolSpecDifference(wanted: PoolSpec, existing: PoolSpec): string | undefined {
  const differences = (['module', 'containers', 'copies', 'durability', 'restart', 'params'] as const)
    .filter((field) => canonical(wanted[field]) !== canonical(existing[field]))
    .map((field) => `${field} ${JSON.stringify(existing[field])}, not ${JSON.stringify(wanted[field])}`);
  return differences.length === 0 ? undefined : differences.join('; ');
}

/** JSON with sorted fields: the order of fields does not make objects different. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** The request may be untyped JSON, so the types prove nothing. */
function isName(value: unknown): boolean {
  return typeof value === 'string' && namePattern.test(value);
}

function isWhole(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= max;
}

function require(holds: boolean, message: string): void {
  if (!holds) throw new RemusterError('BAD_ARGUMENT', message);
}
