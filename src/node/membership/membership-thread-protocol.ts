/**
 * Messages between main thread and membership thread, in the codec of the wire. They never leave the process, so they
 * have numbers of their own.
 */
import { createCodec } from '../../messages/codec/codec.ts';
import { field, list, optional, record } from '../../messages/codec/compound.ts';
import { memberView } from '../../messages/diagnostics.ts';
import { embeddedPart, embeddingRoles } from '../../messages/membership.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { nodeEntry } from '../../messages/node-entry.ts';
import { bool, enumOf, stateChanged, u16, u32, u53 } from '../../messages/codec/numbers.ts';
import { bytes, nodeId, text } from '../../messages/codec/strings.ts';
import { membershipEventTypes } from '../../membership/state/membership-event.ts';

const bodyBytesMax = 9_000_000;
const wordBytesMax = 9_500_000;
const peersMax = 1_000;
const rowsMax = 1_000;
const viewBytesMax = 2_000;
const countersMax = 1_000;
const secretBytesMax = 4_096;

let nextTag = 1;

function word<const K extends string, F extends Parameters<typeof message>[0]['fields']>(kind: K, fields: F) {
  const rest = { carrier: 'stream', from: ['worker'], bytesMax: wordBytesMax, doc: kind } as const;
  return message({ kind, tag: nextTag++, ...rest, fields });
}

const address = record('address', { host: field(1, text(255), 'Host.'), port: field(2, u16, 'Port.') });
const peer = record('peer', {
  id: field(1, nodeId, 'Who.'),
  host: field(2, text(255), 'Host.'),
  port: field(3, u16, 'Port.'),
});
const write = record('write', {
  key: field(1, text(200), 'Where.'),
  value: field(2, optional(bytes(bodyBytesMax)), 'What; nothing removes it.'),
});
const counter = record('counter', {
  name: field(1, text(200), 'Name.'),
  value: field(2, u53, 'How often.'),
});
const call = field(1, u32, 'Which question.');
const code = text(40);

/** Read only when somebody asks for it: the members are reported more often than they are looked at. */
const reported = record('reported', {
  id: field(1, nodeId, 'Of whom.'),
  view: field(2, bytes(viewBytesMax), 'As viewCodec wrote it.'),
});
const viewWord = message({
  ...{ kind: 'view', tag: 1, carrier: 'stream', from: ['worker'], bytesMax: viewBytesMax, doc: 'view' },
  fields: { view: field(1, memberView, 'As it is now.') },
});

/** From the main thread. */
const toThread = [
  word('start', {
    incarnation: field(1, u32, 'Of the last life.'),
    known: field(2, list(address, peersMax), 'Members of the last life.'),
  }),
  word('join', { seeds: field(1, list(address, peersMax), 'Whom to ask as well.') }),
  word('beat', {}),
  word('disconnected', {
    peer: field(1, nodeEntry, 'From whom.'),
    reason: field(2, text(500), 'Why.'),
    graceful: field(3, bool, 'By one of the two.'),
  }),
  word('refused', { address: field(1, address, 'Where.'), reason: field(2, text(500), 'Why.') }),
  word('answered', { call, body: field(2, bytes(bodyBytesMax), 'The answer.') }),
  word('unanswered', { call, code: field(2, code, 'Why.'), stateChanged: field(3, stateChanged, 'By the request.') }),
  word('asked', { call, from: field(2, nodeEntry, 'By whom.'), body: field(3, bytes(bodyBytesMax), 'What.') }),
  word('embed', {
    role: field(1, enumOf(...embeddingRoles), 'Who wants it known.'),
    state: field(2, bytes(512), 'What.'),
  }),
  word('cutOff', { peers: field(1, list(peer, peersMax), 'Exactly these, until the next word.') }),
  word('secrets', {
    current: field(1, optional(text(secretBytesMax)), 'What is sealed with from now on.'),
    previous: field(2, list(text(secretBytesMax), 16), 'What is accepted besides.'),
  }),
  word('leave', { reason: field(1, text(200), 'For people.') }),
] as const;

/** From the membership thread. */
const fromThread = [
  word('opened', { port: field(1, u16, 'Of the datagrams.') }),
  word('failed', { code: field(1, code, 'Why.'), text: field(2, text(2_000), 'For people.') }),
  word('request', {
    call,
    to: field(2, address, 'Whom to ask.'),
    timeoutMs: field(3, u53, 'How long to wait.'),
    body: field(4, bytes(bodyBytesMax), 'What.'),
  }),
  word('reply', { call, body: field(2, bytes(bodyBytesMax), 'To asked.') }),
  word('noReply', { call, code: field(2, code, 'Why.'), stateChanged: field(3, stateChanged, 'By the request.') }),
  word('event', {
    type: field(1, enumOf(...membershipEventTypes), 'What happened.'),
    id: field(2, nodeId, 'To whom.'),
    name: field(3, text(63), 'Its name.'),
    generation: field(4, u32, 'In which life.'),
    incarnation: field(5, u32, 'In which incarnation.'),
    why: field(6, text(2_000), 'For people.'),
    accusers: field(7, list(text(63), 100), 'By name.'),
    refusedTo: field(8, list(text(63), 100), 'By name.'),
    portIsClosed: field(9, bool, 'To enough of them.'),
  }),
  word('embedded', {
    id: field(1, nodeId, 'Whose.'),
    generation: field(2, u32, 'Of which life.'),
    version: field(3, u32, 'Grows within a life.'),
    parts: field(4, list(embeddedPart, embeddingRoles.length), 'By role.'),
  }),
  word('remember', { writes: field(1, list(write, 16), 'For the store.') }),
  word('members', {
    changed: field(1, list(reported, rowsMax), 'As they are now.'),
    forgotten: field(2, list(nodeId, rowsMax), 'No longer known.'),
  }),
  word('counters', {
    membership: field(1, list(counter, countersMax), 'Those that changed.'),
    transport: field(2, list(counter, countersMax), 'The same of the datagrams.'),
  }),
  word('joined', {}),
  word('wantBeat', {}),
  word('departed', {}),
  word('halted', { error: field(1, text(2_000), 'A mistake of ours.') }),
] as const;

export const memberRowsMax = rowsMax;

export type ToMembershipThread = MessageOf<typeof toThread>;
export type FromMembershipThread = MessageOf<typeof fromThread>;

export const toMembershipThreadCodec = createCodec(toThread);
export const fromMembershipThreadCodec = createCodec(fromThread);
export const memberViewCodec = createCodec([viewWord]);
