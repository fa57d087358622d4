/**
 * Parses and validates the YAML file of `remuster compose`: a list of pools. Older field names are accepted; fields
 * without a meaning here are reported, not applied.
 */
import { readFileSync } from 'node:fs';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { nearestName } from '../../node/options/nearest-name.ts';
import { type PoolRequest, poolSpec } from '../../placement/operations/pool-spec.ts';

export type ComposePool = PoolRequest & Required<Pick<PoolRequest, 'copies' | 'durability' | 'restart'>>;
export type ComposeFile = { readonly pools: readonly ComposePool[]; readonly ignored: readonly string[] };

const fields = ['name', 'module', 'containers', 'copies', 'durability', 'restart', 'params'] as const;
const olderNames: Readonly<Record<string, (typeof fields)[number]>> = {
  pool_name: 'name',
  mod_name: 'module',
  num_containers: 'containers',
};
/** The cluster numbers the pools, and a pool is on all nodes. */
const ignoredFields: readonly string[] = ['pool_id', 'pool_query'];
const poolsMax = 1_000;

export async function readComposeFile(path: string): Promise<ComposeFile> {
  const { parse } = await import('yaml');
  let parsed: unknown;
  try {
    parsed = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const text = code === 'ENOENT' ? `there is no file ${path}` : `cannot read pools from ${path}: ${message}`;
    throw new RemusterError('BAD_ARGUMENT', text);
  }
  return parseComposeFile(parsed, path);
}

export function parseComposeFile(parsed: unknown, path: string): ComposeFile {
  const list = isObject(parsed) ? parsed['compose'] : undefined;
  if (!Array.isArray(list) || list.length === 0 || list.length > poolsMax)
    throw new RemusterError('BAD_ARGUMENT', `${path} must have a list "compose" of 1 to ${poolsMax} pools`);
  const ignored = new Set<string>();
  const pools = list.map((item: unknown, index) => poolOf(item, `${path}: compose[${index}]`, ignored));
  const names = pools.map(({ name }) => name);
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined) throw new RemusterError('BAD_ARGUMENT', `${path} has two pools named ${duplicate}`);
  return { pools, ignored: [...ignored] };
}

function poolOf(item: unknown, place: string, ignored: Set<string>): ComposePool {
  if (!isObject(item)) throw new RemusterError('BAD_ARGUMENT', `${place} must be a pool`);
  const values: Partial<Record<(typeof fields)[number], unknown>> = {};
  for (const [key, value] of Object.entries(item)) {
    if (ignoredFields.includes(key)) {
      ignored.add(key);
      continue;
    }
    const field = fields.find((one) => one === key) ?? olderNames[key];
    if (field === undefined) throw unknownField(place, key);
    if (values[field] !== undefined) throw new RemusterError('BAD_ARGUMENT', `${place} sets its ${field} twice`);
    values[field] = value;
  }
  try {
    const request = { ...values, force: true } as Partial<PoolRequest> as PoolRequest;
    return { name: request.name, ...poolSpec(request) };
  } catch (error) {
    if (isRemusterError(error)) throw new RemusterError(error.code, `${place}: ${error.message}`);
    throw error;
  }
}

function unknownField(place: string, key: string): RemusterError {
  const nearest = nearestName(key, fields);
  const hint = nearest === undefined ? `the fields are ${fields.join(', ')}` : `did you mean ${nearest}?`;
  return new RemusterError('BAD_ARGUMENT', `${place} has an unknown field ${JSON.stringify(key)}; ${hint}`);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
