/**
 * Resolves options: flag over environment over file over default. Records the origin of each value and reports all
 * problems at once. Pure.
 */
import { RemusterError } from '../../base/errors.ts';
import { nearestName } from './nearest-name.ts';
import {
  envNameOf,
  flagNameOf,
  type NodeOptions,
  type OptionName,
  type OptionRow,
  optionsTable,
  optionRelations,
} from './options-table.ts';

export type { NodeOptions, OptionName } from './options-table.ts';

export type OptionSources = {
  /** By option name; a secret comes as the path of its file under `<name>File`. Undefined means not given. */
  readonly flags?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly file?: { readonly path: string; readonly values: Readonly<Record<string, unknown>> };
  /** Defaults that depend on the machine, such as a name derived from the host name. */
  readonly machine?: { readonly [K in OptionName]?: NodeOptions[K] };
  /** Reads the file of a secret; throws when it cannot. */
  readonly readText?: (path: string) => string;
};

/** The exact origin of a value: `flag --port`, `environment REMUSTER_PORT`, `file remuster.config.yaml`. */
export type OptionOrigin = { readonly kind: 'flag' | 'environment' | 'file' | 'default'; readonly detail: string };

export type OptionProblem = {
  readonly code: 'BAD_ARGUMENT' | 'WEAK_SECRET';
  readonly option: string;
  readonly message: string;
};

export type ResolvedOptions = {
  /** Complete also when there are problems: an invalid value is replaced by the default. */
  readonly values: NodeOptions;
  readonly origins: Readonly<Record<OptionName, OptionOrigin>>;
  readonly problems: readonly OptionProblem[];
  /** Probable mistakes that do not prevent the start, such as an unknown REMUSTER_ variable. */
  readonly warnings: readonly string[];
};

export const optionNames = Object.keys(optionsTable) as OptionName[];

/** Variables that belong to clients and tools, not to a node. */
const otherVariables = ['REMUSTER_ADDR', 'REMUSTER_CLIENT_RETRY_TIMEOUT', 'REMUSTER_WAIT_SERVER', 'REMUSTER_CONTEXTS'];

type Draft = { -readonly [K in OptionName]?: NodeOptions[K] };
type Given = { readonly raw: unknown; readonly origin: OptionOrigin };
type Report = (option: string, message: string, code?: OptionProblem['code']) => void;

export function resolveOptions(sources: OptionSources): ResolvedOptions {
  const problems: OptionProblem[] = [];
  const report: Report = (option, message, code = 'BAD_ARGUMENT') => problems.push({ code, option, message });
  checkFileKeys(sources, report);
  const draft: Record<string, unknown> = {};
  const origins: Record<string, OptionOrigin> = {};
  // The profile determines the defaults of the other options, so it comes first.
  for (const option of ['profile', ...optionNames.filter((other) => other !== 'profile')] as const) {
    const profile = (draft as Draft).profile ?? 'lan';
    const row = optionsTable[option] as OptionRow<unknown>;
    const chosen = chooseValue(option, sources, report);
    draft[option] = chosen?.value ?? sources.machine?.[option] ?? row.defaultFor(profile);
    origins[option] = chosen?.origin ?? {
      kind: 'default',
      detail: row.profiled ? `default of profile ${profile}` : 'default',
    };
  }
  const values = applyTimeScale(draft as NodeOptions);
  checkRelations(values, problems, report);
  return {
    values,
    origins: origins as Record<OptionName, OptionOrigin>,
    problems,
    warnings: unknownVariables(sources),
  };
}

/** Defaults of the profile with the given values on top: for tests and programs that need no sources. */
export function nodeOptions(given: { readonly [K in OptionName]?: NodeOptions[K] } = {}): NodeOptions {
  checkGiven(given);
  const profile = given.profile ?? 'lan';
  const defaults = optionNames.map((option) => [
    option,
    (optionsTable[option] as OptionRow<unknown>).defaultFor(profile),
  ]);
  return applyTimeScale({ ...(Object.fromEntries(defaults) as NodeOptions), ...given });
}

/** A program may be plain JavaScript, which no compiler has checked. */
function checkGiven(given: { readonly roles?: unknown }): void {
  for (const name of Object.keys(given)) {
    if (name in optionsTable) continue;
    const nearest = nearestName(name, optionNames);
    const advice = nearest === undefined ? '' : `, did you mean ${nearest}?`;
    throw new RemusterError('BAD_ARGUMENT', `there is no option ${name}${advice}`);
  }
  const roles = given.roles === undefined ? undefined : optionsTable.roles.type.parse(given.roles);
  if (roles?.ok === false) throw new RemusterError('BAD_ARGUMENT', `roles ${roles.problem}`);
}

/** One error with all problems; the first problem determines the code. */
export function optionProblemsError(problems: readonly OptionProblem[]): RemusterError {
  return new RemusterError(problems[0]?.code ?? 'BAD_ARGUMENT', problems.map((problem) => problem.message).join('\n'));
}

/** The value as `config show` prints it; of a secret only that it is set. */
export function formatOption(option: OptionName, values: NodeOptions): string {
  const row = optionsTable[option] as OptionRow<unknown>;
  return row.type.print(values[option]);
}

function chooseValue(
  option: OptionName,
  sources: OptionSources,
  report: Report,
): { value: unknown; origin: OptionOrigin } | undefined {
  const given = highestPriority(option, sources, report);
  if (given === undefined) return undefined;
  const parsed = (optionsTable[option] as OptionRow<unknown>).type.parse(given.raw);
  if (parsed.ok) return { value: parsed.value, origin: given.origin };
  report(option, `${option} ${parsed.problem} (${given.origin.detail})`);
  return undefined;
}

function highestPriority(option: OptionName, sources: OptionSources, report: Report): Given | undefined {
  const candidates = [givenByFlag(option, sources), givenByEnvironment(option, sources), givenByFile(option, sources)];
  const found = candidates.find((candidate) => candidate !== undefined);
  if (found === undefined || !('path' in found)) return found;
  if (found.value !== undefined) {
    report(option, `${option} is given both as a value and as a file (${found.origin.detail}); keep one of them`);
    return undefined;
  }
  return readSecretFile(option, found.path, found.origin, sources, report);
}

type GivenInFile = { readonly path: unknown; readonly value: unknown; readonly origin: OptionOrigin };

function givenByFlag(option: OptionName, { flags = {} }: OptionSources): Given | GivenInFile | undefined {
  const secret = optionsTable[option].secret;
  const origin = { kind: 'flag', detail: `flag ${flagNameOf(option)}` } as const;
  return valueOrPath(secret ? undefined : flags[option], secret ? flags[`${option}File`] : undefined, origin);
}

function givenByEnvironment(option: OptionName, { env = {} }: OptionSources): Given | GivenInFile | undefined {
  const variable = envNameOf(option);
  const inFile = optionsTable[option].secret ? env[`${variable}_FILE`] || undefined : undefined;
  const detail = inFile === undefined ? variable : `${variable}_FILE`;
  // An empty variable means "not set": that is how shells and container managers unset one.
  return valueOrPath(env[variable] || undefined, inFile, { kind: 'environment', detail: `environment ${detail}` });
}

function givenByFile(option: OptionName, { file }: OptionSources): Given | GivenInFile | undefined {
  if (file === undefined) return undefined;
  const inFile = optionsTable[option].secret ? ownValue(file.values, `${option}File`) : undefined;
  return valueOrPath(ownValue(file.values, option), inFile, { kind: 'file', detail: `file ${file.path}` });
}

function ownValue(values: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

function valueOrPath(value: unknown, path: unknown, origin: OptionOrigin): Given | GivenInFile | undefined {
  if (path !== undefined && path !== null) return { path, value, origin };
  return value === undefined || value === null ? undefined : { raw: value, origin };
}

function readSecretFile(
  option: OptionName,
  path: unknown,
  origin: OptionOrigin,
  sources: OptionSources,
  report: Report,
): Given | undefined {
  try {
    if (typeof path !== 'string' || sources.readText === undefined) throw new Error('not a readable path');
    return { raw: sources.readText(path).trim(), origin };
  } catch {
    report(option, `${option}: cannot read the file ${JSON.stringify(path)} (${origin.detail})`);
    return undefined;
  }
}

function checkFileKeys({ file }: OptionSources, report: Report): void {
  if (file === undefined) return;
  const known = optionNames.flatMap((option) => (optionsTable[option].secret ? [option, `${option}File`] : [option]));
  for (const key of Object.keys(file.values)) {
    if (known.includes(key)) continue;
    const nearest = nearestName(key, known);
    report(
      key,
      `unknown option ${JSON.stringify(key)} (file ${file.path})${nearest === undefined ? '' : `; did you mean ${nearest}?`}`,
    );
  }
}

/** Skips relations of an option that already has a problem of its own. */
function checkRelations(values: NodeOptions, problems: readonly OptionProblem[], report: Report): void {
  const invalidOptions = new Set(problems.map((problem) => problem.option));
  for (const { options, sentence, code, holds } of optionRelations) {
    if (!options.some((option) => invalidOptions.has(option)) && !holds(values)) report(options[0], sentence, code);
  }
}

function applyTimeScale(values: NodeOptions): NodeOptions {
  if (values.timeScale === 1) return values;
  const times = optionNames
    .filter((option) => optionsTable[option].scaled)
    .map((option) => [option, Math.max(1, Math.round((values[option] as number) * values.timeScale))]);
  return { ...values, ...Object.fromEntries(times) } as NodeOptions;
}

function unknownVariables({ env = {} }: OptionSources): string[] {
  const known = [
    ...otherVariables,
    ...optionNames.flatMap((option) => [envNameOf(option), `${envNameOf(option)}_FILE`]),
  ];
  return Object.keys(env)
    .filter((variable) => variable.startsWith('REMUSTER_') && !known.includes(variable))
    .map((variable) => {
      const nearest = nearestName(variable, known);
      return `remuster has no variable ${variable}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`;
    });
}
