/** How an agent of each side is started and how its log is read. */
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { installDebianPackage } from '../../scripts/debian-packages.ts';
import { printProgress } from '../support/harness.ts';

export type ReportedState = 'alive' | 'suspect' | 'dead' | 'left';
export type LogReport =
  | { readonly kind: 'listening' }
  | { readonly kind: 'saw'; readonly member: string; readonly standing: ReportedState };

export type AgentLaunch = {
  readonly name: string;
  readonly port: number;
  /** For HTTP or RPC. */
  readonly controlPort: number;
  readonly folder: string;
  readonly seeds: readonly string[];
};

export type MembershipSide = {
  readonly name: 'ours' | 'serf';
  command(plan: AgentLaunch): readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  read(line: string): LogReport | undefined;
};

export const host = '127.0.0.1';

const passedOn = Object.entries(process.env).filter(([name]) => !/^(?:REMUSTER|NODE)_/.test(name));

/** Real agents: sealed traffic, the profile of a local network, everything else by default. */
export const ours: MembershipSide = {
  name: 'ours',
  command: ({ name, port, controlPort, folder, seeds }) => [
    ...[process.execPath, resolve(import.meta.dirname, '../../src/cli/main.ts'), 'agent', '--with-parent'],
    // Serf is membership and no more: so are ours here.
    ...['--name', name, '--port', String(port), '--http-port', String(controlPort), '--profile', 'lan'],
    ...['--registry', 'none'],
    ...['--data', join(folder, name), ...(seeds.length === 0 ? [] : ['--join', seeds.join(',')])],
  ],
  environment: {
    ...Object.fromEntries(passedOn),
    REMUSTER_AUTH_SECRET: 'membership-bench-4Jx9qV2mTz7c',
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
  },
  read: (line) => {
    if (!line.includes('"listening"') && !line.includes('"member.')) return undefined;
    const { message, fields } = JSON.parse(line) as { message: string; fields?: { member?: string } };
    if (message === 'listening') return { kind: 'listening' };
    const standing = /^member\.(alive|suspect|dead|left)$/.exec(message)?.[1] as ReportedState | undefined;
    const member = fields?.member;
    return standing === undefined || member === undefined ? undefined : { kind: 'saw', member, standing };
  },
};

const serfEvents: Readonly<Record<string, ReportedState>> = {
  EventMemberJoin: 'alive',
  EventMemberFailed: 'dead',
  EventMemberLeave: 'left',
};

/** As it comes: the profile `lan`, not encrypted. */
export const serf: MembershipSide = {
  name: 'serf',
  command: ({ name, port, controlPort, seeds }) => [
    ...['serf', 'agent', `-node=${name}`, `-bind=${host}:${port}`, `-rpc-addr=${host}:${controlPort}`],
    ...['-profile=lan', '-log-level=info', ...seeds.map((seed) => `-join=${seed}`)],
  ],
  environment: Object.fromEntries(passedOn),
  read: (line) => {
    if (line.includes('Serf agent running!')) return { kind: 'listening' };
    const [, event, member] = /serf: (EventMember\w+): (\S+)/.exec(line) ?? [];
    const standing = event === undefined ? undefined : serfEvents[event];
    return standing === undefined || member === undefined ? undefined : { kind: 'saw', member, standing };
  },
};

/** Whether Serf can be measured; installs the Debian package when it is missing and we may. */
export function isSerfInstalled(): boolean {
  const program = { packageName: 'serf', command: 'serf', check: ['version'] };
  return installDebianPackage(program, (text) => printProgress(`membership: ${text}`)) === undefined;
}
