/** The dependencies between folders of src. This table is the rule; the architecture page shows it. */

export type Source = { readonly path: string; readonly text: string };

type AllowedImports = {
  /** Folders of src, besides its own. */
  readonly folders: readonly string[];
  /** Packages and builtins: exact names, or `node:*` for all builtins. */
  readonly packages: readonly string[];
};

const machines = ['base', 'messages', 'membership', 'consensus', 'registry', 'registration', 'placement'];

/** A folder that is missing here may not exist: add it with its dependencies, here and on the page. */
export const allowedImports: Readonly<Record<string, AllowedImports>> = {
  base: { folders: [], packages: [] },
  messages: { folders: ['base'], packages: [] },
  membership: { folders: ['base', 'messages'], packages: [] },
  consensus: { folders: ['base', 'messages'], packages: [] },
  registry: { folders: ['base', 'messages', 'consensus'], packages: [] },
  registration: { folders: ['base', 'messages', 'registry'], packages: [] },
  placement: { folders: ['base', 'messages', 'registry', 'registration'], packages: [] },
  containers: { folders: ['base', 'messages', 'registry', 'placement'], packages: [] },
  modules: { folders: ['containers'], packages: [] },
  jobs: { folders: ['base', 'messages', 'registry'], packages: [] },
  runner: { folders: ['base', 'messages', 'jobs'], packages: [] },
  client: { folders: ['base', 'messages', 'containers', 'jobs', 'runner'], packages: [] },
  node: { folders: [...machines, 'containers', 'modules', 'jobs', 'runner'], packages: [] },
  io: { folders: ['base'], packages: ['node:*'] },
  simulation: { folders: [...machines, 'containers', 'modules', 'jobs', 'runner', 'client', 'node'], packages: [] },
  cli: {
    folders: [...machines, 'containers', 'modules', 'jobs', 'runner', 'client', 'node', 'io'],
    packages: ['node:*', 'commander', 'yaml'],
  },
};

/** Files with more rights than their folder, each for a reason. */
const exceptions: Readonly<Record<string, AllowedImports & { readonly reason: string }>> = {
  'src/index.ts': {
    folders: ['base', 'client', 'containers', 'jobs', 'modules', 'node', 'runner'],
    packages: [],
    reason: 'public entry point',
  },
  'src/client/index.ts': {
    folders: ['io', 'node'],
    packages: ['node:*'],
    reason: 'public entry point, composition root',
  },
  'src/node/boot/start-node.ts': { folders: ['io'], packages: ['node:*'], reason: 'composition root' },
  'src/node/membership/membership-thread.ts': {
    folders: ['io'],
    packages: [],
    reason: 'composition root of the membership thread',
  },
  'src/runner/http/node-sockets.ts': {
    folders: [],
    packages: ['node:buffer', 'node:net', 'node:tls'],
    reason: 'the sockets of ctx.http; it runs in the process of a runner, where io/ is not loaded',
  },
  'src/runner/process/bundle-import.ts': {
    folders: [],
    packages: ['node:module'],
    reason: 'imports the code of users, only ever in the process of a runner',
  },
  'src/runner/process/process-guard.ts': {
    folders: [],
    packages: ['node:process'],
    reason: 'contains what the code of users throws, only ever in the process of a runner',
  },
  'src/io/bundle/bundler.ts': { folders: [], packages: ['rolldown'], reason: 'bundles the code of users' },
  'src/io/bundle/console-files.ts': {
    folders: [],
    packages: ['rolldown'],
    reason: 'bundles the console in a checkout',
  },
  'src/simulation/testing.ts': {
    folders: [],
    packages: ['node:timers/promises'],
    reason: 'public entry point: waits for the promises of tests',
  },
};

/** Files that run on virtual time in simulated clusters: real clocks, files and sockets make a seed unrepeatable. */
const simulatedFiles =
  /^test\/(?:simulation\/(?:checking|experiments|faults|workloads)\/|fakes\/fake-(?:code|runner)\.ts$)/;

export function isSimulated(path: string): boolean {
  return simulatedFiles.test(path) && !path.endsWith('.test.ts');
}

export function simulationViolations({ path, text }: Source): readonly string[] {
  return importsOf(text).flatMap((specifier) => {
    const target = specifier.startsWith('.') ? new URL(specifier, `file:///${path}`).pathname.slice(1) : specifier;
    return /^(?:node:|src\/io\/|src\/cli\/)/.test(target) ? [`${path}: import of ${specifier} is not simulated`] : [];
  });
}

/** The specifiers of static and dynamic imports and of re-exports, types included. */
export function importsOf(text: string): readonly string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
  const pattern = /(?<!['"`])(?:\bfrom|\bimport|\bimport\s*\(|\bimport\.meta\.resolve\s*\()\s*(['"`])([^'"`\n]+)\1/g;
  return [...code.matchAll(pattern)].map((match) => match[2] as string);
}

export function importViolations({ path, text }: Source): readonly string[] {
  const folder = folderOf(path);
  const own = folder === '' ? { folders: [], packages: [] } : allowedImports[folder];
  if (own === undefined) return [`${path}: the folder ${folder} is not in the table of dependencies`];
  const extra = exceptionFor(path);
  const folders = [folder, ...own.folders, ...(extra?.folders ?? [])];
  const packages = [...own.packages, ...(extra?.packages ?? [])];
  return importsOf(text).flatMap((specifier) => {
    const violation = specifier.startsWith('.')
      ? folderViolation(path, specifier, folders)
      : packageViolation(specifier, packages);
    return violation === undefined ? [] : [`${path}: ${violation}`];
  });
}

function folderOf(path: string): string {
  const [, folder, ...rest] = path.split('/');
  return rest.length === 0 ? '' : (folder as string);
}

function exceptionFor(path: string): AllowedImports | undefined {
  const key = Object.keys(exceptions).find((one) => (one.endsWith('/') ? path.startsWith(one) : path === one));
  return key === undefined ? undefined : exceptions[key];
}

function folderViolation(path: string, specifier: string, allowed: readonly string[]): string | undefined {
  const target = new URL(specifier, `file:///${path}`).pathname.slice(1);
  if (!specifier.endsWith('.ts')) return `import of ${specifier} does not name a .ts file`;
  if (!target.startsWith('src/')) return `import of ${specifier} leaves src`;
  if (target.endsWith('.test.ts')) return `import of ${specifier} is an import of a test`;
  return allowed.includes(folderOf(target)) ? undefined : `import of ${specifier} is not in the table of dependencies`;
}

function packageViolation(specifier: string, allowed: readonly string[]): string | undefined {
  const isAllowed = allowed.includes(specifier) || (specifier.startsWith('node:') && allowed.includes('node:*'));
  return isAllowed ? undefined : `import of ${specifier} is not allowed in this folder`;
}
