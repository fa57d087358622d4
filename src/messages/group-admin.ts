/**
 * Messages about a consensus group (who belongs, who leads) and operator commands forwarded to the leader. The leader
 * hint is a hint: fences correct it.
 */
import type { Role } from '../base/ports.ts';
import { createCodec } from './codec/codec.ts';
import { field, optional } from './codec/compound.ts';
import { groupMembers } from './consensus.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, u32, u53, u8 } from './codec/numbers.ts';
import { name, nodeId, text } from './codec/strings.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const argsBytesMax = 1_000_000;
const answerBytesMax = 4_000_000;

const describeGroup = message({
  kind: 'describeGroup',
  tag: 96,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 256,
  doc: 'Asks a node what it knows of a consensus group. Answered by describeGroupReply.',
  fields: { group: field(1, name, 'Name of the group.') },
});

const describeGroupReply = message({
  kind: 'describeGroupReply',
  tag: 97,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 64_000,
  doc: 'Reply to describeGroup.',
  fields: {
    id: field(1, nodeId, 'Id of the replying node.'),
    isCandidate: field(2, bool, 'The node is a manager of the group or is ready to join it.'),
    isMember: field(3, bool, 'The node is a member of the group, voter or syncing.'),
    leader: field(4, optional(nodeId), 'Leader that the node knows.'),
    term: field(5, u32, 'Latest term that the node knows.'),
    members: field(6, groupMembers, 'Members of the group.'),
    appliedIndex: field(7, u53, 'Index of the last entry that the node applied.'),
    managers: field(8, groupMembers, 'Managers that the node knows, inside or outside the group.'),
  },
});

const adminCommand = message({
  kind: 'adminCommand',
  tag: 98,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: argsBytesMax + 256,
  doc: 'A command of an operator for the leader; other nodes forward it. Answered by adminCommandReply or an error.',
  fields: {
    verb: field(1, name, 'Name of the command.'),
    args: field(2, text(argsBytesMax), 'Arguments: JSON.'),
    hops: field(3, u8, 'How often the command was forwarded.'),
  },
});

const adminCommandReply = message({
  kind: 'adminCommandReply',
  tag: 99,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: answerBytesMax + 256,
  doc: 'Reply to adminCommand.',
  fields: { answer: field(1, text(answerBytesMax), 'Result: JSON.') },
});

const leaderHint = message({
  kind: 'leaderHint',
  tag: 100,
  carrier: 'datagram',
  from: ['gate', 'manager'],
  bytesMax: 128,
  doc: 'The leader that a manager knows, in its embedded state. A hint: fences correct a wrong one.',
  fields: {
    term: field(1, u32, 'Latest term that the manager knows.'),
    leader: field(2, optional(nodeId), 'Leader of that term, if known.'),
    since: field(3, optional(u53), 'Log index of the election.'),
  },
});

/** Part of the embedded state of a member, never sent alone, so not in the catalogue. */
export const leaderHintCodec = createCodec([leaderHint]);
export type LeaderHint = MessageOf<readonly [typeof leaderHint]>;

export const groupAdminMessages = [describeGroup, describeGroupReply, adminCommand, adminCommandReply] as const;
