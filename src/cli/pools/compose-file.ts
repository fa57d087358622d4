/**
 * Parses and checks a compose file. Older field names are accepted; meaningless ones are reported. The file of
 * `remuster compose`: YAML with a list of pools.
 */
import { readFileSync } from 'node:fs';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { nearestName } from '../../node/options/nearest-name.ts';
import { type PoolRequest, poolSpec } from '../../placement/operations/pool-spec.ts';

export type ComposePool = PoolRequest & Required<Pick<PoolRequest, 'copies' | 'durability' | 'restart'>>;
export type ComposeFile = { readonly pools: readonly ComposePool[]; readonly ignored: readonly string[] };

const fields = ['name', 'module', 'containers', 'copies', 'durability', 'restart', 'params'] as const;
const otherNames: Readonly<Record<string, (typeof fields)[number]>> = {
  pool_name: 'name',
  mod_name: 'module',
  num_containers: 'containers',
};
/** Numbers of pools are given by the cluster, and a pool is on all nodes. */
const meaningless: readonly string[] = ['pool_id', 'pool_query'];
const poolsMax = 1_000;

export async function readComposeFile(path: string): Promise<ComposeFile> {
  const { parse } = await import('yaml');
  let read: unknown;
  try {
    read = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new RemusterError('BAD_ARGUMENT', `cannot read ${path}: ${error instanceof Error ? error.message : ''}`);
  }
  return parseComposeFile(read, path);
}

export function parseComposeFile(read: unknown, path: string): ComposeFile {
  const list = isObject(read) ? read['compose'] : undefined;
  if (!Array.isArray(list) || list.length === 0 || list.length > poolsMax)
    throw new RemusterError('BAD_ARGUMENT', `${path} must have a list "compose" of 1 to ${poolsMax} pools`);
  const ignored = new Set<string>();
  const pools = list.map((item: unknown, index) => poolOf(item, `${path}: compose[${index}]`, ignored));
  const names = pools.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new RemusterError('BAD_ARGUMENT', `${path} has two pools ${twice}`);
  return { pools, ignored: [...ignored] };
}

function poolOf(item: unknown, place: string, ignored: Set<string>): ComposePool {
  if (!isObject(item)) throw new RemusterError('BAD_ARGUMENT', `${place} must be a pool`);
  const words: Partial<Record<(typeof fields)[number], unknown>> = {};
  for (const [key, value] of Object.entries(item)) {
    if (meaningless.includes(key)) {
      ignored.add(key);
      continue;
    }
    const field = fields.find((one) => one === key) ?? otherNames[key];
    if (field === undefined) throw unknownField(place, key);
    if (words[field] !== undefined) throw new RemusterError('BAD_ARGUMENT', `${place} says twice what its ${field} is`);
    words[field] = value;
  }
  try {
    const request = { ...words, force: true } as Partial<PoolRequest> as PoolRequest;
    return { name: request.name, ...poolSpec(request) };
  } catch (error) {
    if (isRemusterError(error)) throw new RemusterError(error.code, `${place}: ${error.message}`);
    throw error;
  }
}

function unknownField(place: string, key: string): RemusterError {
  const nearest = nearestName(key, fields);
  const hint = nearest === undefined ? `a pool has ${fields.join(', ')}` : `did you mean ${nearest}?`;
  return new RemusterError('BAD_ARGUMENT', `${place} has an unknown field ${JSON.stringify(key)}; ${hint}`);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
