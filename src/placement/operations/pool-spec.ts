/**
 * Validates and completes a request for a pool. A pool never changes afterwards, so the same request twice is one, and
 * another is refused.
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
  /** For the module; JSON. */
  readonly params?: unknown;
  /** More containers than a cluster usually bears, and they are meant. */
  readonly force?: boolean | undefined;
  /** What it begins with; not part of what a pool is, because it changes. 0 if left out. */
  readonly moduleVersion?: number | undefined;
};

export type PoolSpec = Pick<PoolRecord, 'module' | 'containers' | 'copies' | 'durability' | 'restart' | 'params'>;

export const poolLimits = {
  containersMax: 1_000_000,
  /** Each is one record that the leader, and every node's table, holds in memory. */
  containersUnforcedMax: 10_000,
  copiesMax: 7,
  copiesDefault: 2,
  paramsBytesMax: 65_536,
} as const;

/** BAD_ARGUMENT for what could never be, PRECONDITION for what has to be meant. */
export function poolSpec(request: PoolRequest): PoolSpec {
  const { name, module, containers, copies = poolLimits.copiesDefault, durability = 'copies' } = request;
  const { restart = false, params = null, force = false } = request;
  const { containersMax, containersUnforcedMax, copiesMax, paramsBytesMax } = poolLimits;
  require(isName(name), `${JSON.stringify(name)} cannot be the name of a pool`);
  require(isName(module), `${JSON.stringify(module)} cannot be the name of a module`);
  require(isWhole(containers, containersMax), `a pool has 1 to ${containersMax} containers`);
  require(isWhole(copies, copiesMax), `a container has 1 to ${copiesMax} copies, the owner's included`);
  require(poolDurabilities.includes(durability), `durability is one of ${poolDurabilities.join(', ')}`);
  require(typeof restart === 'boolean', 'restart is true or false');
  const text = JSON.stringify(params) as string | undefined;
  require(text !== undefined &&
    text.length <= paramsBytesMax, `params are JSON of at most ${paramsBytesMax} characters`);
  if (containers > containersUnforcedMax && !force)
    throw new RemusterError(
      'PRECONDITION',
      `${containers} containers are more than ${containersUnforcedMax}: say force if that is meant`,
      'no',
    );
  return { module, containers, copies, durability, restart, params };
}

/** Undefined when they are the same; otherwise the words of what differs. */
export function poolSpecDifference(wanted: PoolSpec, there: PoolSpec): string | undefined {
  const words = (['module', 'containers', 'copies', 'durability', 'restart', 'params'] as const)
    .filter((field) => canonical(wanted[field]) !== canonical(there[field]))
    .map((field) => `${field} ${JSON.stringify(there[field])}, not ${JSON.stringify(wanted[field])}`);
  return words.length === 0 ? undefined : words.join('; ');
}

/** Objects are the same whatever the order of their fields. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** The types are only promises: this may have come as JSON. */
function isName(value: unknown): boolean {
  return typeof value === 'string' && namePattern.test(value);
}

function isWhole(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= max;
}

function require(holds: boolean, message: string): void {
  if (!holds) throw new RemusterError('BAD_ARGUMENT', message);
}
