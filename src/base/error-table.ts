/**
 * Every error code that a user or a peer can see, declared once: summary, hint, state changed, retryable, HTTP status,
 * exit code. The type of codes, the exit code of the command line, the HTTP status, the text of `remuster explain` and
 * docs/reference/errors.md all come from this table.
 *
 * `stateChanged` tells whether the request had an effect: 'no' is a promise, 'maybe' means that the caller must resend with
 * the same call id or check. The row holds the default: it is 'no' only if every place that throws this code does so
 * before any effect. A place that knows more passes its own value to `RemusterError`. `retryable` tells whether the same
 * request can succeed later, unchanged.
 */

/** Whether a failed request had an effect. */
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
    'Correct the argument that the message names; --help lists what is accepted.',
    { exitCode: 2 },
  ),
  BUNDLE_INVALID: errorRow(
    'The bundle of a module or workflow cannot be read, does not match its hash or violates a rule.',
    'Correct the file and run the command again.',
  ),
  CALL_FAILED: errorRow(
    'The called method threw an error; its changes of the state were rolled back.',
    'The message comes from the method: correct the arguments or the module.',
    { httpStatus: 422 },
  ),
  CANCELLED: errorRow(
    'The caller cancelled the operation.',
    'Nothing to do if you cancelled it; otherwise find the caller that did.',
    {
      stateChanged: 'maybe',
      httpStatus: 499,
      exitCode: 130,
    },
  ),
  CAPACITY: errorRow(
    'A bounded queue or table is full: the request was refused before it had any effect.',
    'Retry with backoff and jitter; add capacity if it persists.',
    { ...retryLater, httpStatus: 429 },
  ),
  CONNECTION_LOST: errorRow(
    'The connection was lost before the complete reply arrived.',
    'Check that the other process runs and that the network reaches it.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 502, exitCode: 3 },
  ),
  DEADLINE: errorRow(
    'The deadline passed before a reply arrived.',
    'Allow more time, or check with `remuster status` what the cluster waits for.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 504, exitCode: 4 },
  ),
  DRAINED: errorRow(
    'The node is drained or draining and takes no new work.',
    'Use another node, or activate this one: `remuster node activate NAME`.',
    { ...retryLater, stateChanged: 'maybe' },
  ),
  FENCED: errorRow(
    'The sender is superseded: a later fence, term, generation or manager group is in force.',
    'Send the request to the current owner or leader.',
    { stateChanged: 'maybe', httpStatus: 409 },
  ),
  FORBIDDEN: errorRow(
    'The sender is authenticated, but its role does not permit this.',
    'Send the request with a token, or from a node, whose role permits it.',
    {
      httpStatus: 403,
    },
  ),
  INCOMPATIBLE_VERSION: errorRow(
    'A peer, a data directory or a file has a format that this version does not read.',
    'Run one version of Remuster on all nodes and clients; open old data with the version that wrote it, or start with an empty data directory.',
  ),
  INTERNAL: errorRow(
    'A bug in Remuster; the details are in the log of the node.',
    'Report it with the log of the node and the output of `remuster events`.',
    { stateChanged: 'maybe', httpStatus: 500 },
  ),
  LEASE_EXPIRED: errorRow(
    'The lease expired, was revoked or never existed.',
    'Its keys are deleted: request a new lease and start from the current state of the registry.',
    { stateChanged: 'maybe', httpStatus: 409 },
  ),
  MALFORMED: errorRow(
    'Received bytes do not follow the protocol.',
    'Check whether another program uses this port, or whether a network link is damaged.',
    { stateChanged: 'maybe' },
  ),
  NETWORK_TIMEOUT: errorRow(
    'The call reached no owner of its container within the retry time.',
    'Check the nodes with `remuster members`, and retry when the cluster has recovered.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 504, exitCode: 4 },
  ),
  NOT_LEADER: errorRow(
    'This node is not the leader of its manager group.',
    'Send the request to the leader; `remuster status` names it.',
    {
      ...retryLater,
      stateChanged: 'maybe',
    },
  ),
  NO_QUORUM: errorRow(
    'No majority of the configured voters is reachable, so no decision is possible.',
    'Start the missing managers, or wait until the owner has renewed its serving lease.',
    { ...retryLater, stateChanged: 'maybe', exitCode: 5 },
  ),
  PARTIAL: errorRow(
    'Some containers of a call, or some items of a batch, failed; the others succeeded.',
    'For a call the message names the containers without a reply: resend with the same call id. For a batch, `remuster job failures ID` lists the failed items.',
    { stateChanged: 'maybe', retryable: true, httpStatus: 502, exitCode: 4 },
  ),
  PLUGGED: errorRow(
    'The container is moving to another node and takes no calls at the moment.',
    'Retry: it opens on the new node within seconds.',
    retryLater,
  ),
  PRECONDITION: errorRow(
    'The current state of the cluster does not allow this operation.',
    'The message names the condition that is not met.',
    { stateChanged: 'maybe', httpStatus: 409, exitCode: 5 },
  ),
  RATE_LIMITED: errorRow(
    'The sender exceeded its rate limit.',
    'Send fewer requests; the limit refills continuously.',
    {
      ...retryLater,
      httpStatus: 429,
    },
  ),
  REPLAYED: errorRow(
    'The message was received before, or it is older than the replay window.',
    'Look for duplicated packets or a cloned data directory; otherwise suspect an attack.',
    { stateChanged: 'maybe', httpStatus: 409 },
  ),
  RETRIES_EXHAUSTED: errorRow(
    'All allowed attempts of a unit failed.',
    'The incidents in the report show why each attempt failed.',
    { stateChanged: 'maybe' },
  ),
  RUNNER_KILLED: errorRow(
    'The process that ran the code was killed: memory limit, time limit or a signal.',
    'Raise the limit that the message names, or correct the code.',
    { stateChanged: 'maybe' },
  ),
  STALE_TABLE: errorRow('The caller used an outdated address table.', 'Resend to the owner in the attached entry.', {
    retryable: true,
    httpStatus: 409,
  }),
  STORE_CORRUPT: errorRow(
    'Stored data does not match its checksum.',
    'The node does not use the damaged data and restores it from a healthy replica if there is one; otherwise restore a backup.',
    { stateChanged: 'maybe', httpStatus: 500 },
  ),
  STORE_FAILED: errorRow(
    'The disk failed: an I/O error, a missing permission, or the store is closed.',
    'Check the disk, the mount and the permissions of the data directory; the message names the system error.',
    { ...retryLater, stateChanged: 'maybe', httpStatus: 500 },
  ),
  STORE_FULL: errorRow(
    'The disk or its quota is full: nothing was written, and no data was lost.',
    'Free space or raise the quota; writes then resume without a restart.',
    { ...retryLater, httpStatus: 507 },
  ),
  TOO_LARGE: errorRow(
    'A message or value exceeds its size limit.',
    'Send less data per request, or use a stream; docs/reference/limits.md lists the limits.',
    {
      stateChanged: 'maybe',
      httpStatus: 413,
    },
  ),
  UNAUTHENTICATED: errorRow(
    'The sender could not be authenticated.',
    'Check the secret, the cluster name and the token.',
    {
      httpStatus: 401,
    },
  ),
  UNKNOWN_BUNDLE: errorRow(
    'The managers do not have the bundle that the job names.',
    'Store the bundle, then submit again; clients do both automatically.',
    { retryable: true, httpStatus: 404 },
  ),
  UNKNOWN_CONTAINER: errorRow('The pool has no such container.', '`remuster pool show NAME` lists the containers.', {
    httpStatus: 404,
  }),
  UNKNOWN_JOB: errorRow(
    'There is no such job, or it ended so long ago that its record was deleted.',
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
    'The other process cannot be reached: connection refused, reset, or no route.',
    'Check that the process runs and that the address is correct.',
    { ...retryLater, exitCode: 3 },
  ),
  WEAK_SECRET: errorRow(
    'The cluster secret is too short or too easy to guess.',
    'Use at least 16 characters with some variety, for example `openssl rand -base64 32`.',
    { exitCode: 2 },
  ),
  WORKFLOW_FAILED: errorRow(
    'The code of the workflow failed.',
    'The report shows the error and the line in your file; `remuster job failures ID` lists failed items of a batch.',
    { stateChanged: 'yes' },
  ),
  WORKFLOW_TIMEOUT: errorRow(
    'The workflow did not end within its time limit.',
    'Allow more time (--timeout), or see with `remuster job report ID` how far each workflow came.',
    { stateChanged: 'maybe', exitCode: 4 },
  ),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;
