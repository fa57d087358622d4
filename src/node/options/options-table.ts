/**
 * Every option of a node, declared once: type, flag, variable, help, validation and reference page come from it. A
 * name carries its unit (`probeIntervalMs`); its flag and variable do not (`--probe-interval`,
 * `REMUSTER_PROBE_INTERVAL`), because the value of a duration is typed with its unit. No schema library (decision 18):
 * a schema would be a second table beside flags, variables and the page.
 */
import type { LogLevel } from '../../base/ports.ts';
import { containerOptionRelations, containerOptionRows } from './container-options.ts';
import { controlPlaneOptionRelations, controlPlaneOptionRows } from './control-plane-options.ts';
import { jobOptionRelations, jobOptionRows } from './job-options.ts';
import { membershipOptionRelations, membershipOptionRows } from './membership-options.ts';
import { optionRow, type OptionRow, profiles, timeOptionRow } from './option-rows.ts';
import {
  addressListOption,
  choiceOption,
  choiceListOption,
  secretOption,
  secretListOption,
  durationOption,
  factorOption,
  isLoopbackHost,
  nameOption,
  optionalOption,
  portOption,
  textOption,
  booleanOption,
} from './option-types.ts';

export { profiles, type OptionRow } from './option-rows.ts';

const path = optionalOption(textOption('path'));
const logLevels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly LogLevel[];

const hour = 3_600_000;
const secretLengthMin = 16;

export const optionsTable = {
  name: optionRow(
    nameOption('name'),
    'node',
    'Name of this node, unique in the cluster; by default the command line derives it from the host name.',
  ),
  roles: optionRow(
    choiceListOption(['gate', 'manager', 'worker']),
    ['manager', 'worker'],
    'What this node does: accept requests of clients (gate), vote and keep the registry (manager), hold containers and run jobs (worker).',
  ),
  dc: optionRow(nameOption('name'), 'dc1', 'Datacenter of this node; the managers of one datacenter form one group.'),
  cluster: optionRow(
    nameOption('name'),
    'remuster',
    'Name of the cluster; nodes of another cluster are refused even if they have the same secret.',
  ),
  host: optionRow(
    textOption('address', 255),
    '127.0.0.1',
    'Address on which this node listens for other nodes, over UDP and TCP (only TCP with membership push), and which it announces to them.',
  ),
  port: optionRow(
    portOption,
    7_400,
    'Port for other nodes, the same number for UDP and TCP; 0 lets the system choose.',
  ),
  httpHost: optionRow(textOption('address', 255), '127.0.0.1', 'Address of the HTTP interface for operators.'),
  httpPort: optionRow(portOption, 7_500, 'Port of the HTTP interface; 0 lets the system choose.'),
  console: optionRow(booleanOption, true, 'Whether the HTTP interface serves the web console at /.'),
  join: optionRow(
    addressListOption(64),
    [],
    'Nodes to join at start; without any, this node asks the members that it knew before its restart, or waits for others to join it.',
  ),
  data: optionRow(
    path,
    undefined,
    'Directory for data that must survive a restart; by default remuster-data/NAME, or a temporary directory with ephemeral.',
  ),
  ephemeral: optionRow(booleanOption, false, 'Remove the data directory when the node stops.'),
  secret: optionRow(
    optionalOption(secretOption('secret')),
    undefined,
    'Cluster secret that encrypts and authenticates all traffic between nodes: at least 16 characters, hard to guess; required unless host is a loopback address.',
    { env: 'REMUSTER_AUTH_SECRET', secret: true },
  ),
  secretPrevious: optionRow(
    secretListOption('secret', 4),
    [],
    'Former secrets, one per line, that are still accepted while the cluster changes to a new one.',
    { env: 'REMUSTER_AUTH_SECRET_PREVIOUS', secret: true },
  ),
  token: optionRow(
    optionalOption(secretOption('token')),
    undefined,
    'Bearer token of the HTTP interface; required unless httpHost is a loopback address.',
    { secret: true },
  ),
  tlsCertFile: optionRow(
    path,
    undefined,
    'Certificate of this node in PEM, for mutual TLS beneath the encryption by the secret.',
  ),
  tlsKeyFile: optionRow(path, undefined, 'Private key that belongs to tlsCertFile.'),
  tlsCaFile: optionRow(path, undefined, 'Certificate authority that signed the certificates of all nodes.'),
  tlsVerifyHostname: optionRow(
    booleanOption,
    true,
    'Check that the certificate of a peer names its address; can be switched off only on loopback.',
  ),
  profile: optionRow(
    choiceOption(profiles),
    'lan',
    'Set of default protocol times: for one machine (local), one network (lan), several sites (wan), or the slow classic timings.',
  ),
  timeScale: optionRow(
    factorOption({ min: 0.01, max: 100 }),
    1,
    'Multiplies every protocol time, for tests and slow networks.',
  ),
  membership: optionRow(
    choiceOption(['swim', 'push']),
    'swim',
    'How other members know that this node is alive: probes by UDP (swim), or heartbeats over TCP to a manager, without UDP (push).',
  ),
  ...membershipOptionRows,
  ...controlPlaneOptionRows,
  ...containerOptionRows,
  ...jobOptionRows,
  requestTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 2_000, lan: 5_000, wan: 10_000, classic: 10_000 },
    'Longest wait for the reply to one request.',
  ),
  connectTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 1_000, lan: 2_000, wan: 5_000, classic: 3_000 },
    'Longest wait for a connection to another node.',
  ),
  stopTimeoutMs: optionRow(
    durationOption({ min: 100, max: hour }),
    25_000,
    'Longest time for an orderly stop (hand-over, running calls and units, goodbye); after it the process exits anyway.',
  ),
  cleanupIntervalMs: optionRow(
    durationOption({ min: 100, max: 24 * hour }),
    30_000,
    'Interval between two cleanups of expired records.',
  ),
  logLevel: optionRow(choiceOption(logLevels), 'info', 'Lowest level of the log lines that are written.'),
  chaos: optionRow(
    booleanOption,
    false,
    'Let the HTTP interface cut and heal links of this node and block its main loop, for failure tests.',
  ),
} as const;

export type OptionName = keyof typeof optionsTable;

/** The options of one node. Times are final: `timeScale` has been applied. */
export type NodeOptions = {
  readonly [K in OptionName]: (typeof optionsTable)[K] extends OptionRow<infer T> ? T : never;
};

export type OptionRelation = {
  readonly options: readonly [OptionName, ...OptionName[]];
  /** The condition as a sentence: error message and text of the reference page. */
  readonly sentence: string;
  readonly code: 'BAD_ARGUMENT' | 'WEAK_SECRET';
  readonly holds: (options: NodeOptions) => boolean;
};

function relation(
  options: OptionRelation['options'],
  sentence: string,
  holds: OptionRelation['holds'],
  code: OptionRelation['code'] = 'BAD_ARGUMENT',
): OptionRelation {
  return { options, sentence, code, holds };
}

/** Conditions between options; checked on the final values. */
export const optionRelations: readonly OptionRelation[] = [
  ...membershipOptionRelations.map(({ options, sentence, holds }) => relation(options, sentence, holds)),
  ...controlPlaneOptionRelations.map(({ options, sentence, holds }) => relation(options, sentence, holds)),
  ...containerOptionRelations.map(({ options, sentence, holds }) => relation(options, sentence, holds)),
  ...jobOptionRelations.map(({ options, sentence, holds }) => relation(options, sentence, holds)),
  relation(
    ['connectTimeoutMs', 'requestTimeoutMs'],
    'connectTimeoutMs must not exceed requestTimeoutMs, because a request includes connecting.',
    (o) => o.connectTimeoutMs <= o.requestTimeoutMs,
  ),
  relation(
    ['port', 'httpPort'],
    'port and httpPort must differ when they are on the same address.',
    (o) => o.port === 0 || o.port !== o.httpPort || o.host !== o.httpHost,
  ),
  relation(
    ['secret', 'host'],
    'secret is required when host is not a loopback address.',
    (o) => o.secret !== undefined || isLoopbackHost(o.host),
    'WEAK_SECRET',
  ),
  relation(
    ['secret'],
    'secret must have at least 16 characters; the transport also rejects secrets that are easy to guess.',
    (o) => o.secret === undefined || o.secret.length >= secretLengthMin,
    'WEAK_SECRET',
  ),
  relation(
    ['secretPrevious', 'secret'],
    'secretPrevious requires a secret, and each former secret must have at least 16 characters.',
    (o) =>
      o.secretPrevious.length === 0 ||
      (o.secret !== undefined && o.secretPrevious.every((former) => former.length >= secretLengthMin)),
    'WEAK_SECRET',
  ),
  relation(
    ['token', 'httpHost'],
    'token is required when httpHost is not a loopback address.',
    (o) => o.token !== undefined || isLoopbackHost(o.httpHost),
  ),
  relation(
    ['tlsCertFile', 'tlsKeyFile', 'tlsCaFile'],
    'tlsCertFile, tlsKeyFile and tlsCaFile must be given together or not at all.',
    (o) => new Set([o.tlsCertFile, o.tlsKeyFile, o.tlsCaFile].map((file) => file === undefined)).size === 1,
  ),
  relation(
    ['tlsVerifyHostname', 'host'],
    'tlsVerifyHostname can be false only when host is a loopback address.',
    (o) => o.tlsVerifyHostname || isLoopbackHost(o.host),
  ),
  relation(
    ['chaos', 'httpHost'],
    'chaos is allowed only when httpHost is a loopback address.',
    (o) => !o.chaos || isLoopbackHost(o.httpHost),
  ),
];

/** `probeIntervalMs` is `--probe-interval` on the command line. Secrets have no flag, only a file flag. */
export function flagNameOf(option: OptionName): string {
  return `--${kebab(option)}${optionsTable[option].secret ? '-file' : ''}`;
}

export function envNameOf(option: OptionName): string {
  return optionsTable[option].env ?? `REMUSTER_${kebab(option).replaceAll('-', '_').toUpperCase()}`;
}

function kebab(option: string): string {
  return option.replace(/Ms$/, '').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
