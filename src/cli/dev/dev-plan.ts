/** Plan of a dev cluster: names, roles, ports, seeds, command lines. Starts nothing. */
import { join } from 'node:path';
import type { Role } from '../../base/ports.ts';
import { RemusterError } from '../../base/errors.ts';
import type { RejoinPolicy } from '../../registration/registration-options.ts';
import type { NodePortPair } from './free-ports.ts';

export type DevSize = {
  /** In all; managers and workers count per datacenter, because each datacenter needs a quorum of its own. */
  readonly gates: number;
  readonly managers: number;
  readonly workers: number;
  readonly dcs: number;
};

export type PlannedNode = { readonly name: string; readonly roles: readonly Role[]; readonly dc: string };

/** `temporary` when the directory is ours to remove. */
export type DevDataDir = { readonly root: string; readonly temporary: boolean };

export type DevIdentity = { readonly root: string; readonly secret: string; readonly token: string };

/** What all nodes of a dev cluster are started with. */
export type DevNodeOptions = { readonly modules?: string | undefined; readonly rejoin: RejoinPolicy };

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

/** Whom a node greets first: a few others, so that no single one must be up. */
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
  place: DevDataDir,
): string[] {
  const { root, temporary } = place;
  const words = ['agent', '--with-parent', '--dev-root', root, '--cluster', devClusterName, '--chaos'];
  if (temporary) words.push('--dev-temporary');
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
  };
  for (const [flag, value] of Object.entries(values)) if (value !== '') words.push(flag, value);
  return words;
}

/** Of the options in the environment only these reach the nodes: the rest describes some other node. */
const passedOn = ['LOG_LEVEL', 'TIME_SCALE', 'PROFILE', 'CORES', 'WARM_RUNNERS_MAX'].map((name) => `REMUSTER_${name}`);

export function agentEnvironment(
  own: Readonly<Record<string, string | undefined>>,
  { secret, token }: DevIdentity,
  { modules, rejoin }: DevNodeOptions,
): Record<string, string | undefined> {
  const kept = Object.entries(own).filter(([name]) => !name.startsWith('REMUSTER_') || passedOn.includes(name));
  return {
    REMUSTER_PROFILE: 'local',
    ...Object.fromEntries(kept),
    REMUSTER_AUTH_SECRET: secret,
    REMUSTER_TOKEN: token,
    REMUSTER_REJOIN: rejoin,
    ...(modules === undefined ? {} : { REMUSTER_MODULES: modules }),
  };
}

/** `A,B / C` as groups of names. One group alone is cut off from all others. */
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
      `no node is called ${JSON.stringify(unknown)}; there are ${known.join(', ')}`,
    );
  if (groups.some((group) => group.length === 0)) throw new RemusterError('BAD_ARGUMENT', 'write groups as A,B / C');
  if (new Set(named).size !== named.length) throw new RemusterError('BAD_ARGUMENT', 'a node stands in two groups');
  return groups.length > 1 ? groups : [named, known.filter((name) => !named.includes(name))];
}
