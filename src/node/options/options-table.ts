/**
 * Every option of a node, declared once: type, flag, variable, help, validation and reference page come from it. A
 * name carries its unit (`probeIntervalMs`); its flag and variable do not (`--probe-interval`,
 * `REMUSTER_PROBE_INTERVAL`), because a duration is typed with one. Compared with valibot and zod (decision 18): a
 * schema would be a second table beside flags, variables and the page.
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
    'Name of this node, unique in the cluster; the command line derives it from the host name when it is not given.',
  ),
  roles: optionRow(
    choiceListOption(['gate', 'manager', 'worker']),
    ['manager', 'worker'],
    'What this node does for the cluster.',
  ),
  dc: optionRow(nameOption('name'), 'dc1', 'Datacenter of this node: members of one datacenter form one group.'),
  cluster: optionRow(
    nameOption('name'),
    'remuster',
    'Name of the cluster; nodes of another cluster are refused even with the same secret.',
  ),
  host: optionRow(
    textOption('address', 255),
    '127.0.0.1',
    'Address on which this node listens for other nodes, over UDP and TCP (only TCP with membership push), and which it tells them.',
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
    'Nodes to ask at start; without any, this node asks those it knew before, or waits to be asked.',
  ),
  data: optionRow(
    path,
    undefined,
    'Directory for what must survive a restart; by default remuster-data/NAME, or a temporary one with ephemeral.',
  ),
  ephemeral: optionRow(booleanOption, false, 'Remove the data directory when the node ends.'),
  secret: optionRow(
    optionalOption(secretOption('secret')),
    undefined,
    'Cluster secret that seals all traffic between nodes: at least 16 characters, not guessable; only loopback works without one.',
    { env: 'REMUSTER_AUTH_SECRET', secret: true },
  ),
  secretPrevious: optionRow(
    secretListOption('secret', 4),
    [],
    'Former secrets, one per line, still accepted while the cluster changes to a new one.',
    { env: 'REMUSTER_AUTH_SECRET_PREVIOUS', secret: true },
  ),
  token: optionRow(
    optionalOption(secretOption('token')),
    undefined,
    'Bearer token of the HTTP interface; needed when that is not on loopback.',
    { secret: true },
  ),
  tlsCertFile: optionRow(path, undefined, 'Certificate of this node in PEM, for mutual TLS beneath the sealing.'),
  tlsKeyFile: optionRow(path, undefined, 'Private key that belongs to tlsCertFile.'),
  tlsCaFile: optionRow(path, undefined, 'Certificate authority that signed the certificates of all nodes.'),
  tlsVerifyHostname: optionRow(
    booleanOption,
    true,
    'Check that the certificate of a peer names its address; can be switched off on loopback only.',
  ),
  profile: optionRow(
    choiceOption(profiles),
    'lan',
    'Set of default protocol times: one machine, one network, several sites, or the slow classic timings.',
  ),
  timeScale: optionRow(
    factorOption({ min: 0.01, max: 100 }),
    1,
    'Multiplies every protocol time, for tests and for slow networks.',
  ),
  membership: optionRow(
    choiceOption(['swim', 'push']),
    'swim',
    'How others know that this node lives: probes by UDP (swim), or heartbeats over TCP to a manager, without UDP (push).',
  ),
  ...membershipOptionRows,
  ...controlPlaneOptionRows,
  ...containerOptionRows,
  ...jobOptionRows,
  requestTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 2_000, lan: 5_000, wan: 10_000, classic: 10_000 },
    'Longest wait for the answer to one request.',
  ),
  connectTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 1_000, lan: 2_000, wan: 5_000, classic: 3_000 },
    'Longest wait for a connection to another node.',
  ),
  shutdownTimeoutMs: optionRow(
    durationOption({ min: 100, max: hour }),
    10_000,
    'Longest time for leaving in good order; afterwards the process ends anyway.',
  ),
  cleanupIntervalMs: optionRow(
    durationOption({ min: 100, max: 24 * hour }),
    30_000,
    'Pause between two sweeps over what has expired.',
  ),
  logLevel: optionRow(choiceOption(logLevels), 'info', 'Least important log line that is written.'),
  chaos: optionRow(
    booleanOption,
    false,
    'Let the HTTP interface cut and heal links of this node, for trying out failures.',
  ),
} as const;

export type OptionName = keyof typeof optionsTable;

/** What a node is started with. Times are final: `timeScale` has been applied. */
export type NodeOptions = {
  readonly [K in OptionName]: (typeof optionsTable)[K] extends OptionRow<infer T> ? T : never;
};

export type OptionRelation = {
  readonly options: readonly [OptionName, ...OptionName[]];
  /** What must hold, as a sentence; it is the error message and stands in the docs. */
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

/** What must hold between options; checked on the final values. */
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
    'secret must have at least 16 characters; the transport also refuses patterns that are easy to guess.',
    (o) => o.secret === undefined || o.secret.length >= secretLengthMin,
    'WEAK_SECRET',
  ),
  relation(
    ['secretPrevious', 'secret'],
    'secretPrevious needs a secret, and each former secret must have at least 16 characters, too.',
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
    'tlsCertFile, tlsKeyFile and tlsCaFile are given together or not at all.',
    (o) => new Set([o.tlsCertFile, o.tlsKeyFile, o.tlsCaFile].map((file) => file === undefined)).size === 1,
  ),
  relation(
    ['tlsVerifyHostname', 'host'],
    'tlsVerifyHostname can be switched off only when host is a loopback address.',
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
