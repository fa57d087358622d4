/** The command of an agent of each side, and the parser of its log. */
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { installDebianPackage } from '../../scripts/debian-packages.ts';
import { printProgress } from '../support/harness.ts';

export type ReportedState = 'alive' | 'suspect' | 'dead' | 'left';
export type LogReport =
  | { readonly kind: 'listening' }
  | { readonly kind: 'member'; readonly member: string; readonly state: ReportedState };

export type AgentLaunch = {
  readonly name: string;
  readonly port: number;
  /** For HTTP or RPC. */
  readonly controlPort: number;
  readonly folder: string;
  readonly seeds: readonly string[];
};

export type MembershipSide = {
  readonly name: 'remuster' | 'serf';
  command(plan: AgentLaunch): readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  parse(line: string): LogReport | undefined;
};

export const host = '127.0.0.1';

const environment = Object.entries(process.env).filter(([name]) => !/^(?:REMUSTER|NODE)_/.test(name));

/** Agents with sealed traffic, the profile of a local network and otherwise default options. */
export const remuster: MembershipSide = {
  name: 'remuster',
  command: ({ name, port, controlPort, folder, seeds }) => [
    ...[process.execPath, resolve(import.meta.dirname, '../../src/cli/main.ts'), 'agent', '--with-parent'],
    // Membership only, like Serf.
    ...['--name', name, '--port', String(port), '--http-port', String(controlPort), '--profile', 'lan'],
    ...['--registry', 'none'],
    ...['--data', join(folder, name), ...(seeds.length === 0 ? [] : ['--join', seeds.join(',')])],
  ],
  environment: {
    ...Object.fromEntries(environment),
    REMUSTER_AUTH_SECRET: 'membership-bench-4Jx9qV2mTz7c',
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
  },
  parse: (line) => {
    if (!line.includes('"listening"') && !line.includes('"member.')) return undefined;
    const { message, fields } = JSON.parse(line) as { message: string; fields?: { member?: string } };
    if (message === 'listening') return { kind: 'listening' };
    const state = /^member\.(alive|suspect|dead|left)$/.exec(message)?.[1] as ReportedState | undefined;
    const member = fields?.member;
    return state === undefined || member === undefined ? undefined : { kind: 'member', member, state };
  },
};

const serfEvents: Readonly<Record<string, ReportedState>> = {
  EventMemberJoin: 'alive',
  EventMemberFailed: 'dead',
  EventMemberLeave: 'left',
};

/** With defaults: the profile `lan`, not encrypted. */
export const serf: MembershipSide = {
  name: 'serf',
  command: ({ name, port, controlPort, seeds }) => [
    ...['serf', 'agent', `-node=${name}`, `-bind=${host}:${port}`, `-rpc-addr=${host}:${controlPort}`],
    ...['-profile=lan', '-log-level=info', ...seeds.map((seed) => `-join=${seed}`)],
  ],
  environment: Object.fromEntries(environment),
  parse: (line) => {
    if (line.includes('Serf agent running!')) return { kind: 'listening' };
    const [, event, member] = /serf: (EventMember\w+): (\S+)/.exec(line) ?? [];
    const state = event === undefined ? undefined : serfEvents[event];
    return state === undefined || member === undefined ? undefined : { kind: 'member', member, state };
  },
};

/** Whether Serf is installed. Installs the Debian package if that is possible. */
export function isSerfInstalled(): boolean {
  const program = { packageName: 'serf', command: 'serf', check: ['version'] };
  return installDebianPackage(program, (text) => printProgress(`membership: ${text}`)) === undefined;
}
