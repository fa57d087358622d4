/**
 * Heartbeats by TCP, for members without datagrams and as a second opinion on the others. One exchange serves both
 * sides: the ping is a sign of life for the manager that hears it and a question for the worker that sent it; the
 * answer tells the worker what the group believes of it. Both carry news, as ping and ack do.
 */
import { datagramBytesMax } from '../base/ports.ts';
import { field, optional } from './codec/compound.ts';
import { ack } from './membership.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u32, u8 } from './codec/numbers.ts';

const members = ['gate', 'manager', 'worker'] as const;

export const pushPing = message({
  kind: 'pushPing',
  tag: 46,
  carrier: 'stream',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'I live; do you? Answered by pushAck. The first one of a member without datagrams is its join.',
  fields: {
    incarnation: field(1, u32, 'Of the sender: raised when it changes its manager and when it was given up.'),
    seq: field(2, u32, 'Named again in the pushAck.'),
    claims: field(3, ack.fields.claims.kind, 'Gossip.'),
    hearsYou: field(4, bool, 'The last question to this receiver was answered: both directions work.'),
    datagrams: field(5, bool, 'The sender also answers datagrams, so others judge it too.'),
    health: field(6, u8, 'Local health, 0 to 8.'),
    stuck: field(7, bool, 'The main loop of the sender does not move.'),
    lagMs: field(8, u32, 'How late the main loop of the sender was lately.'),
    viewHash: field(9, u32, 'Equal views have equal hashes.'),
    stateVersion: field(10, optional(u32), 'Of the embedded state.'),
    state: field(11, ack.fields.state.kind, 'The embedded state, as in ack, when the receiver does not have it yet.'),
  },
});

export const pushAck = message({
  kind: 'pushAck',
  tag: 47,
  carrier: 'stream',
  from: members,
  bytesMax: datagramBytesMax,
  doc: 'I heard you, and this is what the group believes of you.',
  fields: {
    incarnation: field(1, u32, 'Of the one who answers.'),
    seq: field(2, u32, 'Of the pushPing.'),
    claims: field(3, ack.fields.claims.kind, 'Gossip.'),
    verdict: field(
      4,
      enumOf('member', 'accused', 'superseded'),
      'Accused of being dead, suspect or gone: raise the incarnation above `known`. Superseded by a later life: end.',
    ),
    known: field(5, u32, 'The incarnation in which the group knows the one who asked.'),
    viewHash: field(6, u32, 'Of the one who answers: when it differs, exchange views.'),
    stateVersion: field(7, optional(u32), 'Of the embedded state that the one who answers has of the one who asked.'),
  },
});

export const pushMessages = [pushPing, pushAck] as const;

export type PushMessage = MessageOf<typeof pushMessages>;
