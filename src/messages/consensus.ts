/**
 * Raft messages between the voters of a group. All are one-way and may be lost; heartbeats repair the loss. No message
 * names its sender: the transport has proved who it is.
 */
import { field, list, optional, record } from './codec/compound.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u16, u32, u53, u8 } from './codec/numbers.ts';
import { bytes, name, nodeId, text } from './codec/strings.ts';

const voters = ['gate', 'manager'] as const;

/** One proposal: the largest registry transaction with its envelope. */
export const logEntryBytesMax = 2_097_152;
export const appendEntriesMax = 4_096;
export const snapshotChunkBytesMax = 524_288;
export const groupMembersMax = 64;
const smallBytesMax = 256;
const appendBytesMax = logEntryBytesMax + 1_048_576;

const groupMember = record('groupMember', {
  id: field(1, nodeId, 'Node id.'),
  name: field(2, name, 'Node name.'),
  host: field(3, text(255), 'Host when the member was added.'),
  port: field(4, u16, 'Port when the member was added.'),
  standing: field(5, enumOf('voter', 'syncing'), 'A syncing member counts in no majority.'),
});

export const groupMembers = list(groupMember, groupMembersMax);

const group = field(1, name, 'Name of the group.');
const term = field(2, u32, 'Current term of the sender.');
const round = field(
  3,
  u32,
  'Heartbeat round of this term: a reply with this number proves that its sender heard the leader after the round began.',
);

const preVote = message({
  kind: 'preVote',
  tag: 64,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Asks whether the receiver would vote for the sender; changes no state (Raft: PreVote). Answered by preVoteReply.',
  fields: {
    group,
    term: field(2, u32, 'Term of the election that the sender would start.'),
    lastIndex: field(3, u53, 'Index of the last log entry of the sender.'),
    lastTerm: field(4, u32, 'Term of that entry.'),
  },
});

const preVoteReply = message({
  kind: 'preVoteReply',
  tag: 65,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Reply to preVote.',
  fields: {
    group,
    term,
    requestedTerm: field(3, u32, 'Term of the preVote.'),
    granted: field(
      4,
      bool,
      'The receiver heard no leader within its voter lease, and the log of the candidate is at least as new.',
    ),
  },
});

const requestVote = message({
  kind: 'requestVote',
  tag: 66,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Requests a vote in this term (Raft: RequestVote). Answered by requestVoteReply; ignored while the voter lease of the receiver holds.',
  fields: {
    group,
    term,
    lastIndex: field(3, u53, 'Index of the last log entry of the sender.'),
    lastTerm: field(4, u32, 'Term of that entry.'),
    releasedTerm: field(5, optional(u32), 'The leader of this term sent timeoutNow to the sender.'),
    releasedRound: field(6, optional(u32), 'That leader released its lease: it uses no confirmation of a later round.'),
  },
});

const requestVoteReply = message({
  kind: 'requestVoteReply',
  tag: 67,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Reply to requestVote, sent when the vote is durable.',
  fields: { group, term, granted: field(3, bool, 'The receiver voted for the sender.') },
});

const appendEntries = message({
  kind: 'appendEntries',
  tag: 68,
  carrier: 'stream',
  from: voters,
  bytesMax: appendBytesMax,
  doc: 'Log entries; without any it is a heartbeat (Raft: AppendEntries). Answered by appendEntriesReply.',
  fields: {
    group,
    term,
    round,
    prevIndex: field(4, u53, 'Index of the entry before the first one.'),
    prevTerm: field(5, u32, 'Term of that entry; the receiver must have the same.'),
    commitIndex: field(6, u53, 'Commit index of the leader.'),
    entries: field(
      7,
      list(bytes(logEntryBytesMax), appendEntriesMax),
      'Each: kind u8 (0 noop, 1 command, 2 configuration), term u32 big endian, body.',
    ),
  },
});

const appendEntriesReply = message({
  kind: 'appendEntriesReply',
  tag: 69,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Reply to appendEntries when the entries are durable, and to a complete snapshot.',
  fields: {
    group,
    term,
    round,
    ok: field(4, bool, 'The previous entry matched.'),
    prevIndex: field(5, u53, 'As in the appendEntries.'),
    index: field(6, u53, 'If ok: match index, durable. Otherwise: the index to try next.'),
    hintTerm: field(7, u32, 'Term of the receiver at that index.'),
    health: field(8, u8, 'Local health score, 0 to 8.'),
  },
});

const timeoutNow = message({
  kind: 'timeoutNow',
  tag: 70,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'The leader released its lease: the receiver starts an election at once (Raft: TimeoutNow).',
  fields: { group, term, round },
});

const installSnapshot = message({
  kind: 'installSnapshot',
  tag: 71,
  carrier: 'stream',
  from: voters,
  bytesMax: snapshotChunkBytesMax + 65_536,
  doc: 'A chunk of the state, for a follower that lacks compacted entries (Raft: InstallSnapshot). Answered by installSnapshotReply.',
  fields: {
    group,
    term,
    round,
    lastIndex: field(4, u53, 'Index of the last entry in the snapshot.'),
    lastTerm: field(5, u32, 'Term of that entry.'),
    members: field(6, groupMembers, 'Configuration of the group at that entry.'),
    totalBytes: field(7, u53, 'Size of the whole state.'),
    checksum: field(8, u32, 'CRC-32 of the whole state.'),
    offset: field(9, u53, 'Offset of this chunk.'),
    chunk: field(10, bytes(snapshotChunkBytesMax), 'Bytes of this chunk.'),
  },
});

const installSnapshotReply = message({
  kind: 'installSnapshotReply',
  tag: 72,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Reply to installSnapshot: the next offset. A complete snapshot is answered by appendEntriesReply.',
  fields: {
    group,
    term,
    round,
    lastIndex: field(4, u53, 'Index of the snapshot.'),
    offset: field(5, u53, 'Next offset expected.'),
    health: field(6, u8, 'Local health score, 0 to 8.'),
  },
});

export const consensusMessages = [
  preVote,
  preVoteReply,
  requestVote,
  requestVoteReply,
  appendEntries,
  appendEntriesReply,
  timeoutNow,
  installSnapshot,
  installSnapshotReply,
] as const;

export type ConsensusMessage = MessageOf<typeof consensusMessages>;
