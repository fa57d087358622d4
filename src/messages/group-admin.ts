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

const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const orderBytesMax = 1_000_000;
const orderAnswerBytesMax = 4_000_000;

const askGroup = message({
  kind: 'askGroup',
  tag: 96,
  carrier: 'stream',
  from: members,
  bytesMax: 256,
  doc: 'What do you know of the group that decides in this datacenter? Answered by toldGroup.',
  fields: { group: field(1, name, 'The group.') },
});

const toldGroup = message({
  kind: 'toldGroup',
  tag: 97,
  carrier: 'stream',
  from: members,
  bytesMax: 64_000,
  doc: 'The answer to askGroup.',
  fields: {
    id: field(1, nodeId, 'Of the one who answers.'),
    isCandidate: field(2, bool, 'It is a manager of that group, or would like to be.'),
    isMember: field(3, bool, 'It is a member of that group, as a voter or not yet.'),
    leader: field(4, optional(nodeId), 'Who leads, as far as it knows.'),
    term: field(5, u32, 'The latest term it knows.'),
    members: field(6, groupMembers, 'Who belongs to it.'),
    appliedIndex: field(7, u53, 'How far it has followed what was agreed.'),
    managers: field(8, groupMembers, 'Managers of whom it has heard, inside or outside the group.'),
  },
});

const order = message({
  kind: 'order',
  tag: 98,
  carrier: 'stream',
  from: members,
  bytesMax: orderBytesMax + 256,
  doc: 'Something that an operator wants done by the leader. Answered by orderDone or an error.',
  fields: {
    verb: field(1, name, 'What.'),
    args: field(2, text(orderBytesMax), 'With which arguments: JSON.'),
    hops: field(3, u8, 'How often it was passed on already.'),
  },
});

const orderDone = message({
  kind: 'orderDone',
  tag: 99,
  carrier: 'stream',
  from: members,
  bytesMax: orderAnswerBytesMax + 256,
  doc: 'The answer to order.',
  fields: { answer: field(1, text(orderAnswerBytesMax), 'JSON.') },
});

const leadershipNotice = message({
  kind: 'leadershipNotice',
  tag: 100,
  carrier: 'datagram',
  from: ['gate', 'manager'],
  bytesMax: 128,
  doc: 'Who leads, as a manager tells everybody with its embedded state. A hint: who acts on it is corrected by the fence.',
  fields: {
    term: field(1, u32, 'The latest term that the manager knows.'),
    leader: field(2, optional(nodeId), 'Who leads in it, if anybody.'),
    since: field(3, optional(u53), 'Since which entry of the log.'),
  },
});

/** Embedded in the state of a member and never a message of its own, so not in the catalogue. */
export const leaderHintCodec = createCodec([leadershipNotice]);
export type LeaderHint = MessageOf<readonly [typeof leadershipNotice]>;

export const groupAdminMessages = [askGroup, toldGroup, order, orderDone] as const;
