/** Plan of a dev cluster: names, roles, ports, seeds, command lines. Starts nothing. */
import { join } from 'node:path';
import type { Role } from '../../base/ports.ts';
import { RemusterError } from '../../base/errors.ts';
import type { RejoinPolicy } from '../../registration/registration-options.ts';
import type { NodePortPair } from './free-ports.ts';

export type DevSize = {
  /** In total; managers and workers count per datacenter, because each datacenter needs its own quorum. */
  readonly gates: number;
  readonly managers: number;
  readonly workers: number;
  readonly dcs: number;
};

export type PlannedNode = { readonly name: string; readonly roles: readonly Role[]; readonly dc: string };

/** A temporary directory is removed with the cluster. */
export type DevDataDir = { readonly root: string; readonly temporary: boolean };

export type DevIdentity = { readonly root: string; readonly secret: string; readonly token: string };

/** Options that all nodes of a dev cluster share. */
export type DevNodeOptions = {
  readonly modules?: string | undefined;
  readonly rejoin: RejoinPolicy;
  readonly console: boolean;
};

export const devClusterName = 'dev';
export const devHost = '127.0.0.1';
const nodesMax = 50;
const seedsMax = 3;

export function planDevNodes({ gates, managers, workers, dcs }: DevSize): PlannedNode[] {
  const nodes = [
    ...group(gates, 'g', 'gate', (i) => i % dcs),
    ...group(managers * dcs, 'm', 'manager', (i) => Math.floor(i / managers)),
    ...group(workers * dcs, 'w', 'worker', (i) => Math.floor(i / workers)),
  ];
  if (nodes.length === 0 || nodes.length > nodesMax) {
    throw new RemusterError('BAD_ARGUMENT', `a dev cluster has 1 to ${nodesMax} nodes, not ${nodes.length}`);
  }
  return nodes;
}

function group(count: number, letter: string, role: Role, dcOf: (i: number) => number): PlannedNode[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `${letter}${i + 1}`,
    roles: [role],
    dc: `dc${dcOf(i) + 1}`,
  }));
}

/** The seeds of a node: a few other nodes, so that no single one must be running. */
export function seedsFor(index: number, ports: readonly NodePortPair[]): string[] {
  return ports
    .filter((other, i) => i !== index && other.port !== 0)
    .slice(0, seedsMax)
    .map((other) => `${devHost}:${other.port}`);
}

export function agentArguments(
  node: PlannedNode,
  ports: NodePortPair,
  seeds: readonly string[],
  dataDir: DevDataDir,
): string[] {
  const { root, temporary } = dataDir;
  const args = ['agent', '--with-parent', '--dev-root', root, '--cluster', devClusterName, '--chaos'];
  if (temporary) args.push('--dev-temporary');
  const values = {
    '--name': node.name,
    '--roles': node.roles.join(','),
    '--dc': node.dc,
    '--host': devHost,
    '--port': String(ports.port),
    '--http-host': devHost,
    '--http-port': String(ports.httpPort),
    '--join': seeds.join(','),
    '--data': join(root, node.name),
    '--stop-timeout': `${devStopTimeoutMs}ms`,
  };
  for (const [flag, value] of Object.entries(values)) if (value !== '') args.push(flag, value);
  return args;
}

/** Ctrl-C stops all nodes at once, and a person waits for it. */
export const devStopTimeoutMs = 10_000;

/** The nodes inherit only these options of the environment: the others may describe another node. */
const inheritedNames = ['LOG_LEVEL', 'TIME_SCALE', 'PROFILE', 'CORES', 'WARM_RUNNERS_MAX'].map(
  (name) => `REMUSTER_${name}`,
);

export function agentEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  { secret, token }: DevIdentity,
  options: DevNodeOptions,
): Record<string, string | undefined> {
  const { modules, rejoin } = options;
  const kept = Object.entries(environment).filter(
    ([name]) => !name.startsWith('REMUSTER_') || inheritedNames.includes(name),
  );
  return {
    REMUSTER_PROFILE: 'local',
    ...Object.fromEntries(kept),
    REMUSTER_AUTH_SECRET: secret,
    REMUSTER_TOKEN: token,
    REMUSTER_REJOIN: rejoin,
    ...(modules === undefined ? {} : { REMUSTER_MODULES: modules }),
    ...(options.console ? {} : { REMUSTER_CONSOLE: 'false' }),
  };
}

/** Parses `A,B / C` into groups of names. A single group is cut off from all other nodes. */
export function parseGroups(text: string, known: readonly string[]): string[][] {
  const groups = text.split('/').map((group) =>
    group
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  );
  const named = groups.flat();
  const unknown = named.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `there is no node ${JSON.stringify(unknown)}: the nodes are ${known.join(', ')}`,
    );
  if (groups.some((group) => group.length === 0))
    throw new RemusterError('BAD_ARGUMENT', `groups are written as A,B / C, not ${JSON.stringify(text)}`);
  if (new Set(named).size !== named.length)
    throw new RemusterError('BAD_ARGUMENT', `a node is in two groups of ${JSON.stringify(text)}`);
  return groups.length > 1 ? groups : [named, known.filter((name) => !named.includes(name))];
}
