/**
 * Every limit that a user can meet, with the value that the code enforces: each row reads the constant itself. Part of
 * docs/reference/limits.md; enforces nothing.
 */
import { namePattern } from '../../src/base/ids.ts';
import { registryLimits } from '../../src/base/registry.ts';
import { sessionCallsMax } from '../../src/client/pool-calls.ts';
import { callRouterDefaults } from '../../src/containers/calls/call-options.ts';
import { hostingLimits } from '../../src/containers/hosting-limits.ts';
import { timerNameBytesMax } from '../../src/containers/hosting/state/timer-table.ts';
import { defaultEventStreamLimits } from '../../src/io/http/event-streams.ts';
import { httpBodyBytesMax } from '../../src/io/http/json-body.ts';
import { defaultTransportLimits } from '../../src/io/transport/shared/transport-limits.ts';
import { groupMembersMax } from '../../src/messages/consensus.ts';
import { valueBytesMax, valueDepthMax, valueObjectsMax } from '../../src/messages/codec/value.ts';
import { kvKeyBytesMax, kvPageItemsMax } from '../../src/modules/kv/kv-arguments.ts';
import { kvWaitersMax } from '../../src/modules/kv/kv-change-waiters.ts';
import { kvHistoryMax } from '../../src/modules/kv/kv-items.ts';
import { manifestPoolsMax } from '../../src/node/containers/pool-manifests.ts';
import { backupPartBytesMax } from '../../src/node/control-plane/registry-backups.ts';
import { nodeEventReadersMax, nodeEventsMax } from '../../src/node/core/node-event-log.ts';
import { collectedCharactersMax, collectedItemsMax } from '../../src/node/http/call-routes.ts';
import { reachabilityMembersMax } from '../../src/node/http/member-routes.ts';
import { watchEventBytesMax } from '../../src/node/http/registry-json.ts';
import { memberHistoryEntriesMax, memberHistoryMembersMax } from '../../src/node/membership/member-history.ts';
import { nodeOptions } from '../../src/node/options/options.ts';
import { moduleLimits } from '../../src/placement/modules/module-records.ts';
import { drainLimits } from '../../src/placement/state/drain-record.ts';
import { poolLimits } from '../../src/placement/operations/pool-spec.ts';
import { rebalanceLimits } from '../../src/placement/balance/rebalancer.ts';
import { noteCharactersMax } from '../../src/registration/registration-records.ts';
import { keyspaceLimits } from '../../src/registry/keyspace/keyspace-types.ts';
import { registryBackupBytesMax } from '../../src/registry/replica/registry-backup.ts';
import { jobLimitSections } from './job-limits.ts';
import { type LimitSection, row } from './limit-row.ts';

const options = nodeOptions();

function longestName(): number {
  let length = 1;
  while (namePattern.test('a'.repeat(length + 1))) length += 1;
  return length;
}

export const limitSections: readonly LimitSection[] = [
  {
    title: 'Messages and connections',
    rows: [
      row('one message between nodes, compressed', defaultTransportLimits.messageBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('one message after decompression', defaultTransportLimits.decompressedBytesMax, 'bytes', '`TOO_LARGE`.'),
      row(
        'open requests of one connection',
        defaultTransportLimits.requestsInFlightMax,
        'count',
        'Further requests end with `CAPACITY`.',
      ),
      row(
        'requests that one connection has under way at their receiver',
        defaultTransportLimits.requestsInboundMax,
        'count',
        'The receiver rejects further requests with `CAPACITY`.',
      ),
      row('streams of one connection', defaultTransportLimits.streamsMax, 'count', 'Further streams are rejected.'),
      row(
        'inbound connections of one node',
        defaultTransportLimits.connectionsMax,
        'count',
        'The node closes further connections.',
      ),
      row(
        'members that a node knows (option `membersMax`)',
        options.membersMax,
        'count',
        'Dead members are dropped first; then further members are ignored.',
      ),
    ],
  },
  {
    title: 'Calls',
    rows: [
      row('arguments of one call', valueBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('result of one call', hostingLimits.resultBytesMax, 'bytes', '`TOO_LARGE`; the changes are rolled back.'),
      row('one item of a result stream', hostingLimits.resultBytesMax, 'bytes', 'The stream ends with `TOO_LARGE`.'),
      row(
        'results of one call to several containers',
        callRouterDefaults.resultBytesMax,
        'bytes',
        '`TOO_LARGE`: read a result stream or fewer containers.',
      ),
      row('levels of nesting of a value', valueDepthMax, 'count', '`BAD_ARGUMENT`.'),
      row('objects in one value', valueObjectsMax, 'count', '`TOO_LARGE`.'),
      row(
        'writes and result of one call',
        hostingLimits.commitBytesMax,
        'bytes',
        '`TOO_LARGE`; the changes are rolled back.',
      ),
      row(
        'keys that one call writes',
        hostingLimits.commitRowsMax,
        'count',
        '`TOO_LARGE`; the changes are rolled back.',
      ),
      row(
        'open calls of one client session',
        sessionCallsMax,
        'count',
        'Further calls fail with `CAPACITY` before they are sent.',
      ),
      row(
        'open calls that one node routes',
        callRouterDefaults.callsMax,
        'count',
        'Further calls fail with `CAPACITY`.',
      ),
      row('result streams that one node sends', callRouterDefaults.streamsMax, 'count', '`CAPACITY`.'),
      row(
        'open calls of one container',
        hostingLimits.callsMax,
        'count',
        'The owner rejects further calls with `CAPACITY`.',
      ),
      row(
        'arguments of all open calls of one container',
        hostingLimits.callBytesMax,
        'bytes',
        'The owner rejects further calls with `CAPACITY`.',
      ),
      row(
        'concurrent reading calls of one container',
        hostingLimits.readersMax,
        'count',
        'Further reading calls wait in its queue.',
      ),
      row(
        'requests that wait for one call id',
        hostingLimits.waitersMax,
        'count',
        'Further requests with this id fail with `CAPACITY`.',
      ),
    ],
  },
  {
    title: 'Dedup: remembered calls',
    rows: [
      row(
        'callers that one container remembers',
        hostingLimits.sessionsMax,
        'count',
        'Calls of a new caller fail with `CAPACITY` until the time of a remembered one has passed.',
      ),
      row(
        'time for which a caller is remembered after its last call can be resent',
        hostingLimits.sessionKeepMs,
        'ms',
        'A caller beyond it can be dropped for a new one.',
      ),
      row(
        'remembered results per caller',
        hostingLimits.dedupResultsMax,
        'count',
        'The oldest result is dropped: its call does not run again, but a resend gets `PRECONDITION`.',
      ),
      row(
        'remembered results of one container',
        hostingLimits.dedupBytesMax,
        'bytes',
        'The oldest results are dropped, first those of the same caller.',
      ),
      row(
        'remembered call ids without a result per caller',
        hostingLimits.evictedResultsMax,
        'count',
        'Older ids get `PRECONDITION`; they never run again.',
      ),
    ],
  },
  {
    title: 'State and timers of a container',
    rows: [
      row('a key', hostingLimits.keyBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('a value', hostingLimits.valueBytesMax, 'bytes', '`TOO_LARGE`.'),
      row(
        'the state of one container, keys and values',
        hostingLimits.stateBytesMax,
        'bytes',
        'A write that grows it fails with `STORE_FULL`; deletes still work.',
      ),
      row('timers of one container', hostingLimits.timersMax, 'count', '`CAPACITY`.'),
      row('name of a timer', timerNameBytesMax, 'bytes', '`BAD_ARGUMENT`.'),
      row('arguments of a timer', hostingLimits.timerArgsBytesMax, 'bytes', '`TOO_LARGE`.'),
      row(
        'attempts of a timer',
        hostingLimits.timerAttemptsMax,
        'count',
        'The timer is dropped, and the log names the error.',
      ),
      row('a call by a timer', hostingLimits.timerCallMsMax, 'ms', 'The attempt fails with `DEADLINE`.'),
    ],
  },
  {
    title: 'Module kv',
    rows: [
      row('a key', kvKeyBytesMax, 'bytes', '`BAD_ARGUMENT`.'),
      row('items of one page', kvPageItemsMax, 'count', '`BAD_ARGUMENT`.'),
      row(
        'changes that a container keeps for watches',
        kvHistoryMax,
        'count',
        'A watch that lags further behind gets `compacted` and lists again.',
      ),
      row('watches that wait in one container', kvWaitersMax, 'count', '`CAPACITY`.'),
    ],
  },
  {
    title: 'Pools and modules',
    rows: [
      row(
        'containers of a pool without `--force`',
        poolLimits.containersUnforcedMax,
        'count',
        '`PRECONDITION`: each container costs memory on every node.',
      ),
      row('containers of a pool with `--force`', poolLimits.containersMax, 'count', '`BAD_ARGUMENT`.'),
      row('copies of a container, the owner included', poolLimits.copiesMax, 'count', '`BAD_ARGUMENT`.'),
      row('parameters of a pool as JSON', poolLimits.paramsBytesMax, 'characters', '`BAD_ARGUMENT`.'),
      row(
        'pools with `restart` that return after a total loss',
        manifestPoolsMax,
        'count',
        'Further pools are not recreated; the event `restart.unreadable` names them.',
      ),
      row('bundle of a module', moduleLimits.bundleBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('deployed modules', moduleLimits.modulesMax, 'count', '`CAPACITY`.'),
      row('bundles of all module versions', moduleLimits.allBytesMax, 'bytes', '`CAPACITY`.'),
      row(
        'unused versions of a module',
        moduleLimits.unusedKeptMax,
        'count',
        'The oldest unused versions are deleted.',
      ),
    ],
  },
  ...jobLimitSections,
  {
    title: 'Registry',
    rows: [
      row('a key', registryLimits.keyBytesMax, 'bytes', '`BAD_ARGUMENT`.'),
      row('a value', registryLimits.valueBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('a transaction', registryLimits.transactionBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('comparisons, or operations of a branch', registryLimits.transactionOpsMax, 'count', '`TOO_LARGE`.'),
      row('keys that one transaction changes', keyspaceLimits.changesMax, 'count', '`TOO_LARGE`.'),
      row('keys of one page', registryLimits.rangeLimitMax, 'count', '`BAD_ARGUMENT`.'),
      row('bytes of one page', keyspaceLimits.replyBytesMax, 'bytes', 'The page ends early, with `more`.'),
      row('the whole registry', keyspaceLimits.totalBytesMax, 'bytes', '`STORE_FULL`; deletes still work.'),
      row('leases', keyspaceLimits.leasesMax, 'count', '`STORE_FULL`.'),
      row('time of a lease', registryLimits.ttlMsMax, 'ms', '`BAD_ARGUMENT`.'),
      row(
        'changes that a watch can read later',
        keyspaceLimits.historyChangesMax,
        'count',
        'Older changes are compacted: the watcher lists again.',
      ),
      row(
        'bytes of the changes that a watch can read later',
        keyspaceLimits.historyBytesMax,
        'bytes',
        'Older changes are compacted: the watcher lists again.',
      ),
      row('a backup that can be restored', registryBackupBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('one part of a backup', backupPartBytesMax, 'bytes', '`BAD_ARGUMENT`.'),
      row('members of a manager group', groupMembersMax, 'count', '`PRECONDITION`: further managers stay outside.'),
      row(
        'voters of a manager group (option `votersMax`)',
        options.votersMax,
        'count',
        'Further managers do not vote.',
      ),
    ],
  },
  {
    title: 'HTTP, events and commands',
    rows: [
      row('body of a request', httpBodyBytesMax, 'bytes', '`TOO_LARGE`.'),
      row('items of a result stream in one reply', collectedItemsMax, 'count', '`TOO_LARGE`: read it with a client.'),
      row(
        'JSON of a result stream in one reply',
        collectedCharactersMax,
        'characters',
        '`TOO_LARGE`: read it with a client.',
      ),
      row('clients with an event stream', defaultEventStreamLimits.clientsMax, 'count', '`CAPACITY`.'),
      row(
        'unread events of one client',
        defaultEventStreamLimits.bufferBytesMax,
        'bytes',
        'The node closes the stream; the client can resume with Last-Event-ID.',
      ),
      row('events that a node keeps', nodeEventsMax, 'count', 'The oldest are dropped: the numbers have a gap.'),
      row('readers of the events of a node', nodeEventReadersMax, 'count', '`CAPACITY`.'),
      row('history entries of one member', memberHistoryEntriesMax, 'count', 'The oldest are dropped.'),
      row('members with a history', memberHistoryMembersMax, 'count', 'The least recently changed one is dropped.'),
      row('values in one event of a registry watch', watchEventBytesMax, 'bytes', 'The value is `cut`: read the key.'),
      row('members of a reachability matrix', reachabilityMembersMax, 'count', '`TOO_LARGE`.'),
      row('name of a node, cluster, datacenter, pool or module', longestName(), 'characters', '`BAD_ARGUMENT`.'),
      row('reason of a command', noteCharactersMax, 'characters', '`BAD_ARGUMENT`.'),
      row('moves of one rebalance', rebalanceLimits.movesMax, 'count', '`BAD_ARGUMENT`.'),
      row('deadline of a drain', drainLimits.deadlineMsMax, 'ms', '`BAD_ARGUMENT`.'),
    ],
  },
];
