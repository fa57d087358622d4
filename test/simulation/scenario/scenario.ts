/**
 * A scenario as data: workload, nodes, faults, duration, properties. Refuses unknown names and fields, so that no file
 * checks less than it says.
 */
import { RemusterError } from '../../../src/base/errors.ts';
import { namePattern } from '../../../src/base/ids.ts';
import { scenarioCatalog as defaultCatalog, type ScenarioCatalog } from './scenario-catalog.ts';

export type Scenario = {
  readonly name: string;
  readonly nodes: number;
  /** Duration of the phase before the faults. */
  readonly setupSeconds: number;
  /** Duration of the faults. */
  readonly seconds: number;
  /** Duration of the phase between healing and the check of liveness. */
  readonly quietSeconds: number;
  readonly workload: string;
  /** Each seed draws which of them it uses. */
  readonly faults: readonly string[];
  readonly properties: readonly string[];
};

const nodesMax = 1_000;
const secondsMax = 86_400;
const setupSecondsDefault = 5;
const quietSecondsDefault = 60;
const fields = [
  'name',
  'nodes',
  'setupSeconds',
  'seconds',
  'quietSeconds',
  'workload',
  'faults',
  'properties',
] as const;

/** Validates the parsed content of a scenario file. */
export function parseScenario(value: unknown, catalog: ScenarioCatalog = defaultCatalog): Scenario {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad('a scenario is an object');
  const given = value as Readonly<Record<string, unknown>>;
  for (const field of Object.keys(given)) {
    if (!(fields as readonly string[]).includes(field)) throw bad(`a scenario has no field ${field}`);
  }
  const scenario: Scenario = {
    name: named(given['name']),
    nodes: count(given['nodes'], 'nodes', 1, nodesMax),
    setupSeconds: count(given['setupSeconds'] ?? setupSecondsDefault, 'setupSeconds', 0, secondsMax),
    seconds: count(given['seconds'], 'seconds', 0, secondsMax),
    quietSeconds: count(given['quietSeconds'] ?? quietSecondsDefault, 'quietSeconds', 0, secondsMax),
    workload: known(given['workload'], 'workload', catalog.workloads),
    faults: knownAll(given['faults'], 'faults', catalog.faults),
    properties: knownAll(given['properties'], 'properties', catalog.properties),
  };
  if (scenario.properties.length === 0) throw bad('a scenario without properties checks nothing');
  return scenario;
}

/**
 * Scenario files are registered with the number of seeds of a test run. An unregistered file would never run, and a
 * registered file that is missing would not be noticed: both are refused.
 */
export function parseScenarioRegister(value: unknown, filesFound: readonly string[]): ReadonlyMap<string, number> {
  if (typeof value !== 'object' || value === null) throw bad('the register is an object from file to seeds');
  const registered = new Map(
    Object.entries(value).map(([file, seeds]) => [file, count(seeds, `seeds of ${file}`, 1, 1_000_000)] as const),
  );
  for (const file of filesFound) if (!registered.has(file)) throw bad(`${file} is not registered`);
  for (const file of registered.keys()) if (!filesFound.includes(file)) throw bad(`${file} is registered but missing`);
  if (registered.size === 0) throw bad('no scenario is registered');
  return registered;
}

function named(value: unknown): string {
  if (typeof value !== 'string' || !namePattern.test(value))
    throw bad(`the name of a scenario is lower case, not ${JSON.stringify(value)}`);
  return value;
}

function count(value: unknown, field: string, min: number, max: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw bad(`${field} is a whole number from ${min} to ${max}, not ${JSON.stringify(value)}`);
}

function known(value: unknown, field: string, table: Readonly<Record<string, unknown>>): string {
  if (typeof value === 'string' && Object.hasOwn(table, value)) return value;
  throw bad(`${field}: ${JSON.stringify(value)} is unknown, use one of ${Object.keys(table).join(', ')}`);
}

function knownAll(value: unknown, field: string, table: Readonly<Record<string, unknown>>): string[] {
  if (!Array.isArray(value)) throw bad(`${field} is a list of names`);
  const names = value.map((one) => known(one, field, table));
  if (new Set(names).size !== names.length) throw bad(`${field} has a name twice: ${names.join(', ')}`);
  return names;
}

function bad(message: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', message);
}
