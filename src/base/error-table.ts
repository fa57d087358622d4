/**
 * Every error code that a user or a peer can see, declared once: summary, hint, state changed, retryable, HTTP status,
 * exit code. The type of codes, the exit code of the command line, the HTTP status, the text of `remuster explain` and
 * docs/reference/errors.md all come from this table.
 *
 * `stateChanged` answers "did anything happen?": 'no' is a promise, 'maybe' means that the caller must resend with the
 * same call id or look. It is the default of an error: 'no' only where every place that makes this error is before any
 * effect. A place that knows more, or has caused something, states it (`RemusterError`). `retryable` answers "can the
 * same request succeed later, unchanged?".
 */

/** Did anything happen? */
export type StateChanged = 'no' | 'maybe' | 'yes';

export type ErrorRow = {
  readonly summary: string;
  readonly hint: string;
  readonly stateChanged: StateChanged;
  readonly retryable: boolean;
  readonly httpStatus: number;
  readonly exitCode: 1 | 2 | 3 | 4 | 5 | 99 | 130;
};

type RowDefaults = Partial<Pick<ErrorRow, 'stateChanged' | 'retryable' | 'httpStatus' | 'exitCode'>>;

function errorRow(summary: string, hint: string, rest: RowDefaults = {}): ErrorRow {
  return { summary, hint, stateChanged: 'no', retryable: false, httpStatus: 400, exitCode: 1, ...rest };
}

const retryLater = { retryable: true, httpStatus: 503 } as const;

export const errorTable = {
  BAD_ARGUMENT: errorRow(
    'An argument or option is missing, malformed or out of bounds.',
    'Correct the named argument; --help lists what is accepted.',
    { exitCode: 2 },
  ),
  BUNDLE_INVALID: errorRow(
    'The bundle of a module or workflow cannot be read, does not match its hash or breaks a rule.',
    'Correct what the message names, and bundle it again with this version of remuster.',
  ),
  CALL_FAILED: errorRow(
    'The method that was called threw an error; nothing that it had changed was kept.',
    'The message is the one of the method; correct the arguments or the module.',
    { httpStatus: 422 },
  ),
  CANCELLED: errorRow('The caller cancelled the operation.', 'Nothing to do, unless the cancellation was not yours.', {
    stateChanged: 'maybe',
    httpStatus: 499,
    exitCode: 130,
  }),
  CAPACITY: errorRow(
    'A bounded queue is full, so the request was refused before anything was done.',
    'Retry after a pause with jitter; add capacity if it persists.',
    { ...retryLater, httpStatus: 429 },
  ),
  CONNECTION_LOST: errorRow(
    'The connection ended before the whole answer had come.',
    'Check that the other side runs and can be reached.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 502, exitCode: 3 },
  ),
  DEADLINE: errorRow(
    'The deadline passed before an answer came.',
    'Allow more time, or look with `remuster status` at what the cluster waits for.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 504, exitCode: 4 },
  ),
  DRAINED: errorRow(
    'The node is drained or draining and takes no new work.',
    'Use another node, or `remuster node activate NAME`.',
    { ...retryLater, stateChanged: 'maybe' },
  ),
  FENCED: errorRow(
    'The sender acted under an older fence than the receiver has seen.',
    'Send it to the present owner or leader; a node must ask the leader for its present role.',
    { stateChanged: 'maybe', httpStatus: 409 },
  ),
  FORBIDDEN: errorRow(
    'The sender is known, but its role may not do this.',
    'Use a token or a node whose role allows it.',
    {
      httpStatus: 403,
    },
  ),
  INCOMPATIBLE_VERSION: errorRow(
    'A peer, a data directory or a file has a format that this version does not read.',
    'Run one version of Remuster on all nodes and clients; start old data with the version that wrote it, or begin with an empty directory.',
  ),
  INTERNAL: errorRow(
    'The program itself is wrong; the details are in the log of the node.',
    'Report it together with the output of `remuster debug bundle`.',
    { stateChanged: 'maybe', httpStatus: 500 },
  ),
  LEASE_EXPIRED: errorRow(
    'The lease is unknown: it ran out, was revoked or never existed.',
    'Whoever held it has been given up meanwhile: take a new lease and begin again from what the registry says now.',
    { stateChanged: 'maybe', httpStatus: 409 },
  ),
  MALFORMED: errorRow(
    'Bytes from outside do not follow the protocol.',
    'Look for a foreign program on this port, or a damaged link.',
    { stateChanged: 'maybe' },
  ),
  NETWORK_TIMEOUT: errorRow(
    'No owner could be reached within the retry limit.',
    'Check `remuster members`; retry when the cluster has recovered.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 504, exitCode: 4 },
  ),
  NOT_LEADER: errorRow('This node does not lead the group that decides this.', 'Ask the node named in the message.', {
    ...retryLater,
    stateChanged: 'maybe',
  }),
  NO_QUORUM: errorRow(
    'A majority of the configured voters cannot be reached, so nothing may be decided.',
    'Bring voters back, or wait until the owner has its serving lease again.',
    { ...retryLater, stateChanged: 'maybe', exitCode: 5 },
  ),
  PARTIAL: errorRow(
    'A part succeeded and a part did not: containers of a call, or items of a batch.',
    'Of a call the message names those that did not answer: ask again with the same call id. Of a batch, `remuster job failures ID` lists the failed items.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 502, exitCode: 4 },
  ),
  PLUGGED: errorRow(
    'The container is being moved and takes no calls at this moment.',
    'Retry: it opens at its new place within seconds.',
    retryLater,
  ),
  PRECONDITION: errorRow(
    'The cluster is not in a state in which this can be done safely.',
    'The message names what stands in the way.',
    { stateChanged: 'maybe', httpStatus: 409, exitCode: 5 },
  ),
  RATE_LIMITED: errorRow('The sender exceeded its rate.', 'Slow down; the bucket refills continuously.', {
    ...retryLater,
    httpStatus: 429,
  }),
  REPLAYED: errorRow(
    'A message was seen before, or is older than the replay window.',
    'If no attacker is near, look for duplicated packets or a cloned data directory.',
    { stateChanged: 'maybe', httpStatus: 409 },
  ),
  RETRIES_EXHAUSTED: errorRow(
    'Every permitted attempt failed.',
    'The incidents of the report say why each attempt failed.',
    { stateChanged: 'maybe' },
  ),
  RUNNER_KILLED: errorRow(
    'The process that ran the code was killed: memory, time or a signal.',
    'Raise the limit that the message names, or correct the code.',
    { stateChanged: 'maybe' },
  ),
  STALE_TABLE: errorRow(
    'The caller used an old address table.',
    'The newer entry is attached; resend to the owner it names.',
    { retryable: true, httpStatus: 409 },
  ),
  STORE_CORRUPT: errorRow(
    'Stored bytes fail their checksum.',
    'The damaged part is refused and copied again from a healthy copy if there is one.',
    { stateChanged: 'maybe', httpStatus: 500 },
  ),
  STORE_FAILED: errorRow(
    'The disk refused or failed: an input/output error, a missing right, or the store is closed.',
    'Look at the disk, the mount and the rights of the data directory; the message names the system error.',
    { ...retryLater, stateChanged: 'maybe', httpStatus: 500 },
  ),
  STORE_FULL: errorRow(
    'The disk or the quota is full; nothing was written and nothing is lost.',
    'Free space or raise the quota; writing resumes by itself.',
    { ...retryLater, httpStatus: 507 },
  ),
  TOO_LARGE: errorRow('A message or value exceeds its size limit.', 'Send less, or use a stream.', {
    stateChanged: 'maybe',
    httpStatus: 413,
  }),
  UNAUTHENTICATED: errorRow(
    'The sender could not prove who it is.',
    'Check the secret, the cluster name and the token.',
    {
      httpStatus: 401,
    },
  ),
  UNKNOWN_BUNDLE: errorRow(
    'The managers do not have the code that a job names.',
    'Store the code first, then submit again; clients do both by themselves.',
    { retryable: true, httpStatus: 404 },
  ),
  UNKNOWN_CONTAINER: errorRow('The pool has no such container.', '`remuster pool show NAME` lists the containers.', {
    httpStatus: 404,
  }),
  UNKNOWN_JOB: errorRow(
    'There is no such job, or it was over so long ago that it is forgotten.',
    '`remuster job list` lists the jobs.',
    { httpStatus: 404 },
  ),
  UNKNOWN_KEY: errorRow(
    'There is no such key.',
    '`remuster registry list PREFIX` or `remuster kv list PREFIX` lists the keys.',
    { httpStatus: 404 },
  ),
  UNKNOWN_METHOD: errorRow('The module or node has no such method.', 'Compare the versions of caller and module.', {
    httpStatus: 404,
  }),
  UNKNOWN_MODULE: errorRow('There is no module of that name.', '`remuster module list` lists the modules.', {
    httpStatus: 404,
  }),
  UNKNOWN_POOL: errorRow('There is no pool of that name.', '`remuster pool list` lists the pools.', {
    httpStatus: 404,
  }),
  UNREACHABLE: errorRow(
    'The other side cannot be reached: refused, reset or no route.',
    'Check that it runs and that the address is right.',
    { ...retryLater, exitCode: 3 },
  ),
  WEAK_SECRET: errorRow(
    'The cluster secret is too short or too easy to guess.',
    'Use at least 16 characters with some variety, for example `openssl rand -base64 32`.',
    { exitCode: 2 },
  ),
  WORKFLOW_FAILED: errorRow(
    'The workflow ended with an error of its own.',
    'The report shows the error and the line in your file; `remuster job failures ID` lists failed items of a batch.',
    { stateChanged: 'yes' },
  ),
  WORKFLOW_TIMEOUT: errorRow(
    'The workflow did not end within its time limit.',
    'Allow more time or look for what it waits for.',
    { stateChanged: 'maybe', exitCode: 4 },
  ),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;
