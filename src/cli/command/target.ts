/**
 * Which cluster a command addresses, and with which token. The first that is given counts: --addr or --context,
 * REMUSTER_ADDR, the current context of the contexts file, the only dev cluster that runs on this machine,
 * http://127.0.0.1:7500. An unknown context is an error, never a silent fallback to another cluster.
 *
 * The contexts file is YAML: `current: NAME` and `contexts: {NAME: {addr, token or tokenFile}}`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { RemusterError } from '../../base/errors.ts';
import { nearestName } from '../../node/options/nearest-name.ts';
import { devTokenOf, onlyDevCluster, runningDevClusters } from './dev-state.ts';

export type ClusterTarget = { readonly addr: string; readonly token: string | undefined };
export type TargetFlags = { readonly addr?: string; readonly context?: string; readonly token?: string };

/** The address of a node with default options. */
export const defaultAddr = 'http://127.0.0.1:7500';

type Context = { readonly addr: string; readonly token?: string; readonly tokenFile?: string };

export async function resolveTarget(flags: TargetFlags): Promise<ClusterTarget> {
  const { addr, token } = await findCluster(flags);
  return { addr: normalizeAddr(addr), token: flags.token ?? process.env['REMUSTER_TOKEN'] ?? token };
}

async function findCluster(flags: TargetFlags): Promise<ClusterTarget> {
  if (flags.addr !== undefined && flags.context !== undefined) {
    throw new RemusterError('BAD_ARGUMENT', '--addr and --context both name a cluster: give one of them');
  }
  if (flags.addr !== undefined) return { addr: flags.addr, token: devTokenOf(flags.addr) };
  if (flags.context !== undefined) return await contextNamed(flags.context);
  const fromEnvironment = process.env['REMUSTER_ADDR'];
  if (fromEnvironment) return { addr: fromEnvironment, token: devTokenOf(fromEnvironment) };
  const { current } = await readContexts();
  if (current !== undefined) return await contextNamed(current);
  const dev = onlyDevCluster();
  if (dev !== undefined) return { addr: dev.admin, token: dev.token };
  const running = runningDevClusters().map(({ admin }) => admin);
  if (running.length > 1)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `several dev clusters run: choose one with --addr ${running.join(' or --addr ')}`,
    );
  return { addr: defaultAddr, token: undefined };
}

async function contextNamed(name: string): Promise<ClusterTarget> {
  const { contexts } = await readContexts();
  const context = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (context === undefined) {
    const nearest = nearestName(name, Object.keys(contexts));
    const hint = nearest === undefined ? `it is not in ${contextsPath()}` : `did you mean ${nearest}?`;
    throw new RemusterError('BAD_ARGUMENT', `unknown context ${JSON.stringify(name)}; ${hint}`);
  }
  const token = context.token ?? (context.tokenFile === undefined ? undefined : readToken(context.tokenFile));
  return { addr: context.addr, token };
}

function contextsPath(): string {
  const base = process.env['XDG_CONFIG_HOME'] || join(homedir(), '.config');
  return process.env['REMUSTER_CONTEXTS'] || join(base, 'remuster', 'contexts.yaml');
}

async function readContexts(): Promise<{ current?: string; contexts: Record<string, Context> }> {
  const path = contextsPath();
  if (!existsSync(path)) return { contexts: {} };
  try {
    const { parse } = await import('yaml');
    const read = parse(readFileSync(path, 'utf8')) as { current?: unknown; contexts?: unknown } | null;
    const contexts = (read?.contexts ?? {}) as Record<string, Context>;
    for (const context of Object.values(contexts)) {
      if (typeof context?.addr !== 'string') throw new Error('each context needs an addr');
    }
    return { contexts, ...(typeof read?.current === 'string' ? { current: read.current } : {}) };
  } catch (error) {
    throw new RemusterError('BAD_ARGUMENT', `cannot read ${path}: ${error instanceof Error ? error.message : ''}`);
  }
}

function readToken(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    throw new RemusterError('BAD_ARGUMENT', `cannot read the token file ${path}`);
  }
}

function normalizeAddr(text: string): string {
  const withScheme = /^[a-z]+:\/\//.test(text) ? text : `http://${text}`;
  const url = URL.canParse(withScheme) ? new URL(withScheme) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || url.hostname === '') {
    throw new RemusterError('BAD_ARGUMENT', `an address looks like http://host:port, not ${JSON.stringify(text)}`);
  }
  return url.origin;
}
