/**
 * Raft messages between the voters of a group. All are one-way and may be lost; heartbeats repair the loss. No message
 * names its sender: the transport has proved who it is.
 */
import { field, list, optional, record } from './codec/compound.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u16, u32, u53, u8 } from './codec/numbers.ts';
import { bytes, name, nodeId, text } from './codec/strings.ts';

const voters = ['gate', 'manager'] as const;

/** One proposal, as large as the largest transaction of a registry with all that is around it. */
export const logEntryBytesMax = 2_097_152;
export const appendEntriesMax = 4_096;
export const snapshotChunkBytesMax = 524_288;
export const groupMembersMax = 64;
const smallBytesMax = 256;
const appendBytesMax = logEntryBytesMax + 1_048_576;

const groupMember = record('groupMember', {
  id: field(1, nodeId, 'Who.'),
  name: field(2, name, 'What people call it.'),
  host: field(3, text(255), 'Where it was when it was added.'),
  port: field(4, u16, 'Its port there.'),
  standing: field(5, enumOf('voter', 'syncing'), 'Syncing members count in no majority.'),
});

export const groupMembers = list(groupMember, groupMembersMax);

const group = field(1, name, 'Which group.');
const term = field(2, u32, 'Of the sender.');
const round = field(
  3,
  u32,
  'Of heartbeats in this term: an answer that names it proves that the leader was heard since then.',
);

const preVote = message({
  kind: 'preVote',
  tag: 64,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Would you vote for me? Changes nothing. Answered by preVoteReply.',
  fields: {
    group,
    term: field(2, u32, 'In which the sender would stand.'),
    lastIndex: field(3, u53, 'The end of its log.'),
    lastTerm: field(4, u32, 'The term of that entry.'),
  },
});

const preVoteReply = message({
  kind: 'preVoteReply',
  tag: 65,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'The answer to preVote.',
  fields: {
    group,
    term,
    requestedTerm: field(3, u32, 'The term of the question.'),
    granted: field(4, bool, 'No leader was heard within its lease, and the log of the candidate is no older.'),
  },
});

const vote = message({
  kind: 'vote',
  tag: 66,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Vote for me in this term. Answered by voteReply, or not at all while a leader holds its lease.',
  fields: {
    group,
    term,
    lastIndex: field(3, u53, 'The end of its log.'),
    lastTerm: field(4, u32, 'The term of that entry.'),
    releasedTerm: field(5, optional(u32), 'The leader of this term asked the sender to take over,'),
    releasedRound: field(6, optional(u32), 'and has kept no lease that was confirmed after this round.'),
  },
});

const voteReply = message({
  kind: 'voteReply',
  tag: 67,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'The answer to vote, after it is durable.',
  fields: { group, term, granted: field(3, bool, 'One vote per term.') },
});

const append = message({
  kind: 'append',
  tag: 68,
  carrier: 'stream',
  from: voters,
  bytesMax: appendBytesMax,
  doc: 'Entries for the log; without any it is a heartbeat. Answered by appendReply.',
  fields: {
    group,
    term,
    round,
    prevIndex: field(4, u53, 'The entry before the first of these,'),
    prevTerm: field(5, u32, 'and its term: the receiver must have the same.'),
    commitIndex: field(6, u53, 'Everything up to here is agreed.'),
    entries: field(
      7,
      list(bytes(logEntryBytesMax), appendEntriesMax),
      'Each: kind u8 (0 nothing, 1 command, 2 members), term u32 big endian, body.',
    ),
  },
});

const appendReply = message({
  kind: 'appendReply',
  tag: 69,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'The answer to append, after it is durable, and to a finished snapshot.',
  fields: {
    group,
    term,
    round,
    ok: field(4, bool, 'The entry before was the same.'),
    prevIndex: field(5, u53, 'Of the append.'),
    index: field(6, u53, 'If ok: durable up to here and equal. Otherwise: try from here,'),
    hintTerm: field(7, u32, 'where the receiver has this term.'),
    health: field(8, u8, 'Local health, 0 to 8.'),
  },
});

const takeOver = message({
  kind: 'takeOver',
  tag: 70,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Stand for election now, without waiting for my lease: I have given it up.',
  fields: { group, term, round },
});

const snapshotChunk = message({
  kind: 'snapshotChunk',
  tag: 71,
  carrier: 'stream',
  from: voters,
  bytesMax: snapshotChunkBytesMax + 65_536,
  doc: 'A part of the state, for a receiver that lacks entries which are no longer kept. Answered by snapshotReply.',
  fields: {
    group,
    term,
    round,
    lastIndex: field(4, u53, 'The last entry that the state contains,'),
    lastTerm: field(5, u32, 'and its term.'),
    members: field(6, groupMembers, 'Of the group at that entry.'),
    totalBytes: field(7, u53, 'Of the whole state.'),
    checksum: field(8, u32, 'CRC-32 of the whole state.'),
    offset: field(9, u53, 'Where this part belongs.'),
    chunk: field(10, bytes(snapshotChunkBytesMax), 'The part.'),
  },
});

const snapshotReply = message({
  kind: 'snapshotReply',
  tag: 72,
  carrier: 'stream',
  from: voters,
  bytesMax: smallBytesMax,
  doc: 'Go on from here. A complete state is answered by appendReply.',
  fields: {
    group,
    term,
    round,
    lastIndex: field(4, u53, 'Of which state.'),
    offset: field(5, u53, 'What comes next.'),
    health: field(6, u8, 'Local health, 0 to 8.'),
  },
});

export const consensusMessages = [
  preVote,
  preVoteReply,
  vote,
  voteReply,
  append,
  appendReply,
  takeOver,
  snapshotChunk,
  snapshotReply,
] as const;

export type ConsensusMessage = MessageOf<typeof consensusMessages>;
